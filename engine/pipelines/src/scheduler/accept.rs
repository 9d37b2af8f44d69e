//! What a step's results do to its sequences, and the constraints of sequences.

use std::collections::HashMap;

use rayon::prelude::*;

use super::{PrefillProgress, SampledToken, Scheduler, StepEvents};
use crate::{
    batch::{Batch, BatchSequence, SequenceOutput},
    log_probabilities::TokenScore,
    request::{FinishReason, RequestId, Sequence},
    sampler::NO_TOKEN,
};

impl Scheduler {
    /// Applies the results of a batch to its sequences and removes those that ended.
    pub fn accept(&mut self, batch: &Batch, outputs: Vec<SequenceOutput>) -> StepEvents {
        let mut events = StepEvents::default();
        for (part, output) in batch.sequences.iter().zip(outputs) {
            let mut running = self.running.iter();
            let Some(at) = running.position(|sequence| sequence.id == part.id) else {
                continue;
            };
            let sampled = match part.samples {
                true => batch.steps.max(1),
                false => 0,
            };
            let sequence = &mut self.running[at];
            sequence.in_flight = sequence.in_flight.saturating_sub(sampled);
            let reported = events.tokens.len();
            let ended = self.accept_part(at, part, output, &mut events);
            let generated = events.tokens.len() - reported;
            let sequence = &mut self.running[at];
            // Each further step computes the token that the one before it sampled.
            let computed = part.start as usize + part.tokens.len() + sampled.saturating_sub(1);
            sequence.computed = computed.min(sequence.tokens.len());
            if (part.start as usize) < sequence.prompt_tokens {
                // The waiting request may share the pages that the cache has now, and need fewer.
                self.refused = None;
            }
            self.waiting.charge(sequence.client, generated);
            self.pool
                .enter(&mut sequence.table, &sequence.tokens[..sequence.computed]);
            let mut written = sequence.snapshots.iter();
            if let Some(row) = part.state_written
                && let Some(at) = written.position(|written| *written == row)
            {
                sequence.snapshots.remove(at);
                let positions = part.start as usize + part.tokens.len();
                self.pool.enter_snapshot(&sequence.table, positions, row);
            }
            if ended {
                self.end(at);
            }
        }
        events
    }

    /// Applies one sequence's results; returns true if the sequence ended.
    fn accept_part(
        &mut self,
        at: usize,
        part: &BatchSequence,
        output: SequenceOutput,
        events: &mut StepEvents,
    ) -> bool {
        let sequence = &mut self.running[at];
        sequence.prompt_scores.extend(output.prompt_scores);
        if !part.samples && (part.start as usize) < sequence.prompt_tokens {
            events.prefill.push(PrefillProgress {
                id: sequence.id,
                done: (part.start as usize + part.tokens.len()).min(sequence.prompt_tokens),
                total: sequence.prompt_tokens,
            });
        }
        let mut scores = output.scores.into_iter();
        let tokens = match output.not_finite {
            true => vec![NO_TOKEN],
            false => output.tokens,
        };
        for token in tokens {
            let sequence = &mut self.running[at];
            report_forced(sequence, events);
            let finish = self.append(at, token);
            let sequence = &mut self.running[at];
            events
                .tokens
                .push(sequence.event(token, scores.next(), finish));
            if finish.is_some() {
                return true;
            }
            if self.jump_ahead(at, events) {
                return true;
            }
        }
        false
    }

    /// Appends a sampled token to a sequence, unless it ends it. Returns why the sequence ends with it.
    fn append(&mut self, at: usize, token: u32) -> Option<FinishReason> {
        let sequence = &mut self.running[at];
        if let Some(constraint) = &mut sequence.constraint {
            if token == NO_TOKEN && constraint.has_failed() {
                return Some(FinishReason::ConstraintFailed);
            }
            let is_other_end =
                sequence.stop_tokens.contains(&token) && !constraint.ends_with(token);
            if token != NO_TOKEN && !is_other_end {
                match constraint.consume(token) {
                    false => return Some(FinishReason::ConstraintFailed),
                    true if constraint.ends_with(token) => return Some(FinishReason::Stop),
                    true => {}
                }
            }
        }
        if token == NO_TOKEN {
            return Some(FinishReason::NonFinite);
        }
        if sequence.stop_tokens.contains(&token) {
            return Some(FinishReason::Stop);
        }
        sequence.tokens.push(token);
        let is_complete = sequence
            .constraint
            .as_ref()
            .is_some_and(|c| c.is_complete());
        // A complete text ends by itself, also where there is no room for more.
        (!is_complete && self.room(&self.running[at]) == 0).then_some(FinishReason::Length)
    }

    /// Appends the tokens that a sequence's constraint forces; returns true if the sequence ended because nothing
    /// else can follow.
    fn jump_ahead(&mut self, at: usize, events: &mut StepEvents) -> bool {
        let room = self.room(&self.running[at]);
        let sequence = &mut self.running[at];
        let Some(constraint) = &mut sequence.constraint else {
            return false;
        };
        // The last token is always sampled, so that the sequence ends where others do.
        let forced = constraint.take_forced(room.saturating_sub(1), &sequence.stop_tokens);
        let is_complete = constraint.is_complete();
        if !forced.is_empty() {
            // The sampler has not counted these tokens, and need not sample the first of them.
            sequence.in_sampler = false;
            sequence.in_flight = 0;
        }
        sequence.unreported = forced.len();
        sequence.tokens.extend(forced);
        report_forced(sequence, events);
        if is_complete {
            let end = sequence.event(NO_TOKEN, None, Some(FinishReason::Stop));
            events.tokens.push(end);
        }
        is_complete
    }

    /// Appends the tokens with which the texts of a new sequence's constraint begin: they go through the model with
    /// the prompt.
    pub(super) fn begin_constraint(&mut self, sequence: &mut Sequence) {
        let room = self.room(sequence);
        if let Some(constraint) = &mut sequence.constraint {
            let pages = self.pool.total_pages() as usize * self.limits.page_size as usize;
            let room = room.min(pages.saturating_sub(sequence.tokens.len()));
            let room = room.saturating_sub(1);
            let forced = constraint.take_first_forced(room, &sequence.stop_tokens);
            sequence.unreported = forced.len();
            sequence.tokens.extend(forced);
        }
    }

    /// Takes note in a batch that is about to be sampled, and that was scheduled when fewer tokens were known, of the
    /// sequences that have ended since or whose next token their constraint has forced.
    pub fn update(&self, batch: &mut Batch) {
        for part in &mut batch.sequences {
            let mut running = self.running.iter();
            let sequence = running.find(|sequence| sequence.id == part.id);
            part.samples &= sequence.is_some_and(|sequence| sequence.in_flight > 0);
        }
    }

    /// Computes which tokens may follow in some sequences, `[requests, words]` with a bit for each: all if a sequence has
    /// no constraint, and none if that fails.
    pub fn masks(&mut self, requests: &[RequestId], words: &mut [u32]) {
        let mut running: HashMap<RequestId, &mut Sequence> = self
            .running
            .iter_mut()
            .map(|sequence| (sequence.id, sequence))
            .collect();
        let sequences = requests.iter().map(|id| running.remove(id));
        let per_mask = words.len() / requests.len().max(1);
        let masks = words.chunks_mut(per_mask.max(1)).zip(sequences);
        let masks: Vec<_> = masks.collect();
        let compute = |(words, sequence): (&mut [u32], Option<&mut Sequence>)| {
            let constraint = sequence
                .and_then(|sequence| Some((sequence.constraint.as_mut()?, &sequence.stop_tokens)));
            match constraint {
                Some((constraint, stop_tokens)) => constraint.mask(words, stop_tokens),
                None => words.fill(u32::MAX),
            }
        };
        match masks.len() {
            // Another thread would take longer to begin.
            1 => masks.into_iter().for_each(compute),
            _ => masks.into_par_iter().for_each(compute),
        }
    }
}

/// Reports tokens that were forced, and not sampled.
fn report_forced(sequence: &mut Sequence, events: &mut StepEvents) {
    let unreported = std::mem::take(&mut sequence.unreported);
    let first = sequence.tokens.len() - unreported;
    for at in first..sequence.tokens.len() {
        let token = sequence.tokens[at];
        events.tokens.push(sequence.event(token, None, None));
    }
}

impl Sequence {
    /// Returns the event of a token, with the log-probabilities of the prompt that no event has reported yet.
    fn event(
        &mut self,
        token: u32,
        score: Option<TokenScore>,
        finish: Option<FinishReason>,
    ) -> SampledToken {
        SampledToken {
            id: self.id,
            token,
            score,
            prompt_scores: std::mem::take(&mut self.prompt_scores),
            cached_tokens: self.prefix_hit.unwrap_or_default(),
            finish,
        }
    }
}
