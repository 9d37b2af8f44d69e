//! Kernels that were measured to be faster on a device than those that the table of variants puts first.
//!
//! The order of [`wisp_shaders::candidates`] is a guess that has to suit every device of a class. A
//! [`Tuning`] replaces it, op by op and shape by shape, where a measurement says otherwise. It chooses only
//! among kernels that the guess could have chosen: a kernel that does not fit the target, belongs to another
//! op or does not exist makes its entry count as absent. So a tuning from an untrusted file can make a
//! program slow, but not wrong.

mod adapters;

use serde::{Deserialize, Serialize};
use wisp_graph::lowering::Size;
use wisp_shaders::Kernel;

use crate::program::{Call, KernelChoice};

/// What the choice of a call's kernels depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallShape {
    /// The op, with its encoding or cache format if it has one: `matmul.q4_k`.
    pub op: String,
    /// The width of the rows that the kernel reads; 0 for an op whose variants do not depend on it.
    pub cols: u64,
    /// The first dimension of the grid, such as the rows of a weight or the heads of an attention; 0 if a
    /// run decides it.
    pub width: u64,
}

impl CallShape {
    /// Returns the shape of a program's call; `None` if it is a custom op's.
    pub fn of(call: &Call) -> Option<CallShape> {
        let kernel = wisp_shaders::kernel(&call.kernels.first()?.name)?;
        Some(CallShape::new(kernel.op, call.cols, &call.grid[0]))
    }

    /// Returns the shape of calls of an op with this first dimension of the grid.
    pub(crate) fn new(op: impl Into<String>, cols: u64, across: &Size) -> CallShape {
        CallShape {
            op: op.into(),
            cols,
            width: if across.dims.is_empty() {
                across.factor
            } else {
                0
            },
        }
    }
}

/// The kernels of all calls of one shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedCall {
    /// The shape; 0 columns or width stand for any.
    pub shape: CallShape,
    /// The kernels, those for few rows first, the last one for any number.
    pub kernels: Vec<KernelChoice>,
}

/// Kernels that are faster on a device than those that the table of variants puts first.
///
/// ```
/// use wisp_compiler::{CallShape, KernelChoice, TunedCall, Tuning};
///
/// let shape = CallShape { op: "matmul.q4_0".into(), cols: 4096, width: 4096 };
/// let kernels = vec![KernelChoice { name: "matmul.q4_0.baseline".into(), max_rows: u32::MAX }];
/// let tuning = Tuning::new(vec![TunedCall { shape, kernels }]);
/// assert!(tuning.is_current() && !tuning.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// The fingerprint of the kernels that were measured, in hexadecimal digits.
    kernels: String,
    /// The calls with other kernels than the table's. The first one with a call's shape counts.
    calls: Vec<TunedCall>,
}

/// Returns the fingerprint of this build's kernels in hexadecimal digits.
fn fingerprint() -> String {
    let bytes = wisp_shaders::fingerprint().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

impl Tuning {
    /// The most calls of a tuning: those of dozens of models.
    pub const MAX_CALLS: usize = 4096;

    /// Creates a tuning of this build's kernels; calls beyond [`Self::MAX_CALLS`] are left out.
    pub fn new(mut calls: Vec<TunedCall>) -> Tuning {
        calls.truncate(Tuning::MAX_CALLS);
        Tuning {
            kernels: fingerprint(),
            calls,
        }
    }

    /// Returns the calls with other kernels than the table's.
    pub fn calls(&self) -> &[TunedCall] {
        &self.calls
    }

    /// Returns whether the tuning changes no choice.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns whether the tuning is of this build's kernels and of a plausible size. Any other is ignored.
    pub fn is_current(&self) -> bool {
        self.kernels == fingerprint() && self.calls.len() <= Tuning::MAX_CALLS
    }

    /// Returns this tuning, followed by the calls of another one that it does not have.
    #[must_use]
    pub fn followed_by(self, other: Tuning) -> Tuning {
        let mut calls = if self.is_current() {
            self.calls
        } else {
            Vec::new()
        };
        let others = if other.is_current() {
            other.calls
        } else {
            Vec::new()
        };
        for call in others {
            if calls.iter().all(|known| known.shape != call.shape) {
                calls.push(call);
            }
        }
        Tuning::new(calls)
    }

    /// Returns the tuning without the calls of some shapes.
    #[must_use]
    pub fn without(mut self, is_dropped: impl Fn(&CallShape) -> bool) -> Tuning {
        self.calls.retain(|call| !is_dropped(&call.shape));
        self
    }

    /// Returns the kernels for calls of a shape; `None` if the tuning has none, or not all of them fit.
    pub(crate) fn kernels_for(
        &self,
        shape: &CallShape,
        fits: impl Fn(&Kernel) -> bool,
    ) -> Option<&[KernelChoice]> {
        if self.is_empty() || !self.is_current() {
            return None;
        }
        let any_or = |tuned: u64, own: u64| tuned == 0 || tuned == own;
        let is_for = |call: &&TunedCall| {
            call.shape.op == shape.op
                && any_or(call.shape.cols, shape.cols)
                && any_or(call.shape.width, shape.width)
        };
        let call = self.calls.iter().find(is_for)?;
        let mut served = 0;
        for KernelChoice { name, max_rows } in &call.kernels {
            let kernel = wisp_shaders::kernel(name)?;
            let is_next = served < *max_rows && *max_rows <= kernel.max_grid_y;
            if kernel.op != shape.op || !is_next || !fits(kernel) {
                return None;
            }
            served = *max_rows;
        }
        (served == u32::MAX).then_some(&call.kernels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OP: &str = "matmul.q4_0";

    fn shape(cols: u64, width: u64) -> CallShape {
        CallShape {
            op: OP.into(),
            cols,
            width,
        }
    }

    fn choice(variant: &str, max_rows: u32) -> KernelChoice {
        KernelChoice {
            name: format!("{OP}.{variant}"),
            max_rows,
        }
    }

    fn tuned(cols: u64, width: u64, kernels: &[KernelChoice]) -> TunedCall {
        TunedCall {
            shape: shape(cols, width),
            kernels: kernels.to_vec(),
        }
    }

    fn names(tuning: &Tuning, shape: &CallShape) -> Option<Vec<String>> {
        let kernels = tuning.kernels_for(shape, |_| true)?;
        Some(kernels.iter().map(|choice| choice.name.clone()).collect())
    }

    #[test]
    fn the_first_entry_of_a_shape_counts_and_zero_is_any_size() {
        let any = u32::MAX;
        let tuning = Tuning::new(vec![
            tuned(64, 32, &[choice("tile8x4", any)]),
            tuned(64, 0, &[choice("baseline", any)]),
        ]);
        let of = |cols, width| names(&tuning, &shape(cols, width));
        assert_eq!(of(64, 32).unwrap(), ["matmul.q4_0.tile8x4"]);
        assert_eq!(of(64, 96).unwrap(), ["matmul.q4_0.baseline"]);
        assert_eq!(of(32, 32), None);
        let more = Tuning::new(vec![tuned(64, 32, &[choice("baseline", any)])]);
        assert_eq!(more.followed_by(tuning).calls().len(), 2);
    }

    #[test]
    fn entries_that_do_not_fit_are_ignored() {
        let any = u32::MAX;
        let few = wisp_shaders::candidates(OP).find(|kernel| kernel.max_grid_y != any);
        let few = few.unwrap();
        let few_rows = |max_rows| KernelChoice {
            name: few.name.into(),
            max_rows,
        };
        let foreign = KernelChoice {
            name: "softmax.baseline".into(),
            max_rows: any,
        };
        let ignored: [&[KernelChoice]; 7] = [
            &[],
            &[choice("teleport", any)],
            &[foreign],
            // No kernel for any number of rows, one beyond its own limit, and limits that do not ascend.
            &[few_rows(few.max_grid_y)],
            &[few_rows(any)],
            &[choice("tile8x4", any), choice("baseline", any)],
            &[choice("tile8x4", 0), choice("baseline", any)],
        ];
        for kernels in ignored {
            let tuning = Tuning::new(vec![tuned(64, 32, kernels)]);
            assert_eq!(names(&tuning, &shape(64, 32)), None, "{kernels:?}");
        }
        let tuning = Tuning::new(vec![tuned(64, 32, &[few_rows(1), choice("tile8x4", any)])]);
        assert!(names(&tuning, &shape(64, 32)).is_some());
        assert_eq!(tuning.kernels_for(&shape(64, 32), |_| false), None);
    }

    #[test]
    fn a_tuning_of_other_kernels_is_ignored_as_a_whole() {
        let calls = vec![tuned(64, 32, &[choice("tile8x4", u32::MAX)])];
        let stale = Tuning {
            kernels: "00".repeat(32),
            ..Tuning::new(calls.clone())
        };
        assert!(!stale.is_current());
        assert_eq!(names(&stale, &shape(64, 32)), None);
        assert!(Tuning::default().followed_by(stale).is_empty());
        let huge = Tuning {
            calls: vec![calls[0].clone(); Tuning::MAX_CALLS + 1],
            ..Tuning::new(Vec::new())
        };
        assert_eq!(names(&huge, &shape(64, 32)), None);
    }
}
