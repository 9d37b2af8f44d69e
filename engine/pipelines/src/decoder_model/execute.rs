//! One step of the decoder: checks its inputs, writes them and runs the program.

use wisp_session::{Dims, Tensor};
use wisp_shaders::params::NO_STATE;

use super::{DecoderModel, state_dims};
use crate::{ModelInputs, ModelOutputs, PipelineError, ReturnHiddenStates};

/// True if all words of a tensor that is in host memory hold; what is on the device is bounded by the
/// kernels.
fn all_words(tensor: &Tensor, holds: impl Fn(u64) -> bool) -> bool {
    let mut words = tensor.as_u32().unwrap_or_default().iter();
    words.all(|word| holds(u64::from(*word)))
}

impl DecoderModel {
    /// Refuses tokens outside the vocabulary and indices outside the model's memory.
    fn check(&self, inputs: &ModelInputs) -> Result<(), PipelineError> {
        let (limits, vocab_size) = (&self.limits, self.spec.vocab_size);
        let mut tokens = inputs.tokens.as_u32().unwrap_or_default().iter();
        if let Some(token) = tokens.find(|token| u64::from(**token) >= vocab_size) {
            let token = *token;
            return Err(PipelineError::UnknownToken { token, vocab_size });
        }
        let &[count] = inputs.tokens.shape() else {
            return Err(PipelineError::Batch);
        };
        let &[slots, pages] = inputs.page_table.shape() else {
            return Err(PipelineError::Batch);
        };
        let page_size = u64::from(limits.page_size.max(1));
        let mut index = inputs.index.as_u32().unwrap_or_default().chunks_exact(2);
        let sound = inputs.index.shape() == [count, 2]
            && index.all(|at| {
                let [slot, position] = [at[0], at[1]].map(u64::from);
                slot < slots && position < limits.max_length && position / page_size < pages
            })
            && all_words(&inputs.logit_rows, |row| row < count)
            && slots <= limits.max_batch
            && pages <= limits.pages_per_sequence()
            && all_words(&inputs.page_table, |page| page < limits.total_pages())
            && self.has_sound_spans(inputs, [slots, count])
            && inputs.adapters.shape() == [slots]
            && all_words(&inputs.adapters, |adapter| adapter <= limits.max_num_loras);
        sound.then_some(()).ok_or(PipelineError::Batch)
    }

    /// True if the spans of a batch lie within its tokens and the rows of the recurrent state.
    fn has_sound_spans(&self, inputs: &ModelInputs, [slots, tokens]: [u64; 2]) -> bool {
        let rows = self.limits.state_rows();
        let mut spans = inputs.spans.as_u32().unwrap_or_default().chunks_exact(4);
        inputs.spans.shape() == [slots, 4]
            && spans.all(|span| {
                let [first, len, _, written] = [span[0], span[1], span[2], span[3]].map(u64::from);
                let reads = span[2] == NO_STATE || u64::from(span[2]) < rows;
                len == 0 || first + len <= tokens && written < rows && reads
            })
    }

    /// Writes the inputs that differ from what the device has.
    async fn write(&mut self, inputs: &ModelInputs) -> Result<(), PipelineError> {
        self.decoder.write_tensor("tokens", &inputs.tokens).await?;
        self.decoder.write_tensor("index", &inputs.index).await?;
        if let Some(table) = &self.layer_embeddings {
            table.write(&inputs.tokens, &self.decoder).await?;
        }
        let written = &mut self.written;
        let mut seldom = vec![
            ("logit_rows", &inputs.logit_rows, &mut written.logit_rows),
            ("page_table", &inputs.page_table, &mut written.page_table),
        ];
        if self.limits.max_num_loras > 0 {
            seldom.push(("adapters", &inputs.adapters, &mut written.adapters));
        }
        if self.spec.has_state() {
            seldom.push(("spans", &inputs.spans, &mut written.spans));
        }
        for (name, tensor, last) in seldom {
            if last.as_ref() != Some(tensor) {
                // A write that fails leaves anything on the device.
                *last = None;
                self.decoder.write_tensor(name, tensor).await?;
                *last = Some(tensor.clone());
            }
        }
        Ok(())
    }

    /// Checks a step's inputs, writes them to the device, and returns the sizes of the step.
    pub(crate) async fn stage(&mut self, inputs: &ModelInputs) -> Result<Dims, PipelineError> {
        self.check(inputs)?;
        self.write(inputs).await?;
        Ok(self.decoder.dims(&self.sizes(inputs))?)
    }

    /// Runs one step.
    pub(super) async fn run(
        &mut self,
        inputs: &ModelInputs,
    ) -> Result<ModelOutputs, PipelineError> {
        let dims = self.stage(inputs).await?;
        self.decoder.run(&dims)?;
        let output = |name| self.decoder.output_on_device(name, &dims);
        let hidden_states = match self.limits.return_hidden_states {
            ReturnHiddenStates::None => None,
            ReturnHiddenStates::Last => {
                Some(self.last_rows(inputs, output("hidden_states")?).await?)
            }
            _ => Some(output("hidden_states")?),
        };
        Ok(ModelOutputs {
            logits: output("logits")?,
            logit_offsets: inputs.logit_offsets.clone(),
            hidden_states,
        })
    }

    fn sizes(&self, inputs: &ModelInputs) -> Vec<(&'static str, u64)> {
        let size = |tensor: &Tensor, axis: usize| tensor.shape().get(axis).copied().unwrap_or(0);
        let mut sizes = vec![
            ("tokens", size(&inputs.tokens, 0)),
            ("batch", size(&inputs.page_table, 0)),
            ("max_pages", size(&inputs.page_table, 1)),
            ("logit_rows", size(&inputs.logit_rows, 0)),
            ("pages", self.limits.total_pages()),
        ];
        sizes.extend(state_dims(&self.spec, self.limits));
        sizes.extend(self.rings.iter().flat_map(|rings| rings.dims(&self.limits)));
        sizes
    }

    /// Of hidden states `[logit_rows, hidden]` the last row of each sequence, in host memory.
    async fn last_rows(
        &self,
        inputs: &ModelInputs,
        states: Tensor,
    ) -> Result<Tensor, PipelineError> {
        let width = self.spec.hidden_size as usize;
        let states = states.to_host().await?;
        let states = states.as_f32().unwrap_or_default();
        let mut last = Vec::with_capacity(inputs.sequences() * width);
        for ends in inputs.logit_offsets.windows(2) {
            let row = (ends[1] > ends[0]).then(|| ends[1] as usize - 1);
            let row = row.and_then(|row| states.get(row * width..(row + 1) * width));
            last.extend_from_slice(row.ok_or(PipelineError::Batch)?);
        }
        let shape = [inputs.sequences() as u64, width as u64];
        Tensor::f32(&shape, &last).ok_or(PipelineError::Batch)
    }
}
