//! `lora`: low-rank adapters on linear layers.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use wisp_types::{DType, Dim};

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_buffer, expect_same_rows},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    value::{TensorType, Value, ValueId},
};

/// Adds what low-rank adapters contribute to up to three linear layers of the same `x` (Hu et al. 2021):
/// `b[i - 1] a[i - 1] x` for a token of a sequence with adapter `i`, counted from 1, and nothing for 0.
///
/// Operands: `x f32 [tokens, cols]`; `index u32 [tokens, 2]`, each token's sequence and position; `adapters
/// u32 [batch]`, each sequence's adapter; `a`, a buffer `[slots, n * rank, cols]`; `b`, a buffer `[slots,
/// rank, rows of all n layers]`; then the `n` layers' results `f32 [tokens, rows]`, which are overwritten.
/// Results: these `n`, with the adapters' contributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lora;

/// The operands of [`Lora`] before the layers' results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoraOperands {
    /// What the layers multiply, `f32 [tokens, cols]`.
    pub x: ValueId,
    /// The sequence and the position of each token, `u32 [tokens, 2]`.
    pub index: ValueId,
    /// The adapter of each sequence, counted from 1, or 0 for none: `u32 [batch]`.
    pub adapters: ValueId,
    /// The buffer of the adapters' first matrices, `f32 [slots, n * rank, cols]`.
    pub a: ValueId,
    /// The buffer of the adapters' second matrices, `f32 [slots, rank, rows of all layers]`.
    pub b: ValueId,
}

impl Lora {
    /// How many operands stand before the layers' results.
    pub(crate) const FIRST_PRODUCT: usize = 5;
}

impl From<Lora> for Op {
    fn from(op: Lora) -> Op {
        Op::Lora(op)
    }
}

impl OpRules for Lora {
    fn name(&self) -> &'static str {
        "lora"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [x, index, adapters, a, b, products @ ..] = operands else {
            return Err(wrong_count(operands));
        };
        if !(1..=3).contains(&products.len()) {
            return Err(wrong_count(operands));
        }
        expect(x, "x", DType::F32, 2)?;
        expect(index, "the index", DType::U32, 2)?;
        expect(adapters, "the adapters", DType::U32, 1)?;
        for (buffer, role) in [(a, "a"), (b, "b")] {
            expect(buffer, role, DType::F32, 3)?;
            expect_buffer(buffer, role)?;
        }
        for product in products {
            expect(product, "a layer's result", DType::F32, 2)?;
            expect_same_rows(x, product)?;
        }
        if !fits(x, a, b, products) {
            return Err(OpProblem::Mismatch(format!(
                "a {} must be [slots, layers * rank, columns of x] and b {} [slots, rank, columns of all \
                 layers' results]",
                a.shape, b.shape
            )));
        }
        let result = |product: &&Value| TensorType::f32(product.shape.clone());
        Ok(products.iter().map(result).collect())
    }

    fn overwrites(&self, operands: usize) -> Range<usize> {
        operands.min(Lora::FIRST_PRODUCT)..operands
    }
}

fn wrong_count(operands: &[&Value]) -> OpProblem {
    let expected = "x, index, adapters, a, b and the results of one to three layers";
    OpProblem::operand_count(expected, operands.len())
}

/// True if the adapters' matrices have the sizes of `x` and the layers' results.
fn fits(x: &Value, a: &Value, b: &Value, products: &[&Value]) -> bool {
    let mut rows = products.iter().map(|product| product.shape.cols());
    let rows = rows.try_fold(0u64, |all, rows| all.checked_add(rows?));
    let sizes =
        |buffer: &Value| -> Option<Vec<u64>> { buffer.shape.0.iter().map(Dim::fixed).collect() };
    match (sizes(a).as_deref(), sizes(b).as_deref()) {
        (Some([slots, low, cols]), Some([b_slots, rank, b_rows])) => {
            slots == b_slots
                && Some(*low) == rank.checked_mul(products.len() as u64)
                && x.shape.cols() == Some(*cols)
                && rows == Some(*b_rows)
        }
        _ => false,
    }
}

impl Graph {
    /// Adds the contributions of low-rank adapters to the results of one to three linear layers, which are
    /// overwritten; see [`Lora`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn lora(
        &mut self,
        operands: LoraOperands,
        products: &[ValueId],
    ) -> Result<Vec<ValueId>, GraphError> {
        let LoraOperands {
            x,
            index,
            adapters,
            a,
            b,
        } = operands;
        self.add_all(Lora, &[&[x, index, adapters, a, b], products].concat())
    }
}
