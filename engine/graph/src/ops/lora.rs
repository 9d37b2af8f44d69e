//! `lora`: low-rank adapters on linear layers.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use wisp_shaders::params::{LoraExpandParams, LoraShrinkParams};
use wisp_types::{DType, Dim};

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_buffer, expect_index, expect_same_rows},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{
        KernelCall, LoweringError, Memory, NodeValues, OpLowering, ParamWord, Size, params,
    },
    runtime_fields,
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
    #[doc(hidden)]
    pub const FIRST_PRODUCT: usize = 5;
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
        expect_index(index, x)?;
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

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_lora(node, LoraProducts::Separate, op)
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

/// Where the results of the layers that adapters add to are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraProducts {
    /// Each in its own memory: one call adds to each.
    Separate,
    /// Side by side in the memory of the first: one call adds to all.
    Stacked,
}

/// Lowers low-rank adapters: a product with all first matrices, then products with the second ones, which
/// add in place.
///
/// # Errors
///
/// If a width is symbolic, or an operand does not exist.
pub fn lower_lora(
    node: NodeValues<'_>,
    products: LoraProducts,
    op: &mut OpLowering<'_>,
) -> Result<(), LoweringError> {
    let &[x, index, adapters, a, b, ref outputs @ ..] = node.inputs else {
        return Ok(());
    };
    let label = format!("{} {}", op.op(), op.value(a).name);
    let tokens = op.rows(x);
    let selection = [op.operand(index)?, op.operand(adapters)?];
    let low = shrink([x, a], selection, (&tokens, &label), op)?;

    let widths = outputs.iter().map(|out| op.cols(*out));
    let widths = widths.collect::<Result<Vec<u32>, _>>()?;
    let start = |part: usize| widths[..part].iter().sum::<u32>();
    let start_or_max = |part: usize| match part < widths.len() {
        true => start(part),
        false => u32::MAX,
    };
    let b_rows = op.fixed_dim(b, 2, "the number of the adapters' results")?;
    let fixed = LoraExpandParams {
        rank: op.fixed_dim(b, 1, "the adapters' rank")?,
        projections: widths.len() as u32,
        b_rows,
        second_start: start_or_max(1),
        third_start: start_or_max(2),
        ..Default::default()
    };
    // First row and number of rows of `b` that each call multiplies.
    let spans: Vec<(u32, u32)> = match products {
        LoraProducts::Stacked => vec![(0, b_rows)],
        LoraProducts::Separate => {
            let parts = 0..widths.len();
            parts.map(|part| (start(part), widths[part])).collect()
        }
    };
    let b = op.operand(b)?;
    for (part, (first_row, rows)) in spans.into_iter().enumerate() {
        let fixed = LoraExpandParams {
            rows,
            first_row,
            ..fixed
        };
        let y = op.operand(outputs[part])?;
        op.alias(node.outputs[part], y);
        op.add_call(KernelCall {
            kernel: "lora_expand".into(),
            cols: 0,
            label: label.clone(),
            grid: [Size::fixed(rows.into()), tokens.clone()],
            params: params(&fixed, runtime_fields!(LoraExpandParams, tokens = tokens)),
            bindings: vec![low, selection[0], selection[1], b, y],
            conditions: Vec::new(),
        })?;
    }
    Ok(())
}

/// Multiplies each token by its adapter's first matrices; returns the memory of the products.
fn shrink(
    [x, a]: [ValueId; 2],
    selection: [Memory; 2],
    (tokens, label): (&Size, &str),
    op: &mut OpLowering<'_>,
) -> Result<Memory, LoweringError> {
    let rows = op.fixed_dim(a, 1, "the adapters' rank")?;
    let fixed = LoraShrinkParams {
        tokens: 0,
        rows,
        cols: op.cols(x)?,
    };
    let params: Vec<ParamWord> = params(
        &fixed,
        runtime_fields!(LoraShrinkParams, tokens = tokens.clone()),
    );
    let (x, a) = (op.operand(x)?, op.operand(a)?);
    let low = op.scratch(tokens.times(&Size::fixed(rows.into())));
    op.add_call(KernelCall {
        kernel: "lora_shrink".into(),
        cols: 0,
        label: label.into(),
        grid: [Size::fixed(rows.into()), tokens.clone()],
        params,
        bindings: vec![x, selection[0], selection[1], a, low],
        conditions: Vec::new(),
    })?;
    Ok(low)
}

impl Graph {
    /// Adds the contributions of low-rank adapters to the results of one to three linear layers, which are
    /// overwritten; see [`Lora`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit, or a result is given twice.
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
