//! The part of a sequence in a batch.

use crate::{
    batch::{BatchSequence, TokenHistory},
    kv_cache::PagePool,
    request::Sequence,
};

impl Sequence {
    /// Returns the number of tokens that no batch has taken through the model.
    pub(super) fn missing(&self) -> usize {
        self.length() - self.cached
    }

    /// Takes note of how much of the prompt the cache has, before anything has run; returns how much more than when it was
    /// last noted.
    pub(super) fn add_hits(&mut self) -> usize {
        let hits = self.prefix_hit.get_or_insert_default();
        // The tokens that a constraint forces, or that were generated before a preemption, are not the prompt's.
        let more = self.cached.min(self.prompt_tokens).saturating_sub(*hits);
        *hits += more;
        more
    }

    /// Returns the tokens of the prompt that the cache did not have when it was last noted.
    pub(super) fn unshared(&self) -> usize {
        self.prompt_tokens - self.prefix_hit.unwrap_or_default()
    }

    /// Returns the part of the next `len` tokens of a batch of `steps` steps, which is about to be submitted. It may
    /// leave a snapshot, unless further steps change the state.
    pub(super) fn part(&mut self, len: usize, steps: usize, pool: &mut PagePool) -> BatchSequence {
        let (start, end) = (self.cached, self.cached + len);
        self.has_run = true;
        let state_read = self.state.take();
        pool.release_read_snapshot(state_read);
        let snapshot = pool.next_snapshot(&self.table, self.prompt_tokens, start);
        let mut state_written = None;
        if steps == 1 && snapshot == Some(end) {
            state_written = pool.take_snapshot(end);
            self.snapshots.extend(state_written);
            self.state = state_written;
        }
        let samples = end == self.length();
        let logit_rows = match self.scores_prompt() {
            true => len,
            false => samples.into(),
        };
        let begins = logit_rows > 0 && !self.in_sampler;
        self.in_sampler |= begins;
        let history = || TokenHistory {
            tokens: match self.sampling.penalises() {
                true => self.tokens.clone(),
                false => Vec::new(),
            },
            prompt_tokens: self.prompt_tokens,
        };
        let token = |at| self.tokens.get(at).copied().unwrap_or_default();
        let part = BatchSequence {
            id: self.id,
            slot: self.slot,
            start: start as u32,
            tokens: (start..end).map(token).collect(),
            awaits_token: end > self.tokens.len(),
            pages: self.table.pages().to_vec(),
            state_read,
            state_written,
            adapter: self.adapter,
            logit_rows,
            samples,
            constrained: samples && self.constraint.is_some(),
            following: self.tokens.get(end).copied(),
            sampling: self.sampling.clone(),
            history: begins.then(history),
        };
        self.cached = end;
        if samples {
            self.cached += steps - 1;
            self.in_flight += steps;
        }
        part
    }
}
