//! A decoder that claims to be ahead of its device, as one on a GPU is.

use wisp_engine::{
    pipelines::{
        DecoderModel, ModelInputs, ModelLimits, ModelOutputs, PipelineError, PipelineModel,
        SamplingBuffers,
    },
    types::BoxFuture,
};

/// A decoder whose batches are submitted before the tokens of those before them are known, on any device.
#[derive(Debug)]
pub struct Asynchronous(pub DecoderModel);

impl PipelineModel for Asynchronous {
    fn limits(&self) -> &ModelLimits {
        self.0.limits()
    }

    fn vocab_size(&self) -> u64 {
        self.0.vocab_size()
    }

    fn executes_asynchronously(&self) -> bool {
        true
    }

    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>> {
        self.0.execute(inputs)
    }

    fn sampling_buffers(&self) -> SamplingBuffers {
        self.0.sampling_buffers()
    }
}
