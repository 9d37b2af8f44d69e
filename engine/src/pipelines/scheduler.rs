//! Which requests run in the next step, and with which of their tokens. Pure: it knows tokens and
//! pages, but no device.
//!
//! Continuous batching (Orca, Yu et al. 2022) with chunked prefill (Sarathi, Agrawal et al. 2023):
//! every running sequence that decodes takes one token of the step's budget, and what is left goes
//! to prompts, in pieces. Decode and prefill are one ragged batch.

use std::collections::VecDeque;

use super::{
    kv_cache::{BlockTable, PagePool},
    sampling::SamplingParams,
};

/// What names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request on its way through the scheduler.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The request.
    pub id: RequestId,
    /// Prompt and generated tokens.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// How its tokens are drawn.
    pub sampling: SamplingParams,
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// Tokens that end it; the ending token is not part of the text.
    pub stop_tokens: Vec<u32>,
    /// Its row in the page table and the sampler's state.
    pub slot: u32,
    /// Positions whose keys and values are in the cache.
    cached: usize,
    table: BlockTable,
}

impl Sequence {
    /// The pages of its cache.
    pub fn block_table(&self) -> &BlockTable {
        &self.table
    }

    /// Tokens generated so far.
    pub fn generated(&self) -> &[u32] {
        &self.tokens[self.prompt_tokens..]
    }
}

/// A request, as it comes.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt, at least one token.
    pub tokens: Vec<u32>,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// Tokens that end the text.
    pub stop_tokens: Vec<u32>,
}

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
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended the text, or a stop string was met.
    Stop,
    /// As many tokens as were allowed, or the context is full.
    Length,
    /// The caller ended it.
    Cancelled,
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
}

/// What runs next: the parts, and how many times a pure decode batch repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// One part a sequence.
    pub chunks: Vec<Chunk>,
    /// 1, or more if every part is one token that draws.
    pub repeat: usize,
}

/// Occurs when a request cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Occurs when the prompt is empty.
    #[error("the prompt has no tokens")]
    Empty,
    /// Occurs when the prompt leaves no room.
    #[error(
        "the prompt has {tokens} tokens, but the context holds {max_length}: shorten it or raise --max-length"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The context.
        max_length: usize,
    },
    /// Occurs when the cache cannot hold the prompt even alone.
    #[error("the prompt needs {needed} pages of KV cache, but there are {pages}")]
    TooLargeForCache {
        /// Pages needed.
        needed: usize,
        /// Pages there are.
        pages: usize,
    },
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
        self.waiting.push_back(Sequence {
            id,
            prompt_tokens: tokens,
            tokens: request.tokens,
            sampling: request.sampling,
            max_new_tokens: request.max_new_tokens,
            stop_tokens: request.stop_tokens,
            slot: 0,
            cached: 0,
            table: BlockTable::default(),
        });
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

    /// Free pages of the cache.
    pub fn free_pages(&self) -> usize {
        self.pool.free_pages()
    }

    /// Lets waiting requests in while there are slots and pages; returns the slots of the new ones,
    /// whose state on the device must be set up.
    pub fn admit(&mut self) -> Vec<u32> {
        let mut admitted = Vec::new();
        while let (Some(next), Some(slot)) = (self.waiting.front(), self.free_slots.last().copied())
        {
            // Pages for what it has so far and the token that it will draw.
            let positions = (next.tokens.len() + 1).min(self.limits.max_length) as u64;
            let mut table = BlockTable::default();
            if !self.pool.grow(&mut table, positions)
                && !self.pool.grow(&mut table, next.tokens.len() as u64)
            {
                break;
            }
            self.free_slots.pop();
            if let Some(mut sequence) = self.waiting.pop_front() {
                sequence.slot = slot;
                sequence.table = table;
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
        for sequence in decoding.iter().chain(prompts) {
            let missing = sequence.tokens.len() - sequence.cached;
            let len = missing.min(budget);
            if len > 0 {
                chunks.push(Chunk {
                    slot: sequence.slot,
                    start: sequence.cached,
                    len,
                    draws: len == missing,
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
    }

    /// Takes in what a step drew: for each part that draws, its tokens in order. Returns each
    /// accepted token, with the sequence's end if it is one; sequences that ended are gone.
    pub fn accept(&mut self, step: &Step, drawn: &[Vec<u32>]) -> Vec<Drawn> {
        let mut events = Vec::new();
        let mut draws = drawn.iter();
        for chunk in &step.chunks {
            let tokens = if chunk.draws { draws.next() } else { None };
            let Some(at) = self
                .running
                .iter()
                .position(|sequence| sequence.slot == chunk.slot)
            else {
                continue;
            };
            self.running[at].cached = chunk.start + chunk.len;
            for token in tokens.into_iter().flatten() {
                let sequence = &mut self.running[at];
                let finish = if sequence.stop_tokens.contains(token) {
                    Some(FinishReason::Stop)
                } else {
                    sequence.tokens.push(*token);
                    (self.room(&self.running[at]) == 0).then_some(FinishReason::Length)
                };
                let sequence = &mut self.running[at];
                events.push(Drawn {
                    id: sequence.id,
                    token: *token,
                    finish,
                });
                if finish.is_some() {
                    break;
                }
                // All but the newest token have been through the model.
                sequence.cached = sequence.tokens.len() - 1;
            }
            if events
                .last()
                .is_some_and(|event| event.id == self.running[at].id && event.finish.is_some())
            {
                let mut ended = self.running.remove(at);
                self.retire(&mut ended);
            }
        }
        events
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The request.
    pub id: RequestId,
    /// The token; if it ended the text, it is not part of it.
    pub token: u32,
    /// Why the sequence ended with it.
    pub finish: Option<FinishReason>,
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn request(tokens: usize, max_new_tokens: usize) -> Request {
        Request {
            tokens: (0..tokens as u32).collect(),
            sampling: SamplingParams::default(),
            max_new_tokens,
            stop_tokens: vec![],
        }
    }

    /// A stand-in for a model whose next token is a function of all tokens before it.
    fn next(tokens: &[u32]) -> u32 {
        tokens.iter().fold(17u32, |hash, token| {
            hash.wrapping_mul(31).wrapping_add(*token)
        }) % 1000
    }

    proptest! {
        /// Whatever the batch, the chunks and the pages, each request gets its own tokens, the
        /// parts of a sequence follow each other without gap, and no page is left behind.
        #[test]
        fn composition_changes_nothing(
            lengths in prop::collection::vec((1usize..30, 0usize..12), 1..9),
            max_batch in 1usize..6,
            max_step_tokens in 1usize..40,
            pages in 5u32..30,
            page_size in 1u32..9,
            max_steps in 1usize..5,
            max_prefill in 1usize..4,
        ) {
            let max_length = 45.min(pages as usize * page_size as usize);
            let limits = Limits { max_batch, max_step_tokens, max_length, max_steps, max_prefill };
            let mut scheduler = Scheduler::new(limits, PagePool::new(pages, page_size));
            let mut expected = HashMap::new();
            for (tokens, new) in lengths {
                let Ok(id) = scheduler.add(request(tokens, new.max(1))) else { continue };
                let mut all: Vec<u32> = (0..tokens as u32).collect();
                let room = new.max(1).min(max_length + 1 - tokens);
                for _ in 0..room {
                    all.push(next(&all));
                }
                expected.insert(id, all[tokens..].to_vec());
            }
            let mut got: HashMap<RequestId, Vec<u32>> = HashMap::new();
            for _ in 0..5000 {
                if scheduler.is_idle() {
                    break;
                }
                scheduler.admit();
                let step = scheduler.schedule();
                prop_assert!(!step.chunks.is_empty());
                let prompts = step.chunks.iter().filter(|chunk| chunk.len > 1).count();
                prop_assert!(prompts <= max_prefill);
                prop_assert!(step.chunks.iter().map(|chunk| chunk.len).sum::<usize>() <= max_step_tokens.max(1));
                let mut drawn = Vec::new();
                for chunk in &step.chunks {
                    let sequence = scheduler.sequence(chunk.slot).unwrap();
                    prop_assert_eq!(chunk.start, sequence.cached);
                    let reach = chunk.start + chunk.len + step.repeat - 1;
                    prop_assert!(sequence.block_table().pages().len() * page_size as usize >= reach);
                    if chunk.draws {
                        let mut tokens = sequence.tokens.clone();
                        prop_assert_eq!(chunk.start + chunk.len, tokens.len());
                        for _ in 0..step.repeat {
                            tokens.push(next(&tokens));
                        }
                        drawn.push(tokens[sequence.tokens.len()..].to_vec());
                    }
                }
                for event in scheduler.accept(&step, &drawn) {
                    got.entry(event.id).or_default().push(event.token);
                }
            }
            prop_assert!(scheduler.is_idle());
            prop_assert_eq!(scheduler.free_pages(), pages as usize);
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_cancelled_request_frees_its_pages_at_once() {
        let limits = Limits {
            max_batch: 2,
            max_step_tokens: 64,
            max_length: 64,
            max_steps: 1,
            max_prefill: 2,
        };
        let mut scheduler = Scheduler::new(limits, PagePool::new(8, 8));
        let id = scheduler.add(request(20, 5)).unwrap();
        scheduler.admit();
        assert_eq!(scheduler.free_pages(), 5);
        assert!(scheduler.cancel(id));
        assert_eq!(scheduler.free_pages(), 8);
        assert!(scheduler.is_idle() && !scheduler.cancel(id));
    }

    #[test]
    fn requests_that_can_never_run_are_refused() {
        let limits = Limits {
            max_batch: 1,
            max_step_tokens: 8,
            max_length: 100,
            max_steps: 1,
            max_prefill: 2,
        };
        let mut scheduler = Scheduler::new(limits, PagePool::new(2, 8));
        assert_eq!(scheduler.add(request(0, 5)), Err(RequestError::Empty));
        assert_eq!(
            scheduler.add(request(101, 5)),
            Err(RequestError::TooLong {
                tokens: 101,
                max_length: 100
            })
        );
        assert_eq!(
            scheduler.add(request(17, 5)),
            Err(RequestError::TooLargeForCache {
                needed: 3,
                pages: 2
            })
        );
    }
}
