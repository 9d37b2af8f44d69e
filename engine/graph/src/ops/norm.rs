//! `layer_norm` and `rms_norm`: normalisation of each row.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::NormParams;
use wisp_types::DType;

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_fixed, expect_rows},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Normalisation of each row, or of each of `n` equal parts of a row.
///
/// Operands: `x f32 [.., n * cols]`, `weight f32 [cols]` and, for a layer norm, optionally `bias f32
/// [cols]`. Result: of `x`'s shape. The op is called `rms_norm` or `layer_norm`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormSpec {
    /// Which norm.
    pub kind: NormKind,
    /// Added to the mean square or the variance before the root is taken.
    pub eps: f32,
    /// Added to each element of the weight (1 in Gemma).
    pub weight_offset: f32,
}

/// What a norm subtracts and divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich 2019).
    Rms,
    /// `(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias` (Ba et al. 2016).
    Layer,
}

impl From<NormSpec> for Op {
    fn from(op: NormSpec) -> Op {
        Op::Norm(op)
    }
}

impl OpRules for NormSpec {
    fn name(&self) -> &'static str {
        match self.kind {
            NormKind::Rms => "rms_norm",
            NormKind::Layer => "layer_norm",
        }
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
        let bias_role = bias.map(|bias| (bias, "the bias"));
        for (operand, role) in [(weight, "the weight")].into_iter().chain(bias_role) {
            expect(operand, role, DType::F32, 1)?;
            let width = expect_fixed(&x.shape.0[x.rank() - 1], "the last dimension of x")?;
            let cols = expect_fixed(&operand.shape.0[0], "the weight's size")?;
            if cols == 0 || width % cols != 0 || operand.shape != weight.shape {
                return Err(OpProblem::Mismatch(format!(
                    "{role} {} does not fit the last dimension of x {}",
                    operand.shape, x.shape
                )));
            }
        }
        if self.kind == NormKind::Rms && bias.is_some() {
            return Err(OpProblem::Settings(
                "an RMS norm has no bias: use a layer norm or add the bias".into(),
            ));
        }
        Ok(vec![TensorType::f32(x.shape.clone())])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let operands = NormOperands {
            x: node.inputs[0],
            addend: None,
            weight: node.inputs[1],
            bias: node.inputs.get(2).copied(),
        };
        lower_norm(*self, operands, node.outputs[0], op)
    }
}

/// The operands of a norm's kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormOperands {
    /// The rows to normalise.
    pub x: ValueId,
    /// What is added to `x` in place before it is normalised, with a factor.
    pub addend: Option<(ValueId, f32)>,
    /// The factor of each element.
    pub weight: ValueId,
    /// What a layer norm adds to each element.
    pub bias: Option<ValueId>,
}

/// Lowers a norm, or a norm of a sum that replaces `x`.
///
/// # Errors
///
/// If the width is symbolic, or an operand does not exist.
pub fn lower_norm(
    norm: NormSpec,
    operands: NormOperands,
    out: ValueId,
    op: &mut OpLowering<'_>,
) -> Result<(), LoweringError> {
    let NormOperands {
        x,
        addend,
        weight,
        bias,
    } = operands;
    let cols = op.cols(weight)?;
    // A row of `x` may be several that are normalised one by one.
    let parts = op.cols(x)? / cols.max(1);
    let rows = op.rows(x).times(&Size::fixed(parts.into()));
    let mut bindings = vec![op.operand(x)?];
    if let Some((y, _)) = addend {
        bindings.push(op.operand(y)?);
    }
    let weight = op.operand(weight)?;
    bindings.extend([weight, op.result(out)]);
    if norm.kind == NormKind::Layer {
        // The kernel binds a bias in any case; it does not read the weight as one.
        bindings.push(match bias {
            Some(bias) => op.operand(bias)?,
            None => weight,
        });
    }
    let fixed = NormParams {
        rows: 0,
        cols,
        eps: norm.eps,
        weight_offset: norm.weight_offset,
        y_scale: addend.map_or(1.0, |(_, scale)| scale),
        has_bias: bias.is_some().into(),
    };
    let kernel = match (norm.kind, addend) {
        (NormKind::Rms, None) => "rms_norm",
        (NormKind::Rms, Some(_)) => "add_rms_norm",
        (NormKind::Layer, None) => "layer_norm",
        (NormKind::Layer, Some(_)) => "add_layer_norm",
    };
    let params = params(&fixed, runtime_fields!(NormParams, rows = rows));
    op.call_over_rows(kernel, cols, [rows, Size::fixed(1)], params, bindings)
}

impl Graph {
    /// Applies a layer norm over the last dimension (Ba et al. 2016).
    ///
    /// # Errors
    ///
    /// If the shapes of weight and bias do not fit the last dimension.
    pub fn layer_norm(
        &mut self,
        x: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
        eps: f32,
    ) -> Result<ValueId, GraphError> {
        let norm = NormSpec {
            kind: NormKind::Layer,
            eps,
            weight_offset: 0.0,
        };
        let operands: Vec<ValueId> = [x, weight].into_iter().chain(bias).collect();
        self.add(norm, &operands)
    }

    /// Applies an RMS norm over the last dimension (Zhang and Sennrich 2019).
    ///
    /// # Errors
    ///
    /// If the weight's shape does not fit the last dimension.
    pub fn rms_norm(
        &mut self,
        x: ValueId,
        weight: ValueId,
        eps: f32,
    ) -> Result<ValueId, GraphError> {
        let norm = NormSpec {
            kind: NormKind::Rms,
            eps,
            weight_offset: 0.0,
        };
        self.add(norm, &[x, weight])
    }
}
