//! One step of a scheduler on the device: its inputs, its submission, what comes back.

use wisp_shaders::params::SampleSettings;

use super::{DecoderModel, TokenInputs};
use crate::{
    pipelines::{
        PipelineError,
        log_probabilities::{LogProbabilities, SCORE_WORDS, TokenScore},
        sampling::SamplingParams,
        scheduler::{Chunk, ChunkOutput, Scheduler, Step},
    },
    session::submit,
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
        let stride = self.limits.pages_per_sequence() as usize;
        let mut inputs = TokenInputs {
            page_table: self.page_table.clone(),
            adapters: vec![0; self.limits.max_batch as usize],
            ..Default::default()
        };
        inputs
            .page_table
            .resize(stride * self.limits.max_batch as usize, 0);
        for chunk in &step.chunks {
            let Some(sequence) = scheduler.sequence(chunk.slot) else {
                continue;
            };
            let positions = chunk.start..chunk.start + chunk.len;
            inputs.tokens.extend(&sequence.tokens[positions.clone()]);
            inputs
                .index
                .extend(positions.map(|position| [chunk.slot, position as u32]));
            let end = inputs.tokens.len();
            let rows = end - rows_of(chunk)..end;
            inputs.logit_rows.extend(rows.map(|row| row as u32));
            if let Some(adapter) = sequence.adapter {
                inputs.adapters[chunk.slot as usize] = adapter.slot + 1;
            }
            let row = chunk.slot as usize * stride;
            for (entry, page) in inputs.page_table[row..row + stride]
                .iter_mut()
                .zip(sequence.block_table().pages())
            {
                *entry = *page;
            }
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
        let device = self.decoder.device().clone();
        submit(
            &device,
            &[(&self.decoder, &dims), (&self.sampler, &sampler_dims)],
            step.repeat,
        )?;
        let rows = settings.len();
        let places = (step.repeat * rows) as u64;
        let out: Vec<u32> = self.sampler.read("out", places).await?;
        let scores = self.read_scores(&settings, step.repeat).await?;
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

    /// The scores of every row of every step; none where they are not wanted. Nothing is read if
    /// none are.
    async fn read_scores(
        &self,
        settings: &[SampleSettings],
        steps: usize,
    ) -> Result<Vec<Option<TokenScore>>, PipelineError> {
        let places = steps * settings.len();
        if settings.iter().all(|row| row.scored == 0) {
            return Ok(vec![None; places]);
        }
        let words: Vec<u32> = self
            .sampler
            .read("scores", places as u64 * SCORE_WORDS)
            .await?;
        let rows = settings.iter().cycle();
        let places = words.chunks(SCORE_WORDS as usize).zip(rows);
        Ok(places
            .map(|(words, row)| {
                let top = row.scored.checked_sub(1)?;
                Some(TokenScore::from_words(words, top))
            })
            .collect())
    }

    /// The log-probabilities of the tokens of a batch that [`Self::execute`] has just run, as MAX's
    /// method of that name: for each sequence of the batch, in its order, those of `next_tokens`
    /// (one each) and, with `echo`, of its tokens from the second on, whose logits the batch must
    /// have asked for; `top_n` likeliest tokens at each place, and nothing where that is 0.
    ///
    /// Only these come back from the device.
    ///
    /// # Errors
    ///
    /// If the lists are not as long as the batch has sequences, a number is too great, logits are
    /// missing, or the device fails.
    pub async fn compute_log_probabilities(
        &mut self,
        inputs: &TokenInputs,
        next_tokens: &[u32],
        top_n: &[u32],
        echo: &[bool],
    ) -> Result<Vec<Option<LogProbabilities>>, PipelineError> {
        // Where each sequence's tokens begin.
        let slots: Vec<u32> = inputs.index.iter().map(|[slot, _]| *slot).collect();
        let starts: Vec<usize> = (0..slots.len())
            .filter(|at| *at == 0 || slots[*at] != slots[*at - 1])
            .collect();
        let count = starts.len();
        let sound = [next_tokens.len(), top_n.len(), echo.len()] == [count; 3]
            && next_tokens
                .iter()
                .all(|token| u64::from(*token) < self.spec.vocab_size)
            && slots
                .iter()
                .all(|slot| u64::from(*slot) < self.limits.max_batch)
            && inputs.logit_rows.len() as u64 <= self.limits.max_logit_rows;
        if !sound {
            return Err(PipelineError::Batch);
        }
        let mut settings = Vec::new();
        let mut of_sequence = vec![Vec::new(); count];
        for (row, token) in inputs.logit_rows.iter().enumerate() {
            let token = *token as usize;
            let sequence = starts
                .partition_point(|start| *start <= token)
                .saturating_sub(1);
            let end = starts.get(sequence + 1).copied().unwrap_or(slots.len());
            let is_last = token + 1 == end;
            let known = if is_last {
                next_tokens.get(sequence)
            } else {
                inputs.tokens.get(token + 1)
            };
            let (Some(known), Some(top)) = (known, top_n.get(sequence)) else {
                return Err(PipelineError::Batch);
            };
            let sampling = SamplingParams {
                log_probs: Some(*top).filter(|top| *top > 0),
                ..SamplingParams::default()
            };
            sampling.check()?;
            settings.push(sampling.settings(slots[token], 0, Some(*known)));
            if is_last || echo[sequence] {
                of_sequence[sequence].push(row);
            }
        }
        for (sequence, start) in starts.iter().enumerate() {
            let end = starts.get(sequence + 1).copied().unwrap_or(slots.len());
            let wanted = if echo[sequence] { end - start } else { 1 };
            if top_n[sequence] > 0 && of_sequence[sequence].len() != wanted {
                return Err(PipelineError::Batch);
            }
        }
        self.sampler.write("settings", &settings)?;
        let dims = self.sampler.dims(&self.sizes(inputs))?;
        self.sampler.run(&dims)?;
        let scores = self.read_scores(&settings, 1).await?;
        let of = |rows: &Vec<usize>| {
            rows.iter()
                .map(|row| scores[*row].clone())
                .collect::<Option<_>>()
        };
        Ok(of_sequence
            .iter()
            .zip(top_n)
            .map(|(rows, top)| of(rows).filter(|_| *top > 0))
            .collect())
    }
}
