//! One step of a scheduler on the device: its inputs, its submission, what comes back.

use wisp_shaders::params::SampleSettings;

use super::DecoderModel;
use crate::{
    PipelineError,
    pipeline_model::{SequenceInputs, TokenInputs},
    sampler,
    scheduler::{Chunk, ChunkOutput, Scheduler, Step},
};

/// The rows of logits of a part: those of all its tokens, or of the last.
fn rows_of(chunk: &Chunk) -> usize {
    match chunk.scores {
        true => chunk.len,
        false => chunk.draws.into(),
    }
}

impl DecoderModel {
    /// The inputs of a scheduler's step.
    pub fn prepare_token_inputs(&self, scheduler: &Scheduler, step: &Step) -> TokenInputs {
        let (mut inputs, stride) = self.empty_inputs();
        for chunk in &step.chunks {
            let Some(sequence) = scheduler.sequence(chunk.slot) else {
                continue;
            };
            let part = SequenceInputs {
                slot: chunk.slot,
                start: chunk.start as u32,
                tokens: &sequence.tokens[chunk.start..chunk.start + chunk.len],
                pages: sequence.block_table().pages(),
            };
            inputs.push(part, rows_of(chunk), stride);
            inputs.adapt(chunk.slot, sequence.adapter);
        }
        inputs
    }

    /// The sampler's settings for each row of logits of a step.
    fn settings(scheduler: &Scheduler, step: &Step) -> Vec<SampleSettings> {
        let mut settings = Vec::new();
        for chunk in &step.chunks {
            let Some(sequence) = scheduler.sequence(chunk.slot) else {
                continue;
            };
            let end = chunk.start + chunk.len;
            settings.extend((end - rows_of(chunk)..end).map(|at| {
                // Only the last token draws: what follows the others is known.
                let known = sequence.tokens.get(at + 1).copied();
                sequence.sampling.settings(chunk.slot, at as u32 + 1, known)
            }));
        }
        settings
    }

    /// Runs a step of the scheduler and draws its tokens on the device, all in one submission.
    /// Returns what came of each part, in order.
    ///
    /// # Errors
    ///
    /// If the batch exceeds the model's limits or the device fails.
    pub async fn step(
        &mut self,
        scheduler: &Scheduler,
        step: &Step,
    ) -> Result<Vec<ChunkOutput>, PipelineError> {
        let inputs = self.prepare_token_inputs(scheduler, step);
        let dims = self.write(&inputs)?;
        let settings = DecoderModel::settings(scheduler, step);
        self.sampler.write("settings", &settings)?;
        let sampler_dims = self.sampler.dims(&self.sizes(&inputs))?;
        for _ in 0..step.repeat {
            self.decoder.run(&dims)?;
            self.sampler.run(&sampler_dims)?;
        }
        let rows = settings.len();
        let places = (step.repeat * rows) as u64;
        let out: Vec<u32> = self.sampler.read("out", places).await?;
        let scores = sampler::read_scores(&self.sampler, &settings, step.repeat).await?;
        let mut first = 0;
        let mut outputs = Vec::with_capacity(step.chunks.len());
        for chunk in &step.chunks {
            let prompt_tokens = scheduler
                .sequence(chunk.slot)
                .map_or(0, |sequence| sequence.prompt_tokens);
            let next = first + rows_of(chunk);
            let mut output = ChunkOutput::default();
            let known = next - usize::from(chunk.draws);
            for row in (first..known).filter(|row| chunk.start + row - first + 1 < prompt_tokens) {
                output.prompt_scores.extend(scores[row].clone());
            }
            if chunk.draws {
                let drawn = (0..step.repeat).map(|step| step * rows + known);
                output.tokens = drawn.clone().map(|at| out[at]).collect();
                output.scores = drawn.filter_map(|at| scores[at].clone()).collect();
            }
            outputs.push(output);
            first = next;
        }
        Ok(outputs)
    }
}
