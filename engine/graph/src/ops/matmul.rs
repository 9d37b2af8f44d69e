//! `matmul`: product of matrices that are values.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::BatchMatmulParams;
use wisp_types::{DType, Shape};

use super::{
    Inferred, Op, OpRules,
    operands::{broadcast, expect_dtype, expect_tensors},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Product of matrices. For a product with a weight of the checkpoint [`Linear`](super::Linear) is faster.
///
/// Operands: `a f32 [.., m, k]`, `b f32 [.., k, n]`; a transposed operand has its last two dimensions
/// exchanged. Result: `f32 [.., m, n]`; the outer dimensions are broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatMul {
    /// `a` is `[.., k, m]`.
    pub transpose_a: bool,
    /// `b` is `[.., n, k]`.
    pub transpose_b: bool,
}

impl From<MatMul> for Op {
    fn from(op: MatMul) -> Op {
        Op::MatMul(op)
    }
}

impl OpRules for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [a, b] = operands else {
            return Err(OpProblem::operand_count("a and b", operands.len()));
        };
        expect_tensors(operands)?;
        expect_dtype(a, "a", DType::F32)?;
        expect_dtype(b, "b", DType::F32)?;
        let (Some((a_outer, a_matrix)), Some((b_outer, b_matrix))) = (
            a.shape.0.split_last_chunk::<2>(),
            b.shape.0.split_last_chunk::<2>(),
        ) else {
            return Err(OpProblem::Mismatch(format!(
                "a {} and b {} must have at least 2 dimensions",
                a.shape, b.shape
            )));
        };
        let [mut m, mut k] = a_matrix.each_ref();
        if self.transpose_a {
            (m, k) = (k, m);
        }
        let [mut inner, mut n] = b_matrix.each_ref();
        if self.transpose_b {
            (inner, n) = (n, inner);
        }
        if k != inner {
            return Err(OpProblem::Mismatch(format!(
                "a has {k} columns, but b has {inner} rows"
            )));
        }
        let mut shape = broadcast(&Shape(a_outer.to_vec()), &Shape(b_outer.to_vec()))?;
        shape.0.extend([m.clone(), n.clone()]);
        Ok(vec![TensorType::f32(shape)])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let out = op.dims(node.outputs[0]);
        let Some((batch, [m, n])) = out.split_last_chunk::<2>() else {
            return Ok(());
        };
        // Each operand's strides over the batch, then from row to row and from column to column.
        let transposed = [self.transpose_a, self.transpose_b];
        let (mut over_batch, mut over_matrix) = (Vec::new(), Vec::new());
        for (id, transposed) in node.inputs.iter().zip(transposed) {
            let own = op.dims(*id);
            let dims = [batch, &own[own.len() - 2..]].concat();
            let mut strides = op.broadcast_strides(*id, &dims);
            let mut matrix = strides.split_off(batch.len());
            if transposed {
                matrix.reverse();
            }
            over_batch.push(strides);
            over_matrix.push(matrix);
        }
        let sizes = op.sizes(batch);
        let (dims, strides) = op.merge(sizes, over_batch)?;
        let a = op.dims(node.inputs[0]);
        let k = &a[a.len() - 1 - usize::from(self.transpose_a)];
        let [m, n, k] = [m, n, k].map(|dim| op.size(std::slice::from_ref(dim)));
        let fixed = BatchMatmulParams {
            rank: dims.len() as u32,
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(
                BatchMatmulParams,
                len = op.elements(node.outputs[0]),
                m = m,
                n = n,
                k = k,
                a_row = over_matrix[0][0],
                a_col = over_matrix[0][1],
                b_row = over_matrix[1][0],
                b_col = over_matrix[1][1],
                dims = dims,
                a_strides = strides[0],
                b_strides = strides[1],
            ),
        );
        op.call_over_elements("batch_matmul", node, params)
    }
}

impl Graph {
    /// Multiplies `[.., m, k]` by `[.., k, n]`; outer dimensions are broadcast.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit, or an operand is not `f32`.
    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, GraphError> {
        self.matmul_transposed(a, b, [false, false])
    }

    /// Multiplies as [`Self::matmul`], with the last two dimensions of `a`, of `b` or of both exchanged.
    ///
    /// # Errors
    ///
    /// As [`Self::matmul`].
    pub fn matmul_transposed(
        &mut self,
        a: ValueId,
        b: ValueId,
        [transpose_a, transpose_b]: [bool; 2],
    ) -> Result<ValueId, GraphError> {
        let matmul = MatMul {
            transpose_a,
            transpose_b,
        };
        self.add(matmul, &[a, b])
    }
}
