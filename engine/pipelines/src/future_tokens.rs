//! Tokens that a batch needs and the one before it samples: the device puts them where the model reads its tokens,
//! before the host knows them (the future tokens of SGLang's overlapped scheduler).

use std::collections::HashMap;

use wisp_compiler::Footprint;
use wisp_device::Buffer;
use wisp_graph::{
    Graph, GraphError,
    ops::{Gather, Select},
};
use wisp_session::{InferenceSession, InitOptions, Model, Tensor};
use wisp_types::{Capabilities, DType, shape};
use wisp_weights::MemoryWeights;

use super::{ModelLimits, PipelineError};

/// Builds the graph: inputs `tokens`, `rows` and `is_future`, all `u32 [tokens]`, and `sampled: u32 [logit_rows]`; output
/// `next: u32 [tokens]`.
pub(crate) fn build() -> Result<Graph, GraphError> {
    let mut graph = Graph::new("future_tokens");
    let [tokens, rows, is_future] =
        ["tokens", "rows", "is_future"].map(|name| graph.input(name, DType::U32, shape!["tokens"]));
    let sampled = graph.input("sampled", DType::U32, shape!["logit_rows"]);
    let sampled = graph.add(Gather { axis: 0 }, &[sampled, rows])?;
    let next = graph.add(Select, &[is_future, sampled, tokens])?;
    graph.output("next", next);
    Ok(graph)
}

/// Returns the largest sizes of the graph's symbolic dimensions.
fn max_dims(limits: ModelLimits) -> HashMap<String, u64> {
    HashMap::from([
        ("tokens".to_string(), limits.max_step_tokens),
        ("logit_rows".to_string(), limits.max_logit_rows),
    ])
}

/// Returns the memory of the program, in addition to the sampler with which it shares the sampled tokens.
///
/// # Errors
///
/// If the target lacks a kernel.
pub(crate) fn footprint(
    target: &Capabilities,
    limits: ModelLimits,
) -> Result<Footprint, PipelineError> {
    let compiled = InferenceSession::compile_for(&build()?, target)?;
    Ok(compiled
        .program()
        .footprint(&max_dims(limits), &["sampled"]))
}

/// Fills in the tokens of a batch that the one before it samples.
#[derive(Debug)]
pub(crate) struct FutureTokens {
    model: Model,
    limits: ModelLimits,
}

impl FutureTokens {
    /// Loads the program; `sampled` is the buffer that a step's sampled tokens are written to.
    ///
    /// # Errors
    ///
    /// If the device has no memory left, or its compiler fails.
    pub(crate) async fn load(
        session: &InferenceSession,
        limits: ModelLimits,
        sampled: Buffer,
    ) -> Result<FutureTokens, PipelineError> {
        let options = InitOptions {
            max_dims: max_dims(limits),
            shared: HashMap::from([("sampled".to_string(), sampled)]),
            ..Default::default()
        };
        let compiled = session.compile(&build()?)?;
        let weights = MemoryWeights::default();
        let model = session.init(&compiled, &weights, options).await?;
        Ok(FutureTokens { model, limits })
    }

    /// Returns tokens `u32 [tokens]`, on the device, in which those of `awaited` are replaced by sampled ones. Each is a
    /// token's index and the row of logits that it is sampled from.
    ///
    /// # Errors
    ///
    /// If the device fails, or an index is out of range.
    pub(crate) async fn fill_in(
        &self,
        tokens: &Tensor,
        awaited: &[(usize, u32)],
    ) -> Result<Tensor, PipelineError> {
        let count = tokens.shape().iter().product::<u64>();
        let (mut rows, mut is_future) = (vec![0; count as usize], vec![0; count as usize]);
        for (at, row) in awaited {
            *rows.get_mut(*at).ok_or(PipelineError::Batch)? = *row;
            is_future[*at] = 1;
        }
        let sizes = [
            ("tokens", count),
            ("logit_rows", self.limits.max_logit_rows),
        ];
        let dims = self.model.dims(&sizes)?;
        self.model.write_tensor("tokens", tokens).await?;
        self.model.write("rows", &rows)?;
        self.model.write("is_future", &is_future)?;
        self.model.run(&dims)?;
        Ok(self.model.output_on_device("next", &dims)?)
    }
}
