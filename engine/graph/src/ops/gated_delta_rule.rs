//! `gated_delta_rule`: the recurrence of a gated delta net over the sequences of a batch.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::{CHUNK, COLUMN_STEP, LinearRecurrenceParams};
use wisp_types::{DType, Shape};

use super::{
    Inferred, LOOP_TURNS, Op, OpRules,
    operands::{expect, expect_buffer, expect_same_rows, expect_spans, expect_width},
};
use crate::{
    error::OpProblem,
    lowering::{
        KernelCall, LoweringError, Memory, NodeValues, OpLowering, RunCondition, Size, params,
    },
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// The most elements of a head of queries and keys.
pub(super) const MAX_K_DIM: u32 = 256;

/// The gated delta rule (Yang et al. 2024, "Gated Delta Networks"): each head of a sequence has a matrix of
/// `k_dim` rows and `v_dim` columns. A token decays it, moves what it answers to the token's key towards the
/// token's value, and reads it with its query. Queries and keys are normalized to length 1.
///
/// Operands: `qkv f32 [tokens, 2 * k_heads * k_dim + v_heads * v_dim]`, queries, keys and values; `gates f32
/// [tokens, 2 * v_heads]`, for each head the logit of how far the answer moves, and for each head the step
/// of the decay before its bias and softplus; `a_log` and `dt_bias`, `f32 [v_heads]`, the logarithm of the
/// decay's rate and the bias of the step; `spans u32 [batch, 4]` as in [`CausalConv`](super::CausalConv);
/// `state`, a buffer `f32 [rows, v_heads * k_dim, v_dim]`. Result: `f32 [tokens, v_heads * v_dim]`; the op
/// also writes the state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatedDeltaRule {
    /// Heads of queries and keys. Each serves `v_heads / k_heads` heads of values.
    pub k_heads: u32,
    /// Heads of values.
    pub v_heads: u32,
    /// Elements of a head of queries or keys, at most 256.
    pub k_dim: u32,
    /// Elements of a head of values.
    pub v_dim: u32,
    /// Added to the sums of squares by which queries and keys are normalized.
    pub eps: f32,
}

impl From<GatedDeltaRule> for Op {
    fn from(op: GatedDeltaRule) -> Op {
        Op::GatedDeltaRule(op)
    }
}

impl OpRules for GatedDeltaRule {
    fn name(&self) -> &'static str {
        "gated_delta_rule"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let &[qkv, gates, a_log, dt_bias, spans, state] = operands else {
            let expected = "qkv, gates, a_log, dt_bias, spans and state";
            return Err(OpProblem::operand_count(expected, operands.len()));
        };
        let sizes = [self.k_heads, self.v_heads, self.k_dim, self.v_dim];
        let [k_heads, v_heads, k_dim, v_dim] = sizes.map(u64::from);
        if sizes.contains(&0) || !v_heads.is_multiple_of(k_heads) || self.k_dim > MAX_K_DIM {
            return Err(OpProblem::Settings(format!(
                "{v_heads} heads of {v_dim} elements need a divisor of keys' heads of 1 to {MAX_K_DIM} \
                 elements, but there are {k_heads} of {k_dim}"
            )));
        }
        let width = v_heads * v_dim;
        expect(qkv, "qkv", DType::F32, 2)?;
        expect_width(qkv, "qkv", 2 * k_heads * k_dim + width)?;
        expect(gates, "the gates", DType::F32, 2)?;
        expect_width(gates, "the gates", 2 * v_heads)?;
        expect_same_rows(qkv, gates)?;
        for (operand, role) in [(a_log, "a_log"), (dt_bias, "dt_bias")] {
            expect(operand, role, DType::F32, 1)?;
            expect_width(operand, role, v_heads)?;
        }
        expect_spans(spans)?;
        expect_matrices(state, [v_heads * k_dim, v_dim])?;
        let tokens = qkv.shape.0[0].clone();
        Ok(vec![TensorType::f32(Shape(vec![tokens, width.into()]))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let fixed = LinearRecurrenceParams {
            k_heads: self.k_heads,
            v_heads: self.v_heads,
            k_dim: self.k_dim,
            v_dim: self.v_dim,
            eps: self.eps,
            scale: 1.0 / (self.k_dim as f32).sqrt(),
            ..Default::default()
        };
        let [qkv, gates, a_log, dt_bias, spans, state] =
            [0, 1, 2, 3, 4, 5].map(|at| node.inputs[at]);
        let operands = RecurrenceOperands {
            qkv,
            gates,
            a_log,
            dt_bias,
            spans,
            state,
            d: None,
        };
        lower_recurrence(op, fixed, operands, node.outputs[0])
    }
}

/// Checks that an operand is a buffer `f32 [rows, ..]` of matrices of this size.
pub(super) fn expect_matrices(state: &Value, [rows, cols]: [u64; 2]) -> Result<(), OpProblem> {
    expect(state, "the state", DType::F32, 3)?;
    expect_buffer(state, "the state")?;
    expect_width(state, "the state", cols)?;
    match state.shape.0[1] == rows.into() {
        true => Ok(()),
        false => Err(OpProblem::Mismatch(format!(
            "the state {} must have {rows} rows of a sequence",
            state.shape
        ))),
    }
}

/// The fewest tokens of a run that is computed in chunks, and the fewest for each sequence on average.
const MIN_CHUNKED: [u64; 2] = [16, 8];

/// The most tokens of a sequence that kernels for software adapters compute in one run, with states of `k_dim` rows.
///
/// Their invocations have `LOOP_TURNS`. Token by token, a token takes a turn for every four rows that are read, one for
/// every four that are updated, and at most eight others. In chunks it takes fewer, or up to 40 where there are few rows.
pub fn serial_recurrence_tokens(k_dim: u32) -> u64 {
    let turns = 2 * k_dim.div_ceil(4) + 8;
    LOOP_TURNS / u64::from(turns.max(40))
}

/// What a linear recurrence is computed of.
pub(super) struct RecurrenceOperands {
    pub(super) qkv: ValueId,
    pub(super) gates: ValueId,
    pub(super) a_log: ValueId,
    pub(super) dt_bias: ValueId,
    pub(super) spans: ValueId,
    pub(super) state: ValueId,
    /// Only of Mamba 2.
    pub(super) d: Option<ValueId>,
}

/// Adds the calls of a linear recurrence, of which each run makes those for its sizes: in chunks for many tokens,
/// token by token for few.
pub(super) fn lower_recurrence(
    op: &mut OpLowering<'_>,
    fixed: LinearRecurrenceParams,
    operands: RecurrenceOperands,
    result: ValueId,
) -> Result<(), LoweringError> {
    let [tokens, batch] = [operands.qkv, operands.spans].map(|id| op.rows(id));
    let [min_tokens, min_each] = MIN_CHUNKED.map(Size::fixed);
    let many = RunCondition::all([
        [min_tokens, tokens.clone()],
        [batch.times(&min_each), tokens.clone()],
    ]);
    let [qkv, spans, state] = [
        op.operand(operands.qkv)?,
        op.operand(operands.spans)?,
        op.operand(operands.state)?,
    ];
    let gates = op.operands(&[operands.gates, operands.a_log, operands.dt_bias])?;
    let d = operands.d.map(|d| op.operand(d)).transpose()?;
    let out = op.result(result);
    let [k_heads, v_heads, v_dim] = [fixed.k_heads, fixed.v_heads, fixed.v_dim].map(u64::from);
    let fields = runtime_fields!(
        LinearRecurrenceParams,
        tokens = tokens.clone(),
        batch = batch.clone()
    );
    let (params, label) = (params(&fixed, fields), op.op());
    let call =
        |part: &str, grid, bindings: &[&[Memory]], condition: Option<RunCondition>| KernelCall {
            kernel: format!("{label}{part}"),
            cols: fixed.k_dim.into(),
            label: label.into(),
            grid,
            params: params.clone(),
            bindings: bindings.concat(),
            conditions: Vec::from_iter(condition),
        };
    let (inputs, outputs) = (&[&[qkv], &gates[..]].concat()[..], &[spans, state, out]);
    let grid = [Size::fixed(v_heads * v_dim), batch.clone()];
    // On the host, chunks are a tenth slower for the delta rule, and a third faster for Mamba 2 only.
    let in_chunks = !op.target().is_host;
    let few = in_chunks.then(|| many.clone().negated());
    op.add_call(call("", grid, &[inputs, outputs, d.as_slice()], few))?;
    if !in_chunks {
        return Ok(());
    }

    // Four factors, the scores and, of the delta rule, a row of the inverse.
    let matrices = if d.is_some() { 1 } else { 2 };
    let row = Size::fixed(v_heads * (4 + matrices * u64::from(CHUNK)));
    let scores = op.scratch(tokens.times(&row));
    let grid = [Size::fixed(k_heads), tokens];
    op.add_call(call(
        "_scores",
        grid,
        &[inputs, &[scores]],
        Some(many.clone()),
    ))?;
    let columns = v_dim.next_multiple_of(COLUMN_STEP.into());
    let grid = [Size::fixed(v_heads * columns), batch];
    let bindings = [&[qkv, scores], &outputs[..], d.as_slice()];
    op.add_call(call("_chunked", grid, &bindings, Some(many)))
}
