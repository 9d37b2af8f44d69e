//! Histories of requests against a stand-in for a model and its cache.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::pipelines::{Adapter, SamplingParams};

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

/// A stand-in for the device's cache: at each place, the adapter and the tokens that what is there
/// comes from.
type Cache = Vec<Vec<(Option<Adapter>, Vec<u32>)>>;

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
        let size = scheduler.pool.page_size() as usize;
        let pages = sequence.block_table().pages();
        let (adapter, mut tokens) = (sequence.adapter, sequence.tokens.clone());
        for at in 0..chunk.start {
            let (under, held) = &cache[pages[at / size] as usize][at % size];
            prop_assert_eq!((*under, &held[..]), (adapter, &tokens[..=at]));
        }
        let mut output = ChunkOutput::default();
        let end = chunk.start + chunk.len;
        for at in chunk.start..end {
            cache[pages[at / size] as usize][at % size] = (adapter, tokens[..=at].to_vec());
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
                    let at = tokens.len() - 1;
                    cache[pages[at / size] as usize][at % size] = (adapter, tokens.clone());
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
        page_size in 1u32..9,
        max_steps in 1usize..5,
        max_prefill in 1usize..4,
        spare_rows in 0usize..20,
        caches: bool,
    ) {
        let max_length = 45.min(pages as usize * page_size as usize);
        let max_logit_rows = max_batch + spare_rows;
        let limits = Limits { max_batch, max_step_tokens, max_length, max_steps, max_prefill, max_logit_rows };
        let pool = PagePool::new(pages, page_size).with_prefix_caching(caches);
        let mut scheduler = Scheduler::new(limits, pool);
        let mut cache: Cache = vec![vec![(None, Vec::new()); page_size as usize]; pages as usize];
        // None, two adapters, and another that takes the second one's place.
        let mut adapter = |slot| Some(Adapter { slot, number: scheduler.new_beginning() });
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
