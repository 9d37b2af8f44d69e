//! `rope`: rotary position embedding in place.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use wisp_shaders::params::RopeParams;
use wisp_types::DType;

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_dtype, expect_index, expect_width},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Rotary position embedding (Su et al. 2021) of the heads of a projection, in place, by angles from a
/// table.
///
/// Operands: `x f32 [tokens, heads * head_dim]`, which is overwritten; `index u32 [tokens, 2]`, each token's
/// sequence and position; `table f32 [positions, rotary_dim]`, for each position the cosine and sine of
/// each angle in turn. Result: as `x`. For tensors of any rank see [`Graph::rope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RopeSpec {
    /// The heads to rotate.
    pub heads: HeadSpec,
    /// How many elements of each head rotate, from the first on; with 0 the table is not read.
    pub rotary_dim: u32,
    /// Whether elements `2 i` and `2 i + 1` are a pair, rather than `i` and `i + rotary_dim / 2`.
    pub interleaved: bool,
}

/// The heads of a projection: its rows are `heads * head_dim` wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadSpec {
    /// The number of heads.
    pub heads: u32,
    /// Elements of one head.
    pub head_dim: u32,
}

impl HeadSpec {
    /// Returns the number of elements of all heads together.
    pub fn width(self) -> u64 {
        u64::from(self.heads) * u64::from(self.head_dim)
    }
}

impl From<RopeSpec> for Op {
    fn from(op: RopeSpec) -> Op {
        Op::Rope(op)
    }
}

impl OpRules for RopeSpec {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x, index, table] = operands else {
            let expected = "x, index and table";
            return Err(OpProblem::operand_count(expected, operands.len()));
        };
        expect(x, "x", DType::F32, 2)?;
        expect_width(x, "x", self.heads.width())?;
        expect_index(index, x)?;
        expect_dtype(table, "the table", DType::F32)?;
        if self.rotary_dim > 0 {
            expect_width(table, "the table", self.rotary_dim.into())?;
        }
        if !self.rotary_dim.is_multiple_of(2) || self.rotary_dim > self.heads.head_dim {
            return Err(OpProblem::Settings(format!(
                "rotary_dim ({}) must be even and at most head_dim ({})",
                self.rotary_dim, self.heads.head_dim
            )));
        }
        Ok(vec![TensorType::f32(x.shape.clone())])
    }

    fn overwrites(&self, operands: usize) -> Range<usize> {
        0..operands.min(1)
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let tokens = op.rows(node.inputs[0]);
        let bindings = op.operands(node.inputs)?;
        op.alias(node.outputs[0], bindings[0]);
        let fixed = RopeParams {
            tokens: 0,
            heads: self.heads.heads,
            head_dim: self.heads.head_dim,
            rotary_dim: self.rotary_dim,
            stride: op.cols(node.inputs[0])?,
            offset: 0,
            interleaved: self.interleaved.into(),
        };
        let params = params(&fixed, runtime_fields!(RopeParams, tokens = tokens));
        let pairs = u64::from(self.rotary_dim / 2) * u64::from(self.heads.heads);
        op.call("rope", [Size::fixed(pairs), tokens], params, bindings)
    }
}

impl Graph {
    /// Rotates the heads of a projection in place; see [`RopeSpec`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit the heads or each other.
    pub fn rope_in_place(
        &mut self,
        x: ValueId,
        index: ValueId,
        table: ValueId,
        spec: RopeSpec,
    ) -> Result<ValueId, GraphError> {
        self.add(spec, &[x, index, table])
    }
}
