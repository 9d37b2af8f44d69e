//! Which requests run in the next step, and with which of their tokens. Pure: it knows tokens and
//! pages, but no device.
//!
//! Continuous batching (Orca, Yu et al. 2022) with chunked prefill (Sarathi, Agrawal et al. 2023):
//! every running sequence that decodes takes one token of the step's budget, and what is left goes
//! to prompts, in pieces. Decode and prefill are one ragged batch.

use std::collections::VecDeque;

use super::{
    kv_cache::{BlockTable, PagePool, PrefixHits},
    log_probabilities::TokenScore,
    request::{FinishReason, Request, RequestError, RequestId, Sequence},
};

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The sequence's slot.
    pub slot: u32,
    /// First token of the part.
    pub start: usize,
    /// How many tokens.
    pub len: usize,
    /// True if it is the sequence's last token so far: a new one is drawn from its logits.
    pub draws: bool,
    /// True if the logits of all its positions are wanted, to score the prompt's tokens.
    pub scores: bool,
}

/// Sizes that a scheduler keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sequences that run at the same time.
    pub max_batch: usize,
    /// Tokens in one step.
    pub max_step_tokens: usize,
    /// Tokens of a sequence, prompt and generated ones.
    pub max_length: usize,
    /// Decode steps in one submission.
    pub max_steps: usize,
    /// Sequences whose prompts go through the model in one step.
    pub max_prefill: usize,
    /// Tokens in one step whose logits are wanted; at least `max_batch`.
    pub max_logit_rows: usize,
}

/// What runs next: the parts, and how many times a pure decode batch repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// One part a sequence.
    pub chunks: Vec<Chunk>,
    /// 1, or more if every part is one token that draws.
    pub repeat: usize,
}

/// What the model made of a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkOutput {
    /// The tokens drawn, one a step, if the part draws.
    pub tokens: Vec<u32>,
    /// Their scores, if these are wanted.
    pub scores: Vec<TokenScore>,
    /// Scores of the prompt's tokens that follow the part's, if it scores.
    pub prompt_scores: Vec<TokenScore>,
}

/// Decides what runs in each step.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    pool: PagePool,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    free_slots: Vec<u32>,
    next_id: u64,
    preemptions: u64,
}

impl Scheduler {
    /// A scheduler over a pool of pages.
    pub fn new(limits: Limits, pool: PagePool) -> Scheduler {
        let free_slots = (0..limits.max_batch as u32).rev().collect();
        Scheduler {
            limits,
            pool,
            waiting: VecDeque::new(),
            running: Vec::new(),
            free_slots,
            next_id: 0,
            preemptions: 0,
        }
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// If it could never run.
    pub fn add(&mut self, request: Request) -> Result<RequestId, RequestError> {
        let (tokens, max_length) = (request.tokens.len(), self.limits.max_length);
        if tokens == 0 {
            return Err(RequestError::Empty);
        }
        if tokens > max_length {
            return Err(RequestError::TooLong { tokens, max_length });
        }
        let (needed, pages) = (
            self.pool.pages_for(tokens as u64),
            self.pool.total_pages() as usize,
        );
        if needed > pages {
            return Err(RequestError::TooLargeForCache { needed, pages });
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back(Sequence::new(id, request));
        Ok(id)
    }

    /// True if nothing runs or waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// The running sequence in a slot.
    pub fn sequence(&self, slot: u32) -> Option<&Sequence> {
        self.running.iter().find(|sequence| sequence.slot == slot)
    }

    /// True if a request that waits or runs has the adapter in a slot of the device's.
    pub fn uses_adapter(&self, slot: u32) -> bool {
        let mut all = self.waiting.iter().chain(&self.running);
        all.any(|sequence| sequence.adapter.is_some_and(|adapter| adapter.slot == slot))
    }

    /// A number for sequences that are computed otherwise than those of any other number.
    pub fn new_cache_salt(&mut self) -> u64 {
        self.pool.number()
    }

    /// Free pages of the cache.
    pub fn free_pages(&self) -> usize {
        self.pool.free_pages()
    }

    /// How much of the prompts was found in the cache.
    pub fn prefix_hits(&self) -> PrefixHits {
        self.pool.prefix_hits()
    }

    /// How often a sequence gave its pages back to another and started over later.
    pub fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// Forgets the prompts that are kept for others: someone else writes to the cache.
    pub fn forget_prefixes(&mut self) {
        self.pool.forget();
    }

    /// Lets waiting requests in while there are slots and pages; returns the slots of the new ones,
    /// whose state on the device must be set up.
    pub fn admit(&mut self) -> Vec<u32> {
        let mut admitted = Vec::new();
        while let (Some(next), Some(slot)) = (self.waiting.front(), self.free_slots.last().copied())
        {
            // Pages for what it has so far and the token that it will draw.
            let positions = (next.tokens.len() + 1).min(self.limits.max_length) as u64;
            let mut table = match next.adapter {
                Some(adapter) => BlockTable::beginning(adapter.number),
                None => BlockTable::default(),
            };
            // The logits of a prompt that is scored are wanted, so it is computed.
            let found = match next.scores_prompt() {
                true => 0,
                false => self.pool.reuse(&mut table, &next.tokens),
            };
            let tokens = next.tokens.len();
            if !self.pool.grow(&mut table, positions) && !self.pool.grow(&mut table, tokens as u64)
            {
                self.pool.release(&mut table);
                break;
            }
            self.pool.count_hits(tokens, found);
            self.free_slots.pop();
            if let Some(mut sequence) = self.waiting.pop_front() {
                sequence.slot = slot;
                sequence.table = table;
                sequence.cached = found;
                self.running.push(sequence);
                admitted.push(slot);
            }
        }
        admitted
    }

    /// How many more tokens a sequence may draw.
    fn room(&self, sequence: &Sequence) -> usize {
        let allowed = sequence
            .max_new_tokens
            .saturating_sub(sequence.generated().len());
        allowed.min((self.limits.max_length + 1).saturating_sub(sequence.tokens.len()))
    }

    /// Chooses the next step; empty when nothing runs. Call [`Self::admit`] first.
    ///
    /// A sequence that needs a page when there is none makes the youngest one wait: it gives its
    /// pages back and starts over later, with the tokens it has.
    pub fn schedule(&mut self) -> Step {
        self.make_room();
        let mut budget = self.limits.max_step_tokens;
        let mut chunks = Vec::with_capacity(self.running.len());
        // Sequences that decode come first: their readers wait for each token.
        let (decoding, prefilling): (Vec<&Sequence>, Vec<&Sequence>) = self
            .running
            .iter()
            .partition(|sequence| sequence.tokens.len() - sequence.cached == 1);
        let prompts = prefilling.iter().take(self.limits.max_prefill.max(1));
        // Rows of logits beyond the one that each sequence may need.
        let mut rows = (self.limits.max_logit_rows).saturating_sub(self.running.len());
        for sequence in decoding.iter().chain(prompts) {
            let missing = sequence.tokens.len() - sequence.cached;
            let scores = sequence.scores_prompt();
            let mut len = missing.min(budget);
            if scores && len > 0 {
                len = len.min(rows + 1);
                rows -= len - 1;
            }
            if len > 0 {
                chunks.push(Chunk {
                    slot: sequence.slot,
                    start: sequence.cached,
                    len,
                    draws: len == missing,
                    scores,
                });
                budget -= len;
            }
        }
        let repeat = if prefilling.is_empty() {
            self.repeats()
        } else {
            1
        };
        Step { chunks, repeat }
    }

    /// Gives every running sequence the pages that its next token needs.
    fn make_room(&mut self) {
        let mut i = 0;
        while i < self.running.len() {
            let positions = self.running[i].tokens.len() as u64;
            if self.pool.grow(&mut self.running[i].table, positions) {
                i += 1;
            } else if let Some(mut youngest) = self.running.pop() {
                self.retire(&mut youngest);
                self.waiting.push_front(youngest);
                self.preemptions += 1;
            }
        }
    }

    /// How many decode steps fit into one submission: no sequence may outgrow its allowance, and
    /// all must find their pages now.
    fn repeats(&mut self) -> usize {
        let room = self
            .running
            .iter()
            .map(|sequence| self.room(sequence))
            .min()
            .unwrap_or(1);
        let mut repeat = room.clamp(1, self.limits.max_steps.max(1));
        let needed = |pool: &PagePool, repeat: usize| -> usize {
            let grown = |s: &Sequence| {
                pool.pages_for((s.tokens.len() + repeat - 1) as u64)
                    .saturating_sub(s.table.pages().len())
            };
            self.running.iter().map(grown).sum()
        };
        while repeat > 1 && needed(&self.pool, repeat) > self.pool.free_pages() {
            repeat -= 1;
        }
        for sequence in &mut self.running {
            // It was just counted that the pages are there.
            self.pool.grow(
                &mut sequence.table,
                (sequence.tokens.len() + repeat - 1) as u64,
            );
        }
        repeat
    }

    fn retire(&mut self, sequence: &mut Sequence) {
        self.pool.release(&mut sequence.table);
        self.free_slots.push(sequence.slot);
        sequence.cached = 0;
        sequence.prompt_scores.clear();
    }

    /// Takes in what the model made of each part of a step. Returns each accepted token, with the
    /// sequence's end if it is one; sequences that ended are gone.
    pub fn accept(&mut self, step: &Step, outputs: Vec<ChunkOutput>) -> Vec<SampledToken> {
        let mut events = Vec::new();
        for (chunk, output) in step.chunks.iter().zip(outputs) {
            let mut running = self.running.iter();
            let Some(at) = running.position(|sequence| sequence.slot == chunk.slot) else {
                continue;
            };
            let ended = self.accept_chunk(at, chunk, output, &mut events);
            let sequence = &mut self.running[at];
            self.pool
                .enter(&mut sequence.table, &sequence.tokens[..sequence.cached]);
            if ended {
                let mut ended = self.running.remove(at);
                self.retire(&mut ended);
            }
        }
        events
    }

    /// Takes in one part; true if its sequence ended.
    fn accept_chunk(
        &mut self,
        at: usize,
        chunk: &Chunk,
        output: ChunkOutput,
        events: &mut Vec<SampledToken>,
    ) -> bool {
        let sequence = &mut self.running[at];
        sequence.cached = chunk.start + chunk.len;
        sequence.prompt_scores.extend(output.prompt_scores);
        let mut scores = output.scores.into_iter();
        for token in output.tokens {
            let sequence = &mut self.running[at];
            let prompt_scores = std::mem::take(&mut sequence.prompt_scores);
            let finish = if sequence.stop_tokens.contains(&token) {
                Some(FinishReason::Stop)
            } else {
                sequence.tokens.push(token);
                (self.room(&self.running[at]) == 0).then_some(FinishReason::Length)
            };
            let sequence = &mut self.running[at];
            events.push(SampledToken {
                id: sequence.id,
                token,
                score: scores.next(),
                prompt_scores,
                finish,
            });
            if finish.is_some() {
                return true;
            }
            // All but the newest token have been through the model.
            sequence.cached = sequence.tokens.len() - 1;
        }
        false
    }

    /// Ends a request, waiting or running; its pages are free at once. False if there is none.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        if let Some(at) = self.waiting.iter().position(|sequence| sequence.id == id) {
            self.waiting.remove(at);
            return true;
        }
        let Some(at) = self.running.iter().position(|sequence| sequence.id == id) else {
            return false;
        };
        let mut ended = self.running.remove(at);
        self.retire(&mut ended);
        true
    }
}

/// A token that a step drew.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// The request.
    pub id: RequestId,
    /// The token; if it ended the text, it is not part of it.
    pub token: u32,
    /// How likely it was, if that is wanted.
    pub score: Option<TokenScore>,
    /// With the first token, if they are wanted: how likely the prompt's were, from the second on.
    pub prompt_scores: Vec<TokenScore>,
    /// Why the sequence ended with it.
    pub finish: Option<FinishReason>,
}

#[cfg(test)]
mod tests;
