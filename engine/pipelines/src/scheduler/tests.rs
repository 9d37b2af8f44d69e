//! Tests of the scheduler on random histories of requests, with a mock of the model.

use std::{collections::HashMap, ops::Range};

use proptest::prelude::*;

use super::{mock::*, *};
use crate::{
    Adapter, ModelLimits, SequenceOutput, batch::BatchSequence, request::ClientId,
    sampler::NO_TOKEN,
};

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

/// Accepts a batch in which each sequence that samples gets the same token; returns the requests that ended.
fn accept(scheduler: &mut Scheduler, batch: &Batch) -> Vec<RequestId> {
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
fn steps_are_scheduled_ahead_while_a_request_waits_for_pages() {
    let mut scheduler = Scheduler::new(limits(2, 64, 5));
    let first = scheduler.add(request(vec![1; 20], 10)).unwrap();
    let second = scheduler.add(request(vec![2; 30], 10)).unwrap();
    let batch = scheduler.schedule();
    assert_eq!(batch.requests(), [first]);
    accept(&mut scheduler, &batch);
    let batch = scheduler.schedule();
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [first]);
    accept(&mut scheduler, &batch);
    // One of a client that was served less comes before it, and has enough pages.
    let mut other = request(vec![3; 4], 1);
    other.client = ClientId(1);
    let other = scheduler.add(other).unwrap();
    let batch = scheduler.schedule_behind(&next);
    assert_eq!(batch.requests(), [first, other]);
    accept(&mut scheduler, &next);
    assert_eq!(accept(&mut scheduler, &batch), [other]);
    // The pages of the first request suffice.
    assert!(scheduler.cancel(first));
    assert_eq!(scheduler.schedule().requests(), [second]);
}

/// Prompts in chunks, new requests and decode in one batch after the other, each behind one that is in flight.
#[test]
fn any_batch_may_be_scheduled_behind_another() {
    let mut scheduler = Scheduler::new(limits(3, 200, 100));
    scheduler.set_pace(Pace::of(1000, 1000));
    let add = |scheduler: &mut Scheduler, token, tokens| {
        scheduler.add(request(vec![token; tokens], 9)).unwrap()
    };
    let long = add(&mut scheduler, 1, 100);
    let mut in_flight = scheduler.schedule();
    let mut parts = Vec::new();
    let mut short = None;
    for _ in 0..4 {
        let next = scheduler.schedule_behind(&in_flight);
        accept(&mut scheduler, &in_flight);
        short.get_or_insert_with(|| add(&mut scheduler, 2, 10));
        parts.push(
            next.sequences
                .iter()
                .map(|part| (part.id, part.start, part.tokens.len(), part.awaits_token))
                .collect::<Vec<_>>(),
        );
        in_flight = next;
    }
    let short = short.unwrap();
    assert_eq!(
        parts,
        [
            vec![(long, 64, 36, false)],
            vec![(long, 100, 1, true), (short, 0, 10, false)],
            vec![(long, 101, 1, true), (short, 10, 1, true)],
            vec![(long, 102, 1, true), (short, 11, 1, true)],
        ]
    );
}

/// What one computes in flight, another one with the same beginning waits for.
#[test]
fn a_prefix_that_is_in_flight_is_not_computed_again() {
    let caching = ModelLimits {
        prefix_caching: true,
        ..limits(2, 64, 16)
    };
    let mut scheduler = Scheduler::new(caching);
    let first = scheduler.add(request(vec![1; 20], 9)).unwrap();
    let batch = scheduler.schedule();
    let second = scheduler.add(request(vec![1; 21], 9)).unwrap();
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [first]);
    accept(&mut scheduler, &batch);
    let last = scheduler.schedule_behind(&next);
    assert_eq!(last.requests(), [first, second]);
    // Two pages of eight are there.
    assert_eq!(last.sequences[1].start, 16);
}

#[test]
fn sequences_that_end_in_flight_are_left_out_of_the_next_batch() {
    let mut scheduler = Scheduler::new(limits(2, 64, 16));
    let mut add = |new_tokens| scheduler.add(request(vec![1; 4], new_tokens)).unwrap();
    let [short, long] = [2, 3].map(&mut add);
    let batch = scheduler.schedule();
    accept(&mut scheduler, &batch);
    let batch = scheduler.schedule();
    // The first sequence gets its last token in flight.
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [long]);
    assert_eq!(accept(&mut scheduler, &batch), [short]);
    assert_eq!(accept(&mut scheduler, &next), [long]);
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.free_pages(), 16);
}

#[test]
fn nothing_is_scheduled_ahead_if_all_sequences_end() {
    let mut scheduler = Scheduler::new(limits(2, 64, 16));
    for _ in 0..2 {
        scheduler.add(request(vec![1; 4], 2)).unwrap();
    }
    let batch = scheduler.schedule();
    accept(&mut scheduler, &batch);
    let batch = scheduler.schedule();
    assert!(scheduler.schedule_behind(&batch).is_empty());
}

/// Chunks of prompts alone, before any decode step has been measured.
#[test]
fn prompts_alone_are_scheduled_ahead() {
    let mut scheduler = Scheduler::new(limits(2, 400, 100));
    scheduler.set_pace(Pace::of(128, 1));
    let id = scheduler.add(request(vec![1; 300], 1)).unwrap();
    let batch = scheduler.schedule();
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [id]);
    assert_eq!((batch.tokens(), next.sequences[0].start), (64, 64));
}

/// The batches in flight leave a slow device no time for a tile of a prompt.
#[test]
fn prompts_do_not_starve_behind_decode() {
    let mut scheduler = Scheduler::new(limits(2, 400, 100));
    scheduler.set_pace(Pace::of(32, 4));
    scheduler.add(request(vec![1; 4], 300)).unwrap();
    let mut in_flight = scheduler.schedule();
    accept(&mut scheduler, &in_flight);
    in_flight = scheduler.schedule();
    let waiting = scheduler.add(request(vec![2; 100], 1)).unwrap();
    for _ in 0..2 {
        let next = scheduler.schedule_behind(&in_flight);
        accept(&mut scheduler, &in_flight);
        in_flight = match next.is_empty() {
            true => scheduler.schedule(),
            false => next,
        };
    }
    assert!(in_flight.requests().contains(&waiting));
}

/// Both together would take longer than one may.
#[test]
fn slow_devices_get_nothing_ahead() {
    let mut scheduler = Scheduler::new(limits(2, 64, 16));
    scheduler.add(request(vec![1; 4], 20)).unwrap();
    let prompt = scheduler.schedule();
    accept(&mut scheduler, &prompt);
    for (decode_steps, is_ahead) in [(1, false), (2, true)] {
        scheduler.set_pace(Pace::of(32, decode_steps));
        let batch = scheduler.schedule();
        let next = scheduler.schedule_behind(&batch);
        assert_eq!(!next.is_empty(), is_ahead);
        accept(&mut scheduler, &batch);
        if is_ahead {
            accept(&mut scheduler, &next);
        }
    }
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
