//! A model of your own behind `PipelineModel`: a table of which token follows which. It gets all
//! services of the built-in models: batches, sampling, stop strings, log-probabilities, cancellation.
//! `cargo run -p wisp-engine --example own_pipeline_model`

use wisp_engine::{
    Model,
    device::Device,
    graph::{DType, Graph},
    pipelines::{
        ModelInputs, ModelLimits, ModelOutputs, PipelineError, PipelineModel, TextProcessor,
    },
    session::{self, InferenceSession, InitOptions},
    shape,
    types::{BoxFuture, Encoding},
    weights::MemoryWeights,
};

pub(crate) const VOCAB: u64 = 8;

/// A bigram model: the last token selects the table's row of logits for the next token.
#[derive(Debug)]
pub(crate) struct Bigram {
    limits: ModelLimits,
    table: session::Model,
}

impl Bigram {
    /// Uploads a table `[VOCAB, VOCAB]` to a session's device.
    pub fn load(
        session: &InferenceSession,
        table: &[f32],
    ) -> Result<Bigram, Box<dyn std::error::Error>> {
        let mut graph = Graph::new("bigram");
        let tokens = graph.input("tokens", DType::U32, shape!["tokens"]);
        let rows = graph.input("rows", DType::U32, shape!["rows"]);
        let weight = graph.weight("table", Encoding::F32, shape![VOCAB, VOCAB]);
        let last = graph.gather(tokens, rows, 0)?;
        let logits = graph.embed(weight, last)?;
        graph.output("logits", logits);

        let mut weights = MemoryWeights::default();
        weights.insert("table", &[VOCAB, VOCAB], table)?;
        let max_dims = [("tokens", 512), ("rows", 8)];
        let options = InitOptions {
            max_dims: max_dims.map(|(name, size)| (name.into(), size)).into(),
            ..Default::default()
        };
        let limits = ModelLimits {
            max_length: 2048,
            max_batch: 4,
            max_logit_rows: 8,
            ..ModelLimits::default()
        };
        let table = session.load_blocking(&graph, &weights, options)?;
        Ok(Bigram { limits, table })
    }
}

impl PipelineModel for Bigram {
    fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    fn vocab_size(&self) -> u64 {
        VOCAB
    }

    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>> {
        Box::pin(async move {
            let operands = [&inputs.tokens, &inputs.logit_rows];
            let outputs = self.table.execute_on_device(&operands).await?;
            Ok(ModelOutputs {
                logits: outputs[0].clone(),
                logit_offsets: inputs.logit_offsets.clone(),
                hidden_states: None,
            })
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Token t is most likely followed by t + 1, less likely by t + 2, and so on.
    let score = |at: u64| 3.0 - ((at % VOCAB + VOCAB - at / VOCAB - 1) % VOCAB) as f32;
    let table: Vec<f32> = (0..VOCAB * VOCAB).map(score).collect();
    let session = InferenceSession::new(Device::host(0)?);
    let bigram = Bigram::load(&session, &table)?;
    let text = TextProcessor::without_tokenizer("bigram", []);
    let model = Model::from_pipeline_model(&session, bigram, text)?;

    // Both requests run in one batch.
    let greedy = model.generate_tokens([5, 1]).max_tokens(6);
    let sampled = model.generate_tokens([4]).max_tokens(6).temperature(1.0);
    let sampled = sampled.seed(3).log_probabilities(2);
    for completion in model.complete_many([greedy, sampled]) {
        let completion = completion?;
        println!("{:?} {:?}", completion.tokens, completion.scores.first());
    }
    Ok(())
}
