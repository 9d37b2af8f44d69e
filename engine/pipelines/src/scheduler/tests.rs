//! Histories of requests against a stand-in for a model and its cache.

use std::{collections::HashMap, ops::Range};

use proptest::prelude::*;

use super::*;
use crate::{Adapter, ModelLimits, SamplingParams, window_rings::WindowRings};

fn request(tokens: Vec<u32>, max_new_tokens: usize) -> Request {
    Request {
        tokens,
        sampling: SamplingParams::default(),
        max_new_tokens,
        stop_tokens: vec![],
        adapter: None,
    }
}

/// A stand-in for a model whose next token is a function of all tokens before it and of the adapter.
fn next(adapter: Option<Adapter>, tokens: &[u32]) -> u32 {
    let begin = adapter.map_or(17, |adapter| 18 + adapter.slot);
    tokens.iter().fold(begin, |hash, token| {
        hash.wrapping_mul(31).wrapping_add(*token)
    }) % 1000
}

/// What keys and values come from: an adapter and tokens.
fn origin(adapter: Option<Adapter>, tokens: &[u32]) -> Vec<u32> {
    let number = adapter.map_or(0, |adapter| adapter.number as u32 + 1);
    [&[number], tokens].concat()
}

/// A stand-in for the device's cache: at each place, where what is there comes from.
struct Cache {
    /// `[pages, page_size]`.
    pages: Vec<Vec<Vec<u32>>>,
    /// Of a layer with this window: its rings and their page table, where prefixes are not shared.
    rings: Option<(usize, WindowRings, Vec<u32>)>,
    /// Entries that a slot has in their page table.
    entries: usize,
    /// What the rings hold.
    ring: Vec<Vec<u32>>,
}

impl Cache {
    fn new(limits: Limits, pool: &PagePool, window: Option<usize>) -> Cache {
        let sizes = ModelLimits {
            max_length: limits.max_length as u64,
            max_batch: limits.max_batch as u64,
            ..ModelLimits::default()
        };
        let rings = window.map(|window| {
            let tokens = limits.max_step_tokens as u64;
            let rings = WindowRings::new(window as u64, tokens, pool.page_size());
            (window, rings, rings.table(&sizes))
        });
        let places = rings.as_ref().map_or(0, |(_, rings, _)| rings.positions());
        let page = vec![Vec::new(); pool.page_size() as usize];
        Cache {
            pages: vec![page; pool.total_pages() as usize],
            entries: rings
                .as_ref()
                .map_or(0, |(_, rings, _)| rings.entries(&sizes)) as usize,
            rings,
            ring: vec![Vec::new(); places as usize * limits.max_batch],
        }
    }

    /// Computes some positions of a sequence, which read what came before them.
    fn compute(
        &mut self,
        sequence: &Sequence,
        tokens: &[u32],
        positions: Range<usize>,
    ) -> Result<(), TestCaseError> {
        let pages = sequence.block_table().pages();
        let size = self.pages.first().map_or(1, Vec::len);
        let origin = |at: usize| origin(sequence.adapter, &tokens[..=at]);
        for at in 0..positions.start {
            let held = &self.pages[pages[at / size] as usize][at % size];
            prop_assert_eq!(held, &origin(at));
        }
        for at in positions.clone() {
            self.pages[pages[at / size] as usize][at % size] = origin(at);
        }
        let Some((window, rings, table)) = &self.rings else {
            return Ok(());
        };
        let row = sequence.slot as usize * self.entries;
        let size = rings.page_size as usize;
        let place = |at: usize| table[row + at / size] as usize * size + at % size;
        for at in positions.clone() {
            self.ring[place(at)] = origin(at);
        }
        for at in positions {
            for seen in (at + 1).saturating_sub(*window)..=at {
                prop_assert_eq!(&self.ring[place(seen)], &origin(seen));
            }
        }
        Ok(())
    }
}

/// Runs a step as a model does: reads only what the cache holds, writes what it computes.
fn run(
    scheduler: &Scheduler,
    step: &Step,
    cache: &mut Cache,
) -> Result<Vec<ChunkOutput>, TestCaseError> {
    let mut outputs = Vec::new();
    for chunk in &step.chunks {
        let sequence = scheduler.sequence(chunk.slot).unwrap();
        prop_assert_eq!(chunk.start, sequence.cached);
        let (adapter, mut tokens) = (sequence.adapter, sequence.tokens.clone());
        let end = chunk.start + chunk.len;
        cache.compute(sequence, &tokens, chunk.start..end)?;
        let mut output = ChunkOutput::default();
        for at in chunk.start..end {
            if chunk.scores && at + 1 < sequence.prompt_tokens {
                let log_probability = tokens[at + 1] as f32;
                output.prompt_scores.push(TokenScore {
                    log_probability,
                    top: vec![],
                });
            }
        }
        if chunk.draws {
            prop_assert_eq!(end, tokens.len());
            for repeat in 0..step.repeat {
                if repeat > 0 {
                    cache.compute(sequence, &tokens, tokens.len() - 1..tokens.len())?;
                }
                tokens.push(next(adapter, &tokens));
            }
            output.tokens = tokens.split_off(end);
        }
        outputs.push(output);
    }
    Ok(outputs)
}

proptest! {
    /// Whatever the batch, the chunks and the pages, with and without prefix caching, each request
    /// gets its own tokens and scores, whatever the cache holds is what is read from it, and no page
    /// is left behind. Some requests have adapters, some are cancelled on their way.
    #[test]
    fn composition_changes_nothing(
        requests in prop::collection::vec((1usize..30, 0usize..12, 0u32..2, any::<bool>(), 0usize..40, 0usize..4), 1..9),
        max_batch in 1usize..6,
        max_step_tokens in 1usize..40,
        pages in 5u32..30,
        page_size in prop_oneof![4 => 1u32..9, 1 => Just(64), 1 => Just(512)],
        window in prop::option::of(1usize..12),
        max_steps in 1usize..5,
        max_prefill in 1usize..4,
        spare_rows in 0usize..20,
        caches: bool,
    ) {
        let max_length = 45.min(pages as usize * page_size as usize);
        let max_logit_rows = max_batch + spare_rows;
        let limits = Limits { max_batch, max_step_tokens, max_length, max_steps, max_prefill, max_logit_rows };
        let pool = PagePool::new(pages, page_size).with_prefix_caching(caches);
        let mut cache = Cache::new(limits, &pool, window.filter(|_| !caches));
        let mut scheduler = Scheduler::new(limits, pool);
        // None, two adapters, and another that takes the second one's place.
        let mut adapter = |slot| Some(Adapter { slot, number: scheduler.new_cache_salt() });
        let adapters = [None, adapter(0), adapter(1), adapter(1)];
        let (mut expected, mut cancelled) = (HashMap::new(), HashMap::new());
        for (tokens, new, kind, scored, cancel, adapter) in requests {
            // Two kinds of texts: many begin alike.
            let prompt: Vec<u32> = (0..tokens as u32).map(|i| i / 3 * (kind + 1)).collect();
            let mut request = request(prompt.clone(), new.max(1));
            let adapter = adapters[adapter];
            request.adapter = adapter;
            if scored {
                request.sampling = SamplingParams {
                    log_probs: Some(1),
                    prompt_log_probs: true,
                    ..request.sampling
                };
            }
            let Ok(id) = scheduler.add(request) else { continue };
            let mut all = prompt.clone();
            let room = new.max(1).min(max_length + 1 - tokens);
            for _ in 0..room {
                all.push(next(adapter, &all));
            }
            let scores: Vec<f32> = prompt[1..].iter().filter(|_| scored).map(|t| *t as f32).collect();
            expected.insert(id, (all[tokens..].to_vec(), scores));
            if cancel < 10 {
                cancelled.insert(id, cancel);
            }
        }
        let mut got: HashMap<RequestId, (Vec<u32>, Vec<f32>)> = HashMap::new();
        for time in 0..5000 {
            for (id, _) in cancelled.iter().filter(|(_, when)| **when == time) {
                scheduler.cancel(*id);
            }
            scheduler.admit();
            if scheduler.is_idle() {
                break;
            }
            let step = scheduler.schedule();
            prop_assert!(!step.chunks.is_empty());
            let prompts = step.chunks.iter().filter(|chunk| chunk.len > 1).count();
            prop_assert!(prompts <= max_prefill);
            prop_assert!(step.chunks.iter().map(|chunk| chunk.len).sum::<usize>() <= max_step_tokens);
            let rows = |chunk: &Chunk| if chunk.scores { chunk.len } else { usize::from(chunk.draws) };
            prop_assert!(step.chunks.iter().map(rows).sum::<usize>() <= max_logit_rows);
            let outputs = run(&scheduler, &step, &mut cache)?;
            for event in scheduler.accept(&step, outputs) {
                let (tokens, scores) = got.entry(event.id).or_default();
                tokens.push(event.token);
                scores.extend(event.prompt_scores.iter().map(|score| score.log_probability));
            }
        }
        prop_assert!(scheduler.is_idle());
        prop_assert_eq!(scheduler.free_pages(), pages as usize);
        prop_assert!(scheduler.preemptions() == 0 || max_batch > 1);
        for (id, (tokens, scores)) in &expected {
            let nothing = (Vec::new(), Vec::new());
            let (got, got_scores) = got.get(id).unwrap_or(&nothing);
            if cancelled.contains_key(id) {
                prop_assert!(tokens.starts_with(got));
            } else {
                prop_assert_eq!((got, got_scores), (tokens, scores));
            }
        }
        let hits = scheduler.prefix_hits();
        prop_assert!(hits.hits <= hits.tokens && (caches || hits.hits == 0));
    }
}

fn limits(max_batch: usize, max_length: usize) -> Limits {
    Limits {
        max_batch,
        max_step_tokens: 64,
        max_length,
        max_steps: 1,
        max_prefill: 2,
        max_logit_rows: max_batch,
    }
}

#[test]
fn a_cancelled_request_frees_its_pages_at_once() {
    let mut scheduler = Scheduler::new(limits(2, 64), PagePool::new(8, 8));
    let id = scheduler.add(request(vec![1; 20], 5)).unwrap();
    scheduler.admit();
    assert_eq!(scheduler.free_pages(), 5);
    assert!(scheduler.cancel(id));
    assert_eq!(scheduler.free_pages(), 8);
    assert!(scheduler.is_idle() && !scheduler.cancel(id));
}

#[test]
fn requests_that_can_never_run_are_refused() {
    let mut scheduler = Scheduler::new(limits(1, 100), PagePool::new(2, 8));
    let mut add = |tokens| scheduler.add(request(vec![1; tokens], 5));
    assert_eq!(add(0), Err(RequestError::Empty));
    let (tokens, max_length) = (101, 100);
    assert_eq!(
        add(tokens),
        Err(RequestError::TooLong { tokens, max_length })
    );
    let (needed, pages) = (3, 2);
    assert_eq!(
        add(17),
        Err(RequestError::TooLargeForCache { needed, pages })
    );
}

/// Two texts of three pages each in five pages: both end, and the younger has started over.
#[test]
fn the_youngest_gives_way_where_pages_run_out() -> Result<(), TestCaseError> {
    let (limits, pool) = (limits(2, 64), PagePool::new(5, 8));
    let mut cache = Cache::new(limits, &pool, Some(3));
    let mut scheduler = Scheduler::new(limits, pool);
    let ids = [1, 2].map(|token| scheduler.add(request(vec![token; 12], 12)).unwrap());
    let mut ended = Vec::new();
    while !scheduler.is_idle() {
        scheduler.admit();
        let step = scheduler.schedule();
        let outputs = run(&scheduler, &step, &mut cache)?;
        let events = scheduler.accept(&step, outputs).into_iter();
        ended.extend(
            events
                .filter(|event| event.finish.is_some())
                .map(|event| event.id),
        );
    }
    assert_eq!(ended, ids);
    assert_eq!(scheduler.preemptions(), 1);
    assert_eq!(scheduler.free_pages(), 5);
    Ok(())
}
