//! `sample`: draws tokens on the device.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::{
    LogitBias, SAMPLE_CHUNK, SAMPLE_CHUNK_WORDS, SAMPLE_MAX_CHUNKS, SampleParams, SampleSettings,
};
use wisp_types::DType;

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_buffer, expect_fixed, expect_width},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{Value, ValueId},
};

/// 32-bit words of the settings of a row.
const SETTINGS_WORDS: u64 = (size_of::<SampleSettings>() / 4) as u64;

/// 32-bit words of a bias.
const BIAS_WORDS: u64 = (size_of::<LogitBias>() / 4) as u64;

/// Draws a token for each row of logits and prepares the next step of its sequence.
///
/// Operands: `logits f32 [rows, vocab]` and the buffers of [`SampleBuffers`] in their order, whose contents
/// [`wisp_shaders::params::SampleParams`] describes. No results: it writes the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample;

/// The buffers of [`Sample`], all of 4-byte words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleBuffers {
    /// The settings of each row, `[rows, words of wisp_shaders::params::SampleSettings]`.
    pub settings: ValueId,
    /// How often each sequence has drawn each token, `[batch, vocab]`.
    pub counts: ValueId,
    /// The token drawn for each row, `[rows]`: the next step's input.
    pub tokens: ValueId,
    /// The sequence and the position of each drawn token, `[rows, 2]`: the next step's index.
    pub index: ValueId,
    /// The tokens drawn in each step, `[draws]`.
    pub out: ValueId,
    /// What is added to the logits of some tokens of each sequence, `[batch, max_biases, 4]`.
    pub biases: ValueId,
    /// The log-probabilities of each step, `[draws, words]`.
    pub scores: ValueId,
    /// Which tokens each sequence may draw, a bit for each, `[batch, vocab / 32 rounded up]`.
    pub masks: ValueId,
}

impl From<Sample> for Op {
    fn from(op: Sample) -> Op {
        Op::Sample(op)
    }
}

/// Checks that buffers have as many rows as the logits.
fn expect_rows_of(logits: &Value, buffers: &[&Value]) -> Result<(), OpProblem> {
    let rows = &logits.shape.0[0];
    match buffers.iter().find(|buffer| buffer.shape.0[0] != *rows) {
        None => Ok(()),
        Some(buffer) => Err(OpProblem::Mismatch(format!(
            "{} {} must have a row for each of the logits {}",
            buffer.name, buffer.shape, logits.shape
        ))),
    }
}

impl OpRules for Sample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let &[
            logits,
            settings,
            counts,
            tokens,
            index,
            out,
            biases,
            scores,
            masks,
        ] = operands
        else {
            let expected = "logits, settings, counts, tokens, index, out, biases, scores and masks";
            return Err(OpProblem::operand_count(expected, operands.len()));
        };
        expect(logits, "logits", DType::F32, 2)?;
        for (buffer, role, rank) in [
            (settings, "settings", 2),
            (counts, "counts", 2),
            (tokens, "tokens", 1),
            (index, "index", 2),
            (out, "out", 1),
            (biases, "biases", 3),
            (scores, "scores", 2),
            (masks, "masks", 2),
        ] {
            expect_buffer(buffer, role)?;
            expect(buffer, role, DType::U32, rank)?;
        }
        expect_width(settings, "settings", SETTINGS_WORDS)?;
        expect_width(index, "index", 2)?;
        expect_width(biases, "biases", BIAS_WORDS)?;
        expect_rows_of(logits, &[settings, tokens, index])?;
        let vocab = expect_fixed(&logits.shape.0[1], "the vocabulary")?;
        let most = u64::from(SAMPLE_CHUNK * SAMPLE_MAX_CHUNKS);
        if !(1..=most).contains(&vocab) {
            return Err(OpProblem::Settings(format!(
                "the vocabulary must have 1 to {most} tokens, but has {vocab}"
            )));
        }
        expect_width(counts, "counts", vocab)?;
        let words = expect_fixed(&masks.shape.0[1], "the words of a mask")?;
        if words != vocab.div_ceil(32) {
            return Err(OpProblem::Settings(format!(
                "a mask of {vocab} tokens must have {} words, but has {words}",
                vocab.div_ceil(32)
            )));
        }
        Ok(Vec::new())
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let rows = op.rows(node.inputs[0]);
        let fixed = SampleParams {
            rows: 0,
            vocab: op.cols(node.inputs[0])?,
            max_biases: op.fixed_dim(node.inputs[6], 1, "the number of biases")?,
            logprob_words: op.fixed_dim(node.inputs[7], 1, "the width of the scores")?,
        };
        let vocab = u64::from(fixed.vocab);
        let chunks = vocab.div_ceil(SAMPLE_CHUNK.into());
        let row_words = chunks * u64::from(SAMPLE_CHUNK_WORDS) + 2 * vocab;
        let scratch = op.scratch(rows.times(&Size::fixed(row_words)));
        let operands = op.operands(node.inputs)?;
        let [logits, settings, counts] = [operands[0], operands[1], operands[2]];
        let params = params(&fixed, runtime_fields!(SampleParams, rows = rows));
        let tokens = [Size::fixed(vocab), rows.clone()];
        let bindings = vec![logits, settings, counts, operands[6], operands[8], scratch];
        op.call("sample_scan", tokens.clone(), params.clone(), bindings)?;
        let bindings = vec![settings, scratch];
        op.call("sample_compact", tokens, params.clone(), bindings)?;
        let mut bindings = vec![logits, scratch, settings, counts];
        bindings.extend([3, 4, 5, 7].map(|operand| operands[operand]));
        op.call("sample", [rows, Size::fixed(1)], params, bindings)
    }
}

impl Graph {
    /// Draws a token for each row of logits `[rows, vocab]`; see [`Sample`].
    ///
    /// # Errors
    ///
    /// If an operand other than the logits is no buffer, or the shapes do not fit.
    pub fn sample(&mut self, logits: ValueId, buffers: SampleBuffers) -> Result<(), GraphError> {
        let SampleBuffers {
            settings,
            counts,
            tokens,
            index,
            out,
            biases,
            scores,
            masks,
        } = buffers;
        let operands = [
            logits, settings, counts, tokens, index, out, biases, scores, masks,
        ];
        self.add(Sample, &operands)?;
        Ok(())
    }
}
