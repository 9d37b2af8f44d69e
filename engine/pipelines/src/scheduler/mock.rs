//! A mock of a model and of its KV cache, which runs a scheduler's batches and checks what they read.

use std::{collections::HashMap, ops::Range};

use proptest::prelude::*;

use super::*;
use crate::{Adapter, BatchSequence, ModelLimits, SequenceOutput, window_rings::WindowRings};

/// The next token of a mock model, a function of all tokens before it and of the adapter.
pub(super) fn next(adapter: Option<Adapter>, tokens: &[u32]) -> u32 {
    let begin = adapter.map_or(17, |adapter| 18 + adapter.slot);
    tokens.iter().fold(begin, |hash, token| {
        hash.wrapping_mul(31).wrapping_add(*token)
    }) % 1000
}

/// The adapter and the tokens that the keys and values of a position are computed from.
fn origin(adapter: Option<Adapter>, tokens: &[u32]) -> Vec<u32> {
    let salt = adapter.map_or(0, |adapter| adapter.cache_salt as u32 + 1);
    [&[salt], tokens].concat()
}

/// A mock of the KV cache: each position holds its [`origin`].
pub(super) struct Cache {
    /// `[pages, page_size]`.
    pages: Vec<Vec<Vec<u32>>>,
    /// For a sliding-window layer: its window, its rings and their page table. Prefix caching excludes it.
    rings: Option<(usize, WindowRings, Vec<u32>)>,
    /// Entries of a slot in the page table of the rings.
    entries: usize,
    /// The positions of the rings.
    ring: Vec<Vec<u32>>,
    /// The rows of a recurrent state, each the [`origin`] of the last position before it. Empty for a model
    /// that has none.
    states: Vec<Vec<u32>>,
}

impl Cache {
    pub fn new(limits: &ModelLimits, window: Option<usize>) -> Cache {
        let rings = window.map(|window| {
            let tokens = limits.max_step_tokens;
            let rings = WindowRings::new(window as u64, tokens, limits.page_size);
            (window, rings, rings.table(limits))
        });
        let positions = rings.as_ref().map_or(0, |(_, rings, _)| rings.positions());
        let page = vec![Vec::new(); limits.page_size as usize];
        Cache {
            pages: vec![page; limits.total_pages() as usize],
            entries: rings
                .as_ref()
                .map_or(0, |(_, rings, _)| rings.entries(limits)) as usize,
            rings,
            ring: vec![Vec::new(); (positions * limits.max_batch) as usize],
            // Prefix caching without snapshots is for models without a recurrent state.
            states: match limits.prefix_caching && limits.state_snapshots == 0 {
                true => Vec::new(),
                false => vec![Vec::new(); limits.state_rows() as usize],
            },
        }
    }

    /// Leaves anything in the positions that the steps of a batch write.
    pub fn spoil(&mut self, part: &BatchSequence, steps: usize) {
        let size = self.pages.first().map_or(1, Vec::len);
        let start = part.start as usize;
        for at in start..start + part.tokens.len() + steps.max(1) - 1 {
            self.pages[part.pages[at / size] as usize][at % size] = vec![u32::MAX];
        }
        for row in [part.slot, part.state_written.unwrap_or(part.slot)] {
            if let Some(state) = self.states.get_mut(row as usize) {
                *state = vec![u32::MAX];
            }
        }
    }

    /// Continues the recurrent state of one row in another one, and checks what it was.
    fn mix(
        &mut self,
        part: &BatchSequence,
        tokens: &[u32],
        positions: Range<usize>,
        [read, written]: [u32; 2],
    ) -> Result<(), TestCaseError> {
        if self.states.is_empty() {
            return Ok(());
        }
        if positions.start > 0 {
            let expected = origin(part.adapter, &tokens[..positions.start]);
            prop_assert_eq!(&self.states[read as usize], &expected);
        }
        self.states[written as usize] = origin(part.adapter, &tokens[..positions.end]);
        Ok(())
    }

    /// Computes `positions` of a sequence, and checks all positions that they read.
    fn compute(
        &mut self,
        part: &BatchSequence,
        tokens: &[u32],
        positions: Range<usize>,
    ) -> Result<(), TestCaseError> {
        let size = self.pages.first().map_or(1, Vec::len);
        let origin = |at: usize| origin(part.adapter, &tokens[..=at]);
        for at in 0..positions.start {
            let held = &self.pages[part.pages[at / size] as usize][at % size];
            prop_assert_eq!(held, &origin(at));
        }
        for at in positions.clone() {
            self.pages[part.pages[at / size] as usize][at % size] = origin(at);
        }
        let Some((window, rings, table)) = &self.rings else {
            return Ok(());
        };
        let row = part.slot as usize * self.entries;
        let size = rings.page_size as usize;
        let place = |at: usize| table[row + at / size] as usize * size + at % size;
        for at in positions.clone() {
            self.ring[place(at)] = origin(at);
        }
        for at in positions {
            for visible in (at + 1).saturating_sub(*window)..=at {
                prop_assert_eq!(&self.ring[place(visible)], &origin(visible));
            }
        }
        Ok(())
    }
}

/// Runs a batch as a model does, and checks what it reads from the cache. `texts` has the tokens of each
/// request so far.
fn run(
    texts: &mut HashMap<RequestId, Vec<u32>>,
    batch: &Batch,
    cache: &mut Cache,
) -> Result<Vec<SequenceOutput>, TestCaseError> {
    let mut outputs = Vec::new();
    // The parts of a batch run at the same time: what one writes, no other may read or write.
    for (at, part) in batch.sequences.iter().enumerate() {
        let written = part.state_written.unwrap_or(part.slot);
        for (other, part) in batch.sequences.iter().enumerate() {
            let read = part.state_read.unwrap_or(part.slot);
            let also_written = part.state_written.unwrap_or(part.slot);
            prop_assert!(at == other || written != read && written != also_written);
        }
    }
    for part in &batch.sequences {
        let tokens = texts.get_mut(&part.id).unwrap();
        let (start, end) = (part.start as usize, part.start as usize + part.tokens.len());
        prop_assert_eq!(&part.tokens[..], &tokens[start..end]);
        cache.compute(part, tokens, start..end)?;
        let mut state = part.state_written.unwrap_or(part.slot);
        let read = part.state_read.unwrap_or(part.slot);
        cache.mix(part, tokens, start..end, [read, state])?;
        let mut output = SequenceOutput::default();
        for (at, following) in part.logit_positions() {
            let known = tokens.get(at as usize + 1).copied();
            prop_assert_eq!(following, known);
            output.prompt_scores.extend(known.map(|token| TokenScore {
                log_probability: token as f32,
                top: vec![],
            }));
        }
        prop_assert_eq!(part.samples, end == tokens.len());
        if part.samples {
            for step in 0..batch.steps {
                if step > 0 {
                    let last = tokens.len() - 1..tokens.len();
                    cache.compute(part, tokens, last.clone())?;
                    cache.mix(part, tokens, last, [state, part.slot])?;
                    state = part.slot;
                }
                let token = next(part.adapter, tokens);
                tokens.push(token);
            }
            output.tokens = tokens[end..].to_vec();
        }
        outputs.push(output);
    }
    Ok(outputs)
}

/// A mock of a model with its cache, which runs a scheduler's batches as a generator does.
pub(super) struct MockModel {
    pub cache: Cache,
    /// The tokens of each request so far.
    pub texts: HashMap<RequestId, Vec<u32>>,
    /// A batch that ran before the outputs of the one before it were accepted.
    ahead: Option<(Batch, Vec<SequenceOutput>)>,
    /// The requests that the last batch sampled tokens for.
    sampled: Vec<RequestId>,
}

impl MockModel {
    pub fn new(cache: Cache) -> MockModel {
        MockModel {
            cache,
            texts: HashMap::new(),
            ahead: None,
            sampled: Vec::new(),
        }
    }

    /// Returns the next batch whose outputs are accepted, without running another one.
    pub fn next_batch(&mut self, scheduler: &mut Scheduler) -> Batch {
        let ahead = self.ahead.take();
        match ahead.filter(|(batch, _)| scheduler.runs_any(batch)) {
            Some((batch, _)) => batch,
            None => scheduler.schedule(),
        }
    }

    /// Returns whether a batch ran whose outputs are accepted later.
    pub fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Runs the next batch and, with `ahead`, the one that follows it if the scheduler has one. Returns the
    /// first one with its outputs.
    pub fn step(
        &mut self,
        scheduler: &mut Scheduler,
        ahead: bool,
    ) -> Result<(Batch, Vec<SequenceOutput>), TestCaseError> {
        let earlier = self.ahead.take();
        let (batch, outputs) = match earlier.filter(|(batch, _)| scheduler.runs_any(batch)) {
            Some(earlier) => earlier,
            None => {
                let batch = scheduler.schedule();
                prop_assert_eq!(batch.is_empty(), scheduler.is_idle());
                prop_assert!(batch.sequences.iter().all(|part| !part.awaits_token));
                let outputs = self.run(&batch)?;
                (batch, outputs)
            }
        };
        if ahead {
            let mut next = scheduler.schedule_behind(&batch);
            let awaiting = next.sequences.iter_mut().filter(|part| part.awaits_token);
            for part in awaiting {
                // The device has the token.
                prop_assert!(self.sampled.contains(&part.id));
                prop_assert_eq!(&part.tokens, &[0]);
                part.tokens = self.texts[&part.id][part.start as usize..].to_vec();
            }
            if !next.is_empty() {
                let outputs = self.run(&next)?;
                self.ahead = Some((next, outputs));
            }
        }
        Ok((batch, outputs))
    }

    fn run(&mut self, batch: &Batch) -> Result<Vec<SequenceOutput>, TestCaseError> {
        let samples = batch.sequences.iter().filter(|part| part.samples);
        self.sampled = samples.map(|part| part.id).collect();
        run(&mut self.texts, batch, &mut self.cache)
    }
}
