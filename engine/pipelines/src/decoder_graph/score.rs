//! The head that scores texts.

use wisp_graph::{Activation, Map, Unary, ValueId, ops::Gather};
use wisp_types::{DType, shape};
use wisp_weights::View;

use super::{builder::GraphBuilder, error::DecoderError};
use crate::spec::{ScoreActivation, ScoreHead};

impl GraphBuilder<'_, '_> {
    /// Adds the scores `[batch, labels]` of texts by the hidden states of their first or last tokens, whose rows
    /// the input `score_rows: u32 [batch]` holds.
    pub fn scores(&mut self, hidden: ValueId, head: ScoreHead) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let width = spec.hidden_size;
        let rows = self.graph.input("score_rows", DType::U32, shape!["batch"]);
        let mut x = self.graph.add(Gather { axis: 0 }, &[hidden, rows])?;
        if let Some(activation) = head.activation {
            x = self.whole_linear(x, names.score_dense.to_string(), [width, width])?;
            x = match activation {
                ScoreActivation::Tanh => self.graph.unary(Unary::Tanh, x)?,
                ScoreActivation::Gelu => self.map(x, Map::Activation(Activation::Gelu))?,
            };
        }
        if head.norm {
            x = self.norm(spec.norm, x, names.score_norm.to_string(), width)?;
        }
        match head.answers {
            Some(answers) => self.answers(x, answers),
            None => {
                let name = names.score_output.to_string();
                self.whole_linear(x, name, [head.labels, width])
            }
        }
    }

    /// Adds the logits `[batch, 2]` of two tokens.
    fn answers(&mut self, x: ValueId, tokens: [u32; 2]) -> Result<ValueId, DecoderError> {
        let output = format!("{}.weight", self.names.output);
        // A checkpoint whose embedding is the output layer may have it as such nevertheless.
        let output = match self.spec.tied || !self.has(&output) {
            true => format!("{}.weight", self.name(&self.names.embedding)),
            false => output,
        };
        let rows = tokens.map(|token| (output.clone(), u64::from(token)..u64::from(token) + 1));
        let shape = [2, self.spec.hidden_size];
        let weight = self.view("answers".into(), View::Rows(rows.to_vec()), &shape)?;
        self.product(x, weight, None)
    }
}
