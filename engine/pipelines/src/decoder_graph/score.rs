//! The head that scores texts.

use wisp_graph::{Activation, Map, Unary, ValueId, ops::Gather};
use wisp_types::{DType, shape};

use super::{builder::GraphBuilder, error::DecoderError};
use crate::spec::{ScoreActivation, ScoreHead};

impl GraphBuilder<'_, '_> {
    /// Adds the scores `[batch, labels]` of texts by the hidden states of their first tokens, whose rows
    /// the input `first_rows: u32 [batch]` holds.
    pub fn scores(&mut self, hidden: ValueId, head: ScoreHead) -> Result<ValueId, DecoderError> {
        let (spec, names) = (self.spec, self.names);
        let width = spec.hidden_size;
        let rows = self.graph.input("first_rows", DType::U32, shape!["batch"]);
        let first = self.graph.add(Gather { axis: 0 }, &[hidden, rows])?;
        let mut x = self.whole_linear(first, names.score_dense.to_string(), [width, width])?;
        x = match head.activation {
            ScoreActivation::Tanh => self.graph.unary(Unary::Tanh, x)?,
            ScoreActivation::Gelu => self.map(x, Map::Activation(Activation::Gelu))?,
        };
        if head.norm {
            x = self.norm(spec.norm, x, names.score_norm.to_string(), width)?;
        }
        let name = names.score_output.to_string();
        self.whole_linear(x, name, [head.labels, width])
    }
}
