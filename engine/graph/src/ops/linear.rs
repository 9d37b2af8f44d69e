//! `linear`: product with a weight, in the encoding that it is stored in.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::{MatmulGatedParams, MatmulParams};
use wisp_types::{DType, Shape};

use super::{
    Activation, Inferred, Op, OpRules,
    operands::{expect, expect_rows, expect_stored, expect_weight},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{KernelCall, LoweringError, Memory, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// `x` times a transposed weight, plus a bias. The weight may have any encoding: kernels read it as it is
/// stored.
///
/// Operands: `x f32 [.., cols]`, `weight`, a weight `[rows, cols]`, optionally `bias`, a weight `[rows]`.
/// Result: `f32 [.., rows]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linear;

impl From<Linear> for Op {
    fn from(op: Linear) -> Op {
        Op::Linear(op)
    }
}

impl OpRules for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let (x, weight, bias) = match *operands {
            [x, weight] => (x, weight, None),
            [x, weight, bias] => (x, weight, Some(bias)),
            _ => {
                let expected = "x, weight and optionally bias";
                return Err(OpProblem::operand_count(expected, operands.len()));
            }
        };
        expect_rows(x, "x", DType::F32)?;
        expect(weight, "the weight", DType::F32, 2)?;
        expect_weight(weight, "the weight")?;
        let (outer, cols) = x.shape.0.split_at(x.rank() - 1);
        let rows = &weight.shape.0[0];
        if cols != &weight.shape.0[1..] {
            return Err(OpProblem::Mismatch(format!(
                "x {} and the weight {} must have the same number of columns",
                x.shape, weight.shape
            )));
        }
        if let Some(bias) = bias {
            expect(bias, "the bias", DType::F32, 1)?;
            expect_stored(bias, "the bias")?;
            if bias.shape.0[0] != *rows {
                return Err(OpProblem::Mismatch(format!(
                    "the bias must have an element for each of the weight's {rows} rows, but is {}",
                    bias.shape
                )));
            }
        }
        let dims = [outer, std::slice::from_ref(rows)].concat();
        Ok(vec![TensorType::f32(Shape(dims))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let part = LinearPart {
            weight: node.inputs[1],
            bias: node.inputs.get(2).copied(),
        };
        lower_linear_stack(node.inputs[0], &[part], node.outputs[0], op)
    }
}

/// A weight of a stack of linear layers, with its bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearPart {
    /// The weight `[rows, cols]` that `x` is multiplied by.
    pub weight: ValueId,
    /// The bias, if the layer has one.
    pub bias: Option<ValueId>,
}

/// Lowers several linear layers of the same `x`: the memory of `out` takes their rows side by side.
/// Neighbours of one encoding share kernel calls.
///
/// # Errors
///
/// If a weight is none, or exceeds what the target can bind, or the target has no kernel for its encoding.
pub fn lower_linear_stack(
    x: ValueId,
    parts: &[LinearPart],
    out: ValueId,
    op: &mut OpLowering<'_>,
) -> Result<(), LoweringError> {
    let tokens = op.rows(x);
    let mut width = 0u64;
    for part in parts {
        width = width.saturating_add(op.matrix_shape(part.weight)?.1);
    }
    let out = op.result_of_size(out, tokens.times(&Size::fixed(width)));
    let mut product = Product {
        x,
        out,
        tokens,
        width,
        offset: 0,
    };
    let mut rest = parts;
    while !rest.is_empty() {
        let (stack, later) = rest.split_at(stackable(rest, op)?);
        product.lower(stack, op)?;
        rest = later;
    }
    Ok(())
}

/// Lowers `activation(gate(x)) * up(x)` of two linear layers to one call, if the target has a kernel for it and
/// can bind both weights as one matrix. Returns false, and adds no call, otherwise.
///
/// # Errors
///
/// If a weight is none, or the target has no kernel for its encoding.
pub(super) fn lower_gated_product(
    x: ValueId,
    parts: &[LinearPart; 2],
    activation: Activation,
    out: ValueId,
    op: &mut OpLowering<'_>,
) -> Result<bool, LoweringError> {
    let weights = parts.map(|part| part.weight);
    let (encoding, _, cols) = op.matrix_shape(parts[0].weight)?;
    let exact = format!("matmul_gated.{}", encoding.name());
    let int8 = format!("matmul_gated_int8.{}", encoding.name());
    // A product in 8 bits that has no kernel with a gate takes two calls, rather than the exact kernel with one.
    let runs = op.runs(&int8, cols) || op.runs(&exact, cols) && !op.is_int8(encoding, cols);
    if stackable(parts, op)? < parts.len() || !runs {
        return Ok(false);
    }
    let [part] = &op.matrix_parts(&weights)?[..] else {
        return Ok(false);
    };
    let biases: Vec<ValueId> = parts.iter().filter_map(|part| part.bias).collect();
    let bias = (!biases.is_empty()).then(|| op.vector(&biases));
    let (tokens, rows) = (op.rows(x), part.rows / 2);
    let fixed = MatmulGatedParams {
        tokens: 0,
        rows: op.count("the weight's number of rows", rows)?,
        cols: op.count("the weight's width", cols)?,
        blocks: op.count("the weight's width", cols.div_ceil(32))?,
        activation: activation.code(),
        has_bias: bias.is_some().into(),
    };
    let rows_of_x = op.product_rows("matmul_gated", encoding, x)?;
    // The kernel binds a bias in any case; it does not read `x` as one.
    let bias = bias.unwrap_or(rows_of_x.x);
    let bindings = rows_of_x.bindings(op.result(out), bias, &part.planes);
    op.add_call(KernelCall {
        kernel: rows_of_x.kernel,
        cols,
        label: format!("{} {}", op.op(), op.value(weights[0]).name),
        grid: [Size::fixed(rows), tokens.clone()],
        params: params(&fixed, runtime_fields!(MatmulGatedParams, tokens = tokens)),
        bindings,
        conditions: Vec::new(),
    })?;
    Ok(true)
}

/// Returns how many of the first parts can be stacked into one matrix.
fn stackable(parts: &[LinearPart], op: &OpLowering<'_>) -> Result<usize, LoweringError> {
    let (encoding, mut rows, cols) = op.matrix_shape(parts[0].weight)?;
    let mut count = 1;
    for part in &parts[1..] {
        // Every plane of the next weight must begin at a whole word.
        let whole_words = encoding
            .plane_row_bytes(cols)
            .iter()
            .all(|bytes| bytes.saturating_mul(rows).is_multiple_of(4));
        let (next_encoding, next_rows, _) = op.matrix_shape(part.weight)?;
        let same_kind = next_encoding == encoding && part.bias.is_some() == parts[0].bias.is_some();
        if !(same_kind && whole_words) {
            break;
        }
        rows = next_rows;
        count += 1;
    }
    Ok(count)
}

/// The products of `x` with stacks of weights, side by side in the rows of `out`.
struct Product {
    x: ValueId,
    out: Memory,
    tokens: Size,
    /// Elements of a row of `out`.
    width: u64,
    /// The next free column of `out`.
    offset: u64,
}

impl Product {
    /// Lowers the product with a stack of weights of one encoding, in parts that the target can bind.
    fn lower(
        &mut self,
        stack: &[LinearPart],
        op: &mut OpLowering<'_>,
    ) -> Result<(), LoweringError> {
        let weights: Vec<ValueId> = stack.iter().map(|part| part.weight).collect();
        let biases: Vec<ValueId> = stack.iter().filter_map(|part| part.bias).collect();
        let bias = (!biases.is_empty()).then(|| op.vector(&biases));
        let label = format!("{} {}", op.op(), op.value(weights[0]).name);
        let mut rows = 0;
        for part in op.matrix_parts(&weights)? {
            let fixed = MatmulParams {
                tokens: 0,
                rows: op.count("the weight's number of rows", part.rows)?,
                cols: op.count("the weight's width", part.cols)?,
                blocks: op.count("the weight's width", part.cols.div_ceil(32))?,
                out_stride: op.count("the result's width", self.width)?,
                out_offset: op.count("the result's width", self.offset + part.first_row)?,
                bias_offset: op.count("the bias's size", part.first_row)?,
                has_bias: bias.is_some().into(),
            };
            // The kernel binds a bias in any case; it does not read `x` as one.
            let x = op.product_rows("matmul", part.encoding, self.x)?;
            let bindings = x.bindings(self.out, bias.unwrap_or(x.x), &part.planes);
            op.add_call(KernelCall {
                kernel: x.kernel,
                cols: part.cols,
                label: label.clone(),
                grid: [Size::fixed(part.rows), self.tokens.clone()],
                params: params(&fixed, runtime_fields!(MatmulParams, tokens = self.tokens)),
                bindings,
                conditions: Vec::new(),
            })?;
            rows += part.rows;
        }
        self.offset += rows;
        Ok(())
    }
}

impl Graph {
    /// Multiplies `x [.., cols]` by a transposed weight `[rows, cols]` of any encoding and adds a bias
    /// `[rows]` if one is given: `[.., rows]`.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit, or the weight or the bias is not a weight; see [`Graph::matmul`] for other
    /// values.
    pub fn linear(
        &mut self,
        x: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [x, weight].into_iter().chain(bias).collect();
        self.add(Linear, &operands)
    }
}
