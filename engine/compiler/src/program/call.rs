//! Kernel calls.

use serde::{Deserialize, Serialize};
use wisp_graph::{
    extension::expression::{Expression, ValueError},
    lowering::{ParamWord, RunCondition, Size},
};
use wisp_shaders::OpKind;

use super::BufferRef;

/// A kernel that can do a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelChoice {
    /// The kernel's name.
    pub name: String,
    /// The largest second dimension of the grid that the kernel is meant for; `u32::MAX` is any.
    pub max_rows: u32,
}

/// One kernel call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// What the call computes, for messages and profiles: the op, and the weight if it has one.
    pub label: String,
    /// The kernels that can do it, those for few rows first: a run takes the first that is meant for its
    /// rows.
    pub kernels: Vec<KernelChoice>,
    /// The width of the rows that the kernels read, on which their choice depends; 0 if it does not.
    pub cols: u64,
    /// The number of elements that the call covers, in x and in y.
    pub grid: [Size; 2],
    /// The numbers of workgroups in x, y and z, if they do not follow from the grid: of a custom op.
    pub workgroups: Option<[Expression<Size>; 3]>,
    /// The parameters, binding 0.
    pub params: Vec<ParamWord>,
    /// Bindings 1 and on.
    pub bindings: Vec<BufferRef>,
    /// What must hold of a run's sizes for the call to be made: all of these.
    pub conditions: Vec<RunCondition>,
}

impl Call {
    /// Returns the numbers of workgroups in x, y and z if the call is a custom op's.
    ///
    /// # Errors
    ///
    /// If they cannot be calculated from these dimensions, for example because one would be negative.
    pub fn custom_workgroups(&self, dims: &[u64]) -> Option<Result<[u64; 3], ValueError>> {
        let [x, y, z] = self.workgroups.as_ref()?;
        let count = |expression: &Expression<Size>| {
            expression.value(|size| size.eval(dims).ok_or(ValueError::TooLarge))
        };
        let all = || Ok([count(x)?, count(y)?, count(z)?]);
        Some(all())
    }

    /// Returns whether a run with these dimensions makes the call, or `None` if a size of its conditions
    /// cannot be calculated.
    pub fn is_made(&self, dims: &[u64]) -> Option<bool> {
        let mut conditions = self.conditions.iter();
        conditions.try_fold(true, |made, condition| Some(made & condition.holds(dims)?))
    }

    /// Returns false if no run with dimensions up to these makes the call.
    pub fn may_be_made(&self, max_dims: &[u64]) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| condition.may_hold(max_dims))
    }

    /// True if the call multiplies by its matrix, rather than reading single rows of it.
    pub fn is_product(&self) -> bool {
        let mut kernels = self.kernels.iter();
        kernels.any(|choice| matches!(OpKind::of(&choice.name), OpKind::Matmul { .. }))
    }
}
