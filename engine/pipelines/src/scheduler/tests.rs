//! Histories of requests against a mock of a model and its cache.

use std::{collections::HashMap, ops::Range};

use proptest::prelude::*;

use super::*;
use crate::{Adapter, ModelLimits, SamplingParams, window_rings::WindowRings};

fn request(tokens: Vec<u32>, max_new_tokens: usize) -> Request {
    Request {
        tokens,
        max_new_tokens,
        ..Request::default()
    }
}

/// A mock model, whose next token is a function of all tokens before it and of the adapter.
fn next(adapter: Option<Adapter>, tokens: &[u32]) -> u32 {
    let begin = adapter.map_or(17, |adapter| 18 + adapter.slot);
    tokens.iter().fold(begin, |hash, token| {
        hash.wrapping_mul(31).wrapping_add(*token)
    }) % 1000
}

/// What keys and values are computed from: an adapter and tokens.
fn origin(adapter: Option<Adapter>, tokens: &[u32]) -> Vec<u32> {
    let number = adapter.map_or(0, |adapter| adapter.number as u32 + 1);
    [&[number], tokens].concat()
}

/// A mock of the device's KV cache: each position holds what its keys and values were computed from.
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
    fn new(limits: &ModelLimits, window: Option<usize>) -> Cache {
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
        }
    }

    /// Computes some positions of a sequence, which read the positions before them.
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

/// Runs a batch as a model does: reads only what the cache holds, writes what it computes. `texts` are
/// the tokens of each request so far.
fn run(
    texts: &mut HashMap<RequestId, Vec<u32>>,
    batch: &Batch,
    cache: &mut Cache,
) -> Result<Vec<SequenceOutput>, TestCaseError> {
    let mut outputs = Vec::new();
    for part in &batch.sequences {
        let tokens = texts.get_mut(&part.id).unwrap();
        let (start, end) = (part.start as usize, part.start as usize + part.tokens.len());
        prop_assert_eq!(&part.tokens[..], &tokens[start..end]);
        cache.compute(part, tokens, start..end)?;
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
                    cache.compute(part, tokens, tokens.len() - 1..tokens.len())?;
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
        let limits = ModelLimits {
            max_batch: max_batch as u64,
            max_step_tokens: max_step_tokens as u64,
            max_length: max_length as u64,
            max_steps: max_steps as u64,
            max_prefill: max_prefill as u64,
            max_logit_rows: max_logit_rows as u64,
            pages: pages.into(),
            page_size,
            prefix_caching: caches,
            ..ModelLimits::default()
        };
        let mut cache = Cache::new(&limits, window.filter(|_| !caches));
        let mut scheduler = Scheduler::new(limits);
        let mut texts = HashMap::new();
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
            texts.insert(id, prompt);
            if cancel < 10 {
                cancelled.insert(id, cancel);
            }
        }
        let mut got: HashMap<RequestId, (Vec<u32>, Vec<f32>)> = HashMap::new();
        for time in 0..5000 {
            for (id, _) in cancelled.iter().filter(|(_, when)| **when == time) {
                scheduler.cancel(*id);
            }
            if scheduler.is_idle() {
                break;
            }
            let batch = scheduler.schedule();
            prop_assert!(!batch.is_empty());
            let prompts = batch.sequences.iter().filter(|part| part.tokens.len() > 1).count();
            prop_assert!(prompts <= max_prefill);
            prop_assert!(batch.tokens() <= max_step_tokens);
            prop_assert!(batch.logit_rows() <= max_logit_rows);
            let outputs = run(&mut texts, &batch, &mut cache)?;
            for event in scheduler.accept(&batch, outputs).tokens {
                let text = texts.get_mut(&event.id).unwrap();
                if event.finish.is_some() {
                    text.clear();
                }
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

fn limits(max_batch: u64, max_length: u64, pages: u64) -> ModelLimits {
    ModelLimits {
        max_batch,
        max_step_tokens: 64,
        max_length,
        max_steps: 1,
        max_prefill: 2,
        max_logit_rows: max_batch,
        pages,
        page_size: 8,
        ..ModelLimits::default()
    }
}

#[test]
fn cancelling_a_request_frees_its_pages_at_once() {
    let mut scheduler = Scheduler::new(limits(2, 64, 8));
    let id = scheduler.add(request(vec![1; 20], 5)).unwrap();
    scheduler.schedule();
    assert_eq!(scheduler.free_pages(), 5);
    assert!(scheduler.cancel(id));
    assert_eq!(scheduler.free_pages(), 8);
    assert!(scheduler.is_idle() && !scheduler.cancel(id));
}

#[test]
fn requests_that_can_never_run_are_refused() {
    let mut scheduler = Scheduler::new(limits(1, 100, 2));
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

#[test]
fn a_sequence_without_finite_logits_ends_alone() {
    let mut scheduler = Scheduler::new(limits(2, 64, 16));
    let ids = [1, 2].map(|token| scheduler.add(request(vec![token; 3], 4)).unwrap());
    let batch = scheduler.schedule();
    let output = |token| SequenceOutput {
        tokens: vec![token],
        ..SequenceOutput::default()
    };
    let events = scheduler
        .accept(&batch, vec![output(NO_TOKEN), output(7)])
        .tokens;
    let ends: Vec<_> = events
        .iter()
        .map(|event| (event.id, event.finish))
        .collect();
    assert_eq!(
        ends,
        [(ids[0], Some(FinishReason::NonFinite)), (ids[1], None)]
    );
    let batch = scheduler.schedule();
    assert_eq!((batch.sequences.len(), batch.sequences[0].id), (1, ids[1]));
}

/// Two texts of three pages each in five pages: both end, and the younger has started over.
#[test]
fn the_youngest_sequence_is_preempted_where_pages_run_out() -> Result<(), TestCaseError> {
    let limits = limits(2, 40, 5);
    let mut cache = Cache::new(&limits, Some(3));
    let mut scheduler = Scheduler::new(limits);
    let ids = [1, 2].map(|token| scheduler.add(request(vec![token; 12], 12)).unwrap());
    let mut texts = HashMap::from([(ids[0], vec![1; 12]), (ids[1], vec![2; 12])]);
    let mut ended = Vec::new();
    while !scheduler.is_idle() {
        let batch = scheduler.schedule();
        let outputs = run(&mut texts, &batch, &mut cache)?;
        let events = scheduler.accept(&batch, outputs).tokens.into_iter();
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
