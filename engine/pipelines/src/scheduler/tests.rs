//! Tests of the scheduler on random histories of requests, with a mock of the model.

use std::{collections::HashMap, ops::Range};

use proptest::prelude::*;

use super::{mock::*, *};
use crate::{Adapter, ModelLimits, SequenceOutput, batch::BatchSequence, sampler::NO_TOKEN};

pub(super) fn request(tokens: Vec<u32>, max_new_tokens: usize) -> Request {
    Request {
        tokens,
        max_new_tokens,
        ..Request::default()
    }
}

/// The tokens that end the text of a request: few enough that most texts have several tokens.
pub(super) const STOP_TOKENS: Range<u32> = 0..60;

/// A random request of a history.
#[derive(Clone, Debug)]
pub(super) struct RequestCase {
    prompt_tokens: usize,
    pub max_new_tokens: usize,
    /// Prompts of the same kind share their first tokens.
    kind: u32,
    /// Whether log probabilities are asked for, of the prompt and of new tokens.
    scored: bool,
    /// The step before which the request is cancelled, if any.
    cancelled_at: Option<usize>,
    /// An index into the adapters of a history.
    pub adapter: usize,
    /// Whether [`STOP_TOKENS`] end the text.
    stops: bool,
}

impl RequestCase {
    pub fn prompt(&self) -> Vec<u32> {
        let token = |i| i / 3 * (self.kind + 1);
        (0..self.prompt_tokens as u32).map(token).collect()
    }

    pub fn request(&self, adapter: Option<Adapter>) -> Request {
        let mut request = request(self.prompt(), self.max_new_tokens);
        request.adapter = adapter;
        request
            .stop_tokens
            .extend(STOP_TOKENS.filter(|_| self.stops));
        request.sampling.log_probs = self.scored.then_some(1);
        request.sampling.prompt_log_probs = self.scored;
        request
    }

    /// Returns the tokens that the request gets when it runs alone, with the one that ends the text.
    pub fn expected(&self, adapter: Option<Adapter>, limits: &ModelLimits) -> Vec<u32> {
        let mut all = self.prompt();
        let room = limits.max_length as usize + 1 - all.len();
        for _ in 0..self.max_new_tokens.min(room) {
            let token = next(adapter, &all);
            all.push(token);
            if self.stops && STOP_TOKENS.contains(&token) {
                break;
            }
        }
        all.split_off(self.prompt_tokens)
    }
}

pub(super) fn request_case() -> impl Strategy<Value = RequestCase> {
    (
        1usize..30,
        0usize..12,
        0u32..2,
        any::<bool>(),
        0usize..40,
        0usize..4,
        any::<bool>(),
    )
        .prop_map(
            |(prompt_tokens, max_new_tokens, kind, scored, cancel, adapter, stops)| RequestCase {
                prompt_tokens,
                max_new_tokens: max_new_tokens.max(1),
                kind,
                scored,
                cancelled_at: (cancel < 10).then_some(cancel),
                adapter,
                stops,
            },
        )
}

fn request_cases() -> impl Strategy<Value = Vec<RequestCase>> {
    prop::collection::vec(request_case(), 1..9)
}

pub(super) fn model_limits() -> impl Strategy<Value = ModelLimits> {
    let page_size = prop_oneof![4 => 1u32..9, 1 => Just(64), 1 => Just(512)];
    let batch = (1u64..6, 1u64..40, 1u64..5, 1u64..4, 0u64..20, 0u64..7);
    (batch, 5u32..30, page_size, any::<bool>()).prop_map(
        |(batch, pages, page_size, prefix_caching)| {
            let (max_batch, max_step_tokens, max_steps, max_prefill, spare_rows, snapshots) = batch;
            ModelLimits {
                max_batch,
                max_step_tokens,
                max_length: 45.min(u64::from(pages) * u64::from(page_size)),
                max_steps,
                max_prefill,
                max_logit_rows: max_batch + spare_rows,
                pages: pages.into(),
                page_size,
                prefix_caching,
                state_snapshots: if prefix_caching { snapshots } else { 0 },
                ..ModelLimits::default()
            }
        },
    )
}

/// Tokens and scores of the prompt's tokens.
type Output = (Vec<u32>, Vec<f32>);

/// Random requests that run together.
struct History {
    scheduler: Scheduler,
    limits: ModelLimits,
    model: MockModel,
    /// Whether batches run before the outputs of those before them are accepted.
    ahead: bool,
    /// The output of each request when it runs alone.
    expected: HashMap<RequestId, Output>,
    /// The step before which each cancelled request is cancelled.
    cancelled: HashMap<RequestId, usize>,
}

impl History {
    fn new(
        limits: ModelLimits,
        window: Option<usize>,
        ahead: bool,
        cases: Vec<RequestCase>,
    ) -> History {
        let cache = Cache::new(&limits, window.filter(|_| !limits.prefix_caching));
        let mut history = History {
            model: MockModel::new(cache),
            ahead,
            scheduler: Scheduler::new(limits),
            limits,
            expected: HashMap::new(),
            cancelled: HashMap::new(),
        };
        let mut adapter = |slot| {
            let cache_salt = history.scheduler.new_cache_salt();
            Some(Adapter { slot, cache_salt })
        };
        // None, two adapters, and a third that replaces the second in its slot.
        let adapters = [None, adapter(0), adapter(1), adapter(1)];
        for case in cases {
            history.add(&case, adapters[case.adapter]);
        }
        history
    }

    /// Adds a request, unless the scheduler refuses it, and its expected output.
    fn add(&mut self, case: &RequestCase, adapter: Option<Adapter>) {
        let prompt = case.prompt();
        let request = case.request(adapter);
        let Ok(id) = self.scheduler.add(request) else {
            return;
        };
        let scored = prompt[1..].iter().filter(|_| case.scored);
        let scores = scored.map(|token| *token as f32).collect();
        let new_tokens = case.expected(adapter, &self.limits);
        self.expected.insert(id, (new_tokens, scores));
        self.model.texts.insert(id, prompt);
        self.cancelled.extend(case.cancelled_at.map(|at| (id, at)));
    }

    /// Runs steps until nothing is left to do, and returns the output of each request.
    fn run(&mut self) -> Result<HashMap<RequestId, Output>, TestCaseError> {
        let mut outputs: HashMap<RequestId, Output> = HashMap::new();
        for step in 0..5000 {
            for (id, _) in self.cancelled.iter().filter(|(_, at)| **at == step) {
                self.scheduler.cancel(*id);
            }
            if self.scheduler.is_idle() {
                break;
            }
            let (batch, results) = self.model.step(&mut self.scheduler, self.ahead)?;
            self.check_limits(&batch)?;
            for event in self.scheduler.accept(&batch, results).tokens {
                if event.finish.is_some() {
                    self.model.texts.get_mut(&event.id).unwrap().clear();
                }
                let (tokens, scores) = outputs.entry(event.id).or_default();
                tokens.push(event.token);
                let event_scores = event.prompt_scores.iter();
                scores.extend(event_scores.map(|score| score.log_probability));
            }
        }
        Ok(outputs)
    }

    fn check_limits(&self, batch: &Batch) -> Result<(), TestCaseError> {
        prop_assert!(!batch.is_empty());
        let parts = batch.sequences.iter();
        let prompts = parts.filter(|part| part.tokens.len() > 1).count();
        prop_assert!(prompts as u64 <= self.limits.max_prefill);
        prop_assert!(batch.tokens() as u64 <= self.limits.max_step_tokens);
        prop_assert!(batch.logit_rows() as u64 <= self.limits.max_logit_rows);
        Ok(())
    }
}

proptest! {
    /// Whatever the batch, the chunks of prompts, the pages and the prefix cache, each request gets the
    /// output that it gets alone, and all pages are free in the end. Some requests have adapters, and
    /// some are cancelled.
    #[test]
    fn outputs_do_not_depend_on_the_composition_of_batches(
        cases in request_cases(),
        limits in model_limits(),
        window in prop::option::of(1usize..12),
        ahead: bool,
        pace in prop::option::of((1usize..4, 1usize..6)),
    ) {
        let mut history = History::new(limits, window, ahead, cases);
        if let Some((tiles, steps)) = pace {
            history.scheduler.set_pace(Pace::of(32 * tiles, steps));
        }
        let prompt_tokens: usize = history.model.texts.values().map(Vec::len).sum();
        let outputs = history.run()?;
        let scheduler = &history.scheduler;
        prop_assert!(scheduler.is_idle());
        prop_assert_eq!(scheduler.free_pages() as u64, limits.pages);
        prop_assert!(scheduler.preemptions() == 0 || limits.max_batch > 1);
        for (id, (tokens, scores)) in &history.expected {
            let empty = Output::default();
            let (got, got_scores) = outputs.get(id).unwrap_or(&empty);
            if history.cancelled.contains_key(id) {
                prop_assert!(tokens.starts_with(got));
            } else {
                prop_assert_eq!((got, got_scores), (tokens, scores));
            }
        }
        let hits = scheduler.prefix_hits();
        prop_assert!(hits.hits <= hits.tokens && (limits.prefix_caching || hits.hits == 0));
        // Once, also of requests that were preempted.
        prop_assert!(hits.tokens <= prompt_tokens as u64);
    }
}

pub(super) fn limits(max_batch: u64, max_length: u64, pages: u64) -> ModelLimits {
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

/// Accepts a batch in which each sequence that samples gets the same token; returns the requests that ended.
pub(super) fn accept(scheduler: &mut Scheduler, batch: &Batch) -> Vec<RequestId> {
    let output = |part: &BatchSequence| SequenceOutput {
        tokens: vec![7; usize::from(part.samples)],
        ..SequenceOutput::default()
    };
    let outputs = batch.sequences.iter().map(output).collect();
    let events = scheduler.accept(batch, outputs).tokens.into_iter();
    let ended = events.filter(|event| event.finish.is_some());
    ended.map(|event| event.id).collect()
}

#[test]
fn short_prompts_do_not_wait_for_long_ones() {
    let mut scheduler = Scheduler::new(limits(3, 400, 150));
    let mut add = |tokens| scheduler.add(request(vec![1; tokens], 1)).unwrap();
    let [long, _, short] = [300, 200, 10].map(&mut add);
    let batch = scheduler.schedule();
    // `max_prefill` is 2.
    assert_eq!(batch.requests(), [long, short]);
    let lens: Vec<usize> = batch
        .sequences
        .iter()
        .map(|part| part.tokens.len())
        .collect();
    assert_eq!(lens, [54, 10]);
    assert_eq!(accept(&mut scheduler, &batch), [short]);
    // Alone with a prompt that is as long, the oldest takes the whole step.
    assert_eq!(scheduler.schedule().requests(), [long]);
}

#[test]
fn a_long_prompt_ends_however_many_short_ones_come() {
    let mut scheduler = Scheduler::new(limits(4, 400, 150));
    let long = scheduler.add(request(vec![1; 300], 1)).unwrap();
    let mut others = 0;
    for _ in 0..10 {
        for _ in 0..2 {
            scheduler.add(request(vec![2; 31], 1)).unwrap();
        }
        let batch = scheduler.schedule();
        let ended = accept(&mut scheduler, &batch);
        if ended.contains(&long) {
            assert!(others >= 9, "{others}");
            return;
        }
        others += ended.len();
    }
    panic!("the long prompt has not ended, but {others} others have");
}

#[test]
fn requests_that_exceed_the_limits_are_refused() {
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
fn non_finite_logits_end_only_their_own_sequence() {
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

/// Were it admitted first, it would be preempted in the same step.
#[test]
fn a_running_request_takes_the_last_page_before_a_waiting_one() {
    let mut scheduler = Scheduler::new(limits(2, 16, 2));
    let first = scheduler.add(request(vec![1; 7], 4)).unwrap();
    for _ in 0..2 {
        let batch = scheduler.schedule();
        accept(&mut scheduler, &batch);
    }
    // The first request has filled its page with eight tokens, and needs another one for the ninth.
    assert_eq!(scheduler.free_pages(), 1);
    let second = scheduler.add(request(vec![2; 4], 1)).unwrap();
    for _ in 0..2 {
        let batch = scheduler.schedule();
        assert_eq!(batch.requests(), [first]);
        accept(&mut scheduler, &batch);
    }
    assert_eq!(scheduler.schedule().requests(), [second]);
    assert_eq!(scheduler.preemptions(), 0);
}

/// Two sequences of three pages each share five pages: both finish, and the younger starts over once.
#[test]
fn the_youngest_sequence_is_preempted_when_pages_run_out() -> Result<(), TestCaseError> {
    let limits = limits(2, 40, 5);
    let mut model = MockModel::new(Cache::new(&limits, Some(3)));
    let mut scheduler = Scheduler::new(limits);
    let ids = [1, 2].map(|token| scheduler.add(request(vec![token; 12], 12)).unwrap());
    model.texts = HashMap::from([(ids[0], vec![1; 12]), (ids[1], vec![2; 12])]);
    let mut ended = Vec::new();
    while !scheduler.is_idle() {
        let (batch, outputs) = model.step(&mut scheduler, false)?;
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
