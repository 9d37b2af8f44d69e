//! The scheduler: decides which requests run in the next step, and with which of their tokens. It is
//! pure CPU code that knows tokens and pages, but no device.
//!
//! It implements continuous batching (Orca, Yu et al. 2022) with chunked prefill (Sarathi, Agrawal et
//! al. 2023): every decoding sequence takes one token of the step's budget, and the rest of the budget
//! goes to prompts, in chunks. Decode and prefill are one ragged batch.
//!
//! With prefix caching, sequences with a common prefix compute it once, also if they arrive together: while one of them
//! computes it, the others wait, and then continue from its pages.
//!
//! A batch may be scheduled while the one before it is in flight, so that the device never waits for the host: the
//! number of tokens that a sequence gets is known before their values are. (vLLM calls this asynchronous scheduling.)
//! A sequence that turns out to have ended leaves a row of the batch without a use.
//!
//! A sequence with a constraint needs its last token before the tokens that may follow are known, so a batch with
//! one has one decode step, and one behind it is sampled only when the tokens before are known. Tokens that the
//! constraint forces are not sampled: they go through the model together, as a prompt does.

mod accept;
mod part;
mod prompts;
mod queue;

use super::{
    batch::Batch,
    kv_cache::{BlockTable, PagePool, PrefixHits},
    limits::ModelLimits,
    log_probabilities::TokenScore,
    pace::{Pace, part_of_prompt},
    request::{FinishReason, Request, RequestError, RequestId, Sequence},
    utilization::Utilization,
};
use queue::Queue;

/// A token that a step sampled, or that a constraint forced.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// The request that the token was sampled for.
    pub id: RequestId,
    /// The token. A token that ended the text ([`FinishReason::Stop`]) is not part of it; with
    /// [`FinishReason::NonFinite`] and [`FinishReason::ConstraintFailed`] the value has no meaning.
    pub token: u32,
    /// Its log-probability, if requested.
    pub score: Option<TokenScore>,
    /// With the first token, if requested: the log-probabilities of the prompt's tokens from the
    /// second on.
    pub prompt_scores: Vec<TokenScore>,
    /// Tokens of the prompt that the prefix cache held before any other was computed.
    pub cached_tokens: usize,
    /// Why the sequence ended with this token, if it did.
    pub finish: Option<FinishReason>,
}

/// How far a prompt has been computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillProgress {
    /// The request whose prompt is being computed.
    pub id: RequestId,
    /// Tokens of the prompt whose keys and values are in the cache.
    pub done: usize,
    /// Tokens of the prompt.
    pub total: usize,
}

/// The results of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepEvents {
    /// The progress of prompts that are not complete yet.
    pub prefill: Vec<PrefillProgress>,
    /// The sampled tokens, those of one request in order.
    pub tokens: Vec<SampledToken>,
}

/// The waiting request for which too few pages were free.
#[derive(Debug)]
struct RefusedRequest {
    id: RequestId,
    /// The number of free pages with which it can be admitted.
    free_pages: usize,
}

/// Decides what runs in each step.
#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: ModelLimits,
    pace: Pace,
    pool: PagePool,
    waiting: Queue,
    /// The last request that was refused for want of pages, unless it may need fewer by now.
    refused: Option<RefusedRequest>,
    /// The sequences that own pages, in the order of their admission.
    running: Vec<Sequence>,
    free_slots: Vec<u32>,
    next_id: u64,
    preemptions: u64,
}

impl Scheduler {
    /// Creates a scheduler for a model with these limits, and the pages of its cache.
    pub fn new(limits: ModelLimits) -> Scheduler {
        let pages = u32::try_from(limits.total_pages()).unwrap_or(u32::MAX);
        let pool = PagePool::new(pages, limits.page_size);
        let [slots, snapshots] = [limits.max_batch, limits.state_snapshots].map(|rows| rows as u32);
        Scheduler {
            limits,
            pace: Pace::unlimited(),
            pool: pool
                .with_prefix_caching(limits.prefix_caching)
                .with_snapshots(slots, snapshots),
            waiting: Queue::default(),
            refused: None,
            running: Vec::new(),
            free_slots: (0..limits.max_batch as u32).rev().collect(),
            next_id: 0,
            preemptions: 0,
        }
    }

    /// Returns the largest number of tokens of a sequence.
    fn max_length(&self) -> usize {
        self.limits.longest_sequence() as usize
    }

    /// Sets how much work one step takes from now on, within the limits.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// If the request can never run.
    pub fn add(&mut self, request: Request) -> Result<RequestId, RequestError> {
        let (tokens, max_length) = (request.tokens.len(), self.limits.max_length as usize);
        if tokens == 0 {
            return Err(RequestError::Empty);
        }
        if tokens > max_length {
            return Err(RequestError::TooLong { tokens, max_length });
        }
        let needed = self.pool.pages_for(tokens as u64);
        let pages = self.pool.total_pages() as usize;
        if needed > pages {
            return Err(RequestError::TooLargeForCache { needed, pages });
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let mut sequence = Sequence::new(id, request);
        self.begin_constraint(&mut sequence);
        self.waiting.push(sequence);
        Ok(id)
    }

    /// Returns whether no request runs or waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Returns whether a waiting or running request uses the adapter of a slot.
    pub fn uses_adapter(&self, slot: u32) -> bool {
        let mut all = self.waiting.iter().chain(&self.running);
        all.any(|sequence| sequence.adapter.is_some_and(|adapter| adapter.slot == slot))
    }

    /// Returns a new cache salt. Sequences with different salts share no pages.
    pub fn new_cache_salt(&mut self) -> u64 {
        self.pool.next_salt()
    }

    /// Returns the number of pages of the cache that no sequence owns.
    #[cfg(test)]
    pub fn free_pages(&self) -> usize {
        self.pool.free_pages()
    }

    /// Returns how many prompt tokens were found in the cache.
    pub fn prefix_hits(&self) -> PrefixHits {
        self.pool.prefix_hits()
    }

    /// Returns how much of the capacity is in use.
    pub fn utilization(&self) -> Utilization {
        let total_pages = self.pool.total_pages() as usize;
        Utilization {
            running: self.running.len(),
            waiting: self.waiting.len(),
            used_pages: total_pages.saturating_sub(self.pool.free_pages()),
            total_pages,
            prefix_hits: self.pool.prefix_hits(),
            preemptions: self.preemptions,
        }
    }

    /// Returns the number of preemptions: how often a sequence gave up its pages and later started
    /// over.
    pub fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// Forgets the cached prefixes, because other code writes to the cache.
    pub fn forget_prefixes(&mut self) {
        self.pool.forget();
    }

    /// Schedules the next batch when nothing is in flight; it is empty when no request can run.
    ///
    /// Running sequences get the pages that they need before waiting requests are admitted. If a sequence needs a page
    /// and none is free, it preempts the youngest sequence, which releases its pages and later starts over with the
    /// tokens it has. Then waiting requests are admitted while there are free slots and pages, those of the client that
    /// was served least first.
    pub fn schedule(&mut self) -> Batch {
        self.begin_batch();
        self.make_room();
        self.schedule_paced(self.pace)
    }

    /// Schedules the batch that is submitted behind one whose tokens are not known yet. It has the sequences that
    /// [`Self::schedule`] would take if none of them ended by itself: those that reach their token limit are not
    /// among them. It is empty if there are none, if the batch in flight takes as long as a batch may or leaves prompts
    /// no time, or if a sequence would have to be preempted.
    pub fn schedule_behind(&mut self, in_flight: &Batch) -> Batch {
        let Some(pace) = self.pace.behind(in_flight) else {
            return Batch::default();
        };
        self.begin_batch();
        for at in 0..self.running.len() {
            if !self.ends_in_flight(at) && !self.grow(at) {
                return Batch::default();
            }
        }
        self.schedule_paced(pace)
    }

    /// Takes note of what the batches before have left for the next one.
    fn begin_batch(&mut self) {
        self.pool.begin_batch();
        self.share_prefixes();
    }

    /// Schedules a batch of the running sequences, which have the pages that they need, and of requests that it admits.
    fn schedule_paced(&mut self, pace: Pace) -> Batch {
        self.admit();
        let mut budget = self.limits.max_step_tokens as usize;
        let mut prompt_budget = pace.prompt_tokens();
        if self.limits.max_prompt_tokens > 0 {
            prompt_budget = prompt_budget.min(self.limits.max_prompt_tokens as usize);
        }
        // Decoding sequences come first, because their readers wait for each token.
        let continuing = (0..self.running.len()).filter(|at| !self.ends_in_flight(*at));
        let (decoding, mut prefilling): (Vec<usize>, Vec<usize>) =
            continuing.partition(|at| self.running[*at].missing() == 1);
        prefilling.retain(|at| !self.awaits_prefix_in_flight(*at));
        if !prefilling.is_empty() && pace.prompt_tokens() == 0 {
            // The batch in flight leaves prompts no time. Nor would the next one, so nothing is submitted behind it: the
            // batch after it has the whole pace.
            return Batch::default();
        }
        let steps = match prefilling.is_empty() {
            true => self.decode_steps(&decoding, pace),
            false => 1,
        };
        let left = budget.saturating_sub(decoding.len()).min(prompt_budget);
        let prompts = self.plan_prompts(&prefilling, left);
        // Logit rows in addition to the one that each sequence may need.
        let mut rows = (self.limits.max_logit_rows as usize).saturating_sub(self.running.len());
        let mut sequences = Vec::with_capacity(self.running.len());
        let decoding = decoding.into_iter().map(|at| (at, 1));
        for (at, most) in decoding.chain(prompts) {
            let sequence = &mut self.running[at];
            let mut len = sequence.missing().min(budget);
            let is_chunk = len > 1;
            if is_chunk {
                len = part_of_prompt(sequence.missing(), budget.min(prompt_budget).min(most));
            }
            let scores = sequence.scores_prompt() && len > 0;
            if scores {
                len = len.min(rows + 1);
            }
            let (start, prompt) = (sequence.cached, sequence.prompt_tokens);
            if let Some(end) = self.pool.next_snapshot(&sequence.table, prompt, start) {
                len = len.min(end - start);
            }
            if is_chunk {
                prompt_budget -= len;
            }
            if scores {
                rows -= len - 1;
            }
            if len > 0 {
                if !sequence.has_run {
                    self.waiting.settle(sequence.client, sequence.unshared());
                }
                sequences.push(sequence.part(len, steps, &mut self.pool));
                budget -= len;
            }
        }
        Batch { sequences, steps }
    }

    /// Returns whether a sequence of a batch is still running.
    pub fn runs_any(&self, batch: &Batch) -> bool {
        let mut ids = batch.sequences.iter().map(|part| part.id);
        ids.any(|id| self.running.iter().any(|sequence| sequence.id == id))
    }

    /// Returns whether a waiting request was refused and there are still too few free pages for it.
    fn is_refused(&self, next: &Sequence) -> bool {
        self.refused.as_ref().is_some_and(|refused| {
            refused.id == next.id && self.pool.free_pages() < refused.free_pages
        })
    }

    /// Admits waiting requests while there are free slots and pages.
    fn admit(&mut self) {
        while let Some(slot) = self.free_slots.last().copied()
            && let Some(next) = self.waiting.peek()
            && !self.is_refused(next)
        {
            let free_pages = self.pool.free_pages();
            // Pages for its current tokens and the next sampled one.
            let positions = (next.tokens.len() + 1).min(self.max_length()) as u64;
            let mut table = match next.adapter {
                Some(adapter) => BlockTable::with_salt(adapter.cache_salt),
                None => BlockTable::default(),
            };
            // A prompt whose log-probabilities are requested is computed in full, because cached
            // positions have no logits.
            let found = match next.scores_prompt() {
                true => 0,
                false => self.pool.reuse(&mut table, &next.tokens),
            };
            let tokens = next.tokens.len();
            if !self.pool.grow(&mut table, positions) && !self.pool.grow(&mut table, tokens as u64)
            {
                let missing = self.pool.pages_for(tokens as u64) - table.pages().len();
                self.refused = Some(RefusedRequest {
                    id: next.id,
                    free_pages: free_pages + missing.saturating_sub(self.pool.free_pages()),
                });
                self.pool.release(&mut table);
                break;
            }
            self.refused = None;
            self.free_slots.pop();
            let computed = next.prompt_tokens.saturating_sub(found);
            if let Some(mut sequence) = self.waiting.pop(computed) {
                let is_new = sequence.prefix_hit.is_none();
                sequence.slot = slot;
                sequence.state = match found {
                    0 => None,
                    _ => self.pool.hold_reused_snapshot(&table, found),
                };
                sequence.table = table;
                (sequence.computed, sequence.cached) = (found, found);
                sequence.in_sampler = false;
                // Not again after a preemption.
                if !sequence.has_run {
                    let more = sequence.add_hits();
                    match is_new {
                        true => self.pool.count_hits(sequence.prompt_tokens, more),
                        false => {
                            self.pool.count_hits(0, more);
                            self.waiting.refund(sequence.client, more);
                        }
                    }
                }
                self.running.push(sequence);
            }
        }
    }

    /// Returns how many more tokens a sequence may generate.
    fn room(&self, sequence: &Sequence) -> usize {
        let allowed = sequence
            .max_new_tokens
            .saturating_sub(sequence.generated().len());
        allowed.min(self.context_room(sequence))
    }

    /// Returns how many more tokens the context has room for, with one that is sampled and not cached.
    fn context_room(&self, sequence: &Sequence) -> usize {
        (self.max_length() + 1).saturating_sub(sequence.tokens.len())
    }

    /// Returns whether a sequence reaches its token limit with the tokens in flight.
    fn ends_in_flight(&self, at: usize) -> bool {
        let sequence = &self.running[at];
        sequence.in_flight > 0 && self.room(sequence) <= sequence.in_flight
    }

    /// Gives a running sequence the pages that its next token needs; returns false if they are not free.
    fn grow(&mut self, at: usize) -> bool {
        let sequence = &mut self.running[at];
        let positions = sequence.length() as u64;
        self.pool.grow(&mut sequence.table, positions)
    }

    /// Gives every running sequence the pages that its next token needs.
    fn make_room(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            if self.grow(at) {
                at += 1;
            } else if let Some(youngest) = self.running.pop() {
                self.preempt(youngest);
            }
        }
    }

    /// Lets a sequence that ran start over later with the tokens it has.
    fn preempt(&mut self, mut sequence: Sequence) {
        self.retire(&mut sequence);
        self.waiting.push_resumed(sequence);
        self.preemptions += 1;
    }

    /// Lets the requests of a batch start over that may have run in part, without results. Its tokens could go
    /// through the model again, but it may have changed a recurrent state and what the sampler counts.
    pub fn start_over(&mut self, requests: &[RequestId]) {
        // The oldest last, so that it is the first to run again.
        for at in (0..self.running.len()).rev() {
            if requests.contains(&self.running[at].id) {
                let sequence = self.running.remove(at);
                self.preempt(sequence);
            }
        }
    }

    /// Returns how many decode steps of these sequences fit into one batch: no sequence may exceed its token limit, and
    /// the pages for all steps must be free now. Takes these pages. At least 1.
    fn decode_steps(&mut self, decoding: &[usize], pace: Pace) -> usize {
        let sequences = || decoding.iter().map(|at| &self.running[*at]);
        let most = match sequences().any(|sequence| sequence.constraint.is_some()) {
            true => 1,
            false => pace.decode_steps().min(self.limits.max_steps as usize),
        };
        let room =
            sequences().map(|sequence| self.room(sequence).saturating_sub(sequence.in_flight));
        let mut steps = room.min().unwrap_or(1).min(most).max(1);
        let positions = |sequence: &Sequence, steps: usize| (sequence.length() + steps - 1) as u64;
        let needed = |steps: usize| -> usize {
            let grown = |sequence: &Sequence| {
                self.pool
                    .pages_for(positions(sequence, steps))
                    .saturating_sub(sequence.table.pages().len())
            };
            sequences().map(grown).sum()
        };
        while steps > 1 && needed(steps) > self.pool.free_pages() {
            steps -= 1;
        }
        for at in decoding {
            let sequence = &mut self.running[*at];
            // The free pages were counted above, so this succeeds.
            let positions = positions(sequence, steps);
            self.pool.grow(&mut sequence.table, positions);
        }
        steps
    }

    fn retire(&mut self, sequence: &mut Sequence) {
        self.pool.release(&mut sequence.table);
        self.pool.release_snapshot(sequence.state.take());
        for row in sequence.snapshots.drain(..) {
            self.pool.release_snapshot(Some(row));
        }
        self.free_slots.push(sequence.slot);
        (sequence.computed, sequence.cached, sequence.in_flight) = (0, 0, 0);
        sequence.prompt_scores.clear();
    }

    /// Ends the requests of a batch that failed, and frees their pages. Returns those that had not ended.
    pub fn fail(&mut self, requests: &[RequestId]) -> Vec<RequestId> {
        let requests = requests.iter().copied();
        requests.filter(|id| self.cancel(*id)).collect()
    }

    /// Ends a waiting or running request and frees its pages at once. Returns false if there is no
    /// such request.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        if self.waiting.remove(id) {
            return true;
        }
        let Some(at) = self.running.iter().position(|sequence| sequence.id == id) else {
            return false;
        };
        self.end(at);
        true
    }

    /// Ends a running request.
    fn end(&mut self, at: usize) {
        let mut ended = self.running.remove(at);
        self.retire(&mut ended);
        self.waiting.end(&ended);
    }
}

#[cfg(test)]
mod fairness;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod in_flight;
#[cfg(test)]
mod mock;
#[cfg(test)]
mod shared_prefixes;
#[cfg(test)]
mod tests;
