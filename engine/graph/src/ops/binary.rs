//! `add`, `mul`, `less` and other functions of two tensors' elements.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::BinaryParams;
use wisp_types::DType;

use super::{
    Inferred, Op, OpRules,
    operands::{broadcast, expect_dtype, expect_tensors},
    scaled_add::{Contiguous, lower_contiguous},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// A function of two tensors' elements, whose shapes are broadcast.
///
/// Operands: `a`, `b`, both `f32` or both `u32`. Result: of their common shape, and their type, but `u32`
/// 1 or 0 for a comparison. The op is called after the function: `add`, `less_equal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Binary {
    /// `a + b`; of `u32`, modulo 2^32.
    Add = 0,
    /// `a - b`; of `u32`, modulo 2^32.
    Sub = 1,
    /// `a * b`; of `u32`, modulo 2^32.
    Mul = 2,
    /// `a / b`; of `u32`, rounded down, and `a` where `b` is 0.
    Div = 3,
    /// `|a|^b`, negated where `a` is negative and `b` odd; of `f32`.
    Pow = 4,
    /// The smaller of both.
    Min = 5,
    /// The larger of both.
    Max = 6,
    /// `a == b`.
    Equal = 7,
    /// `a != b`.
    NotEqual = 8,
    /// `a < b`.
    Less = 9,
    /// `a <= b`.
    LessEqual = 10,
    /// `a > b`.
    Greater = 11,
    /// `a >= b`.
    GreaterEqual = 12,
    /// 1 where neither is 0; of `u32`.
    And = 13,
    /// 1 where at least one is not 0; of `u32`.
    Or = 14,
}

impl Binary {
    /// Returns the op's name, such as `add` or `less_equal`.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Pow => "pow",
            Binary::Min => "min",
            Binary::Max => "max",
            Binary::Equal => "equal",
            Binary::NotEqual => "not_equal",
            Binary::Less => "less",
            Binary::LessEqual => "less_equal",
            Binary::Greater => "greater",
            Binary::GreaterEqual => "greater_equal",
            Binary::And => "and",
            Binary::Or => "or",
        }
    }

    /// Returns the element type that the function is limited to, if it is.
    fn only_dtype(self) -> Option<DType> {
        match self {
            Binary::Pow => Some(DType::F32),
            Binary::And | Binary::Or => Some(DType::U32),
            _ => None,
        }
    }

    fn result_dtype(self, operands: DType) -> DType {
        match (self as u32) < Binary::Equal as u32 {
            true => operands,
            false => DType::U32,
        }
    }
}

impl From<Binary> for Op {
    fn from(op: Binary) -> Op {
        Op::Binary(op)
    }
}

impl OpRules for Binary {
    fn name(&self) -> &'static str {
        Binary::name(*self)
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [a, b] = operands else {
            return Err(OpProblem::operand_count("a and b", operands.len()));
        };
        expect_tensors(operands)?;
        if let Some(dtype) = self.only_dtype() {
            expect_dtype(a, "a", dtype)?;
        }
        expect_dtype(b, "b", a.dtype)?;
        Ok(vec![TensorType {
            dtype: self.result_dtype(a.dtype),
            shape: broadcast(&a.shape, &b.shape)?,
        }])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [a, b] = [node.inputs[0], node.inputs[1]].map(|id| op.value(id));
        let repeats = a.dtype == DType::F32 && a.shape.0.ends_with(&b.shape.0);
        match self {
            Binary::Add if repeats => lower_contiguous(node, op, Contiguous::Add),
            Binary::Mul if repeats => lower_contiguous(node, op, Contiguous::Mul),
            _ => self.lower_strided(node, op),
        }
    }
}

impl Binary {
    /// Lowers to the kernel that reads both operands by strides over the result's dimensions.
    fn lower_strided(
        self,
        node: NodeValues<'_>,
        op: &mut OpLowering<'_>,
    ) -> Result<(), LoweringError> {
        let out = op.dims(node.outputs[0]);
        let strides = node.inputs.iter().map(|id| op.broadcast_strides(*id, out));
        let strides = strides.collect();
        let sizes = op.sizes(out);
        let (dims, strides) = op.merge(sizes, strides)?;
        let of_u32 = op.value(node.inputs[0]).dtype == DType::U32;
        let fixed = BinaryParams {
            rank: dims.len() as u32,
            kind: self as u32,
            is_u32: of_u32.into(),
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(
                BinaryParams,
                len = op.size(out),
                dims = dims,
                a_strides = strides[0],
                b_strides = strides[1],
            ),
        );
        op.call_over_elements("binary", node, params)
    }
}

impl Graph {
    /// Applies a function to each pair of elements; the shapes are broadcast.
    ///
    /// # Errors
    ///
    /// If the element types differ or are not the function's, or the shapes cannot be broadcast.
    pub fn binary(
        &mut self,
        function: Binary,
        a: ValueId,
        b: ValueId,
    ) -> Result<ValueId, GraphError> {
        self.add(function, &[a, b])
    }
}
