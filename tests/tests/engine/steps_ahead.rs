//! Decode steps that are submitted before the tokens of the steps before them are read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use wisp_engine::{
    device::{
        Device,
        faults::{FaultPoint, Faults},
    },
    pipelines::{
        CheckpointModel, DecoderModel, FinishReason, ModelFiles, ModelInputs, ModelLimits,
        ModelOutputs, PipelineError, PipelineModel, Request, RequestId, StepEvents, TextProcessor,
        text_generation::TextGenerator,
    },
    session::InferenceSession,
    types::BoxFuture,
};
use wisp_tests::{
    asynchronous::Asynchronous, bundled, on_every_device_and_class, program::TestDevice,
};

use crate::facade::bigram::{Bigram, VOCAB};

/// A bigram model in which token t is followed by t + 1, and which counts its steps. One of them may never end.
#[derive(Debug)]
struct Counting {
    model: Bigram,
    limits: ModelLimits,
    asynchronous: bool,
    steps: Arc<AtomicUsize>,
    /// Whether the next step never ends, although the device runs it.
    hangs: Arc<AtomicBool>,
}

impl PipelineModel for Counting {
    fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    fn vocab_size(&self) -> u64 {
        VOCAB
    }

    fn executes_asynchronously(&self) -> bool {
        self.asynchronous
    }

    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>> {
        self.steps.fetch_add(1, Relaxed);
        let hangs = self.hangs.swap(false, Relaxed);
        Box::pin(async move {
            let outputs = self.model.execute(inputs).await;
            if hangs {
                std::future::pending::<()>().await;
            }
            outputs
        })
    }
}

/// Returns a generator with so many steps a submission, and the number of steps that its model has run.
fn counting(asynchronous: bool, max_steps: u64) -> (TextGenerator, Arc<AtomicUsize>) {
    hanging(asynchronous, max_steps, Arc::default())
}

/// Like [`counting`]; the step after `hangs` is set never ends.
fn hanging(
    asynchronous: bool,
    max_steps: u64,
    hangs: Arc<AtomicBool>,
) -> (TextGenerator, Arc<AtomicUsize>) {
    let device = Device::host(1).unwrap();
    on_device(device, asynchronous, max_steps, hangs)
}

/// Like [`hanging`], on a device.
fn on_device(
    device: Device,
    asynchronous: bool,
    max_steps: u64,
    hangs: Arc<AtomicBool>,
) -> (TextGenerator, Arc<AtomicUsize>) {
    let follows = |at: u64| (at % VOCAB == (at / VOCAB + 1) % VOCAB) as u32 as f32;
    let table: Vec<f32> = (0..VOCAB * VOCAB).map(follows).collect();
    let session = InferenceSession::new(device);
    let model = Bigram::load(&session, &table).unwrap();
    let steps = Arc::new(AtomicUsize::new(0));
    let model = Counting {
        limits: ModelLimits {
            max_steps,
            ..*model.limits()
        },
        model,
        asynchronous,
        steps: steps.clone(),
        hangs,
    };
    let text = TextProcessor::without_tokenizer("bigram", []);
    let generator = TextGenerator::new_blocking(&session, model, text).unwrap();
    (generator, steps)
}

fn request(first: u32, max_new_tokens: usize, stop_tokens: Vec<u32>) -> Request {
    Request {
        tokens: vec![first],
        max_new_tokens,
        stop_tokens,
        ..Request::default()
    }
}

/// Returns the tokens that follow one.
fn following(first: u32, count: u32) -> Vec<u32> {
    (1..=count)
        .map(|step| (first + step) % VOCAB as u32)
        .collect()
}

/// Runs a generator to its end; returns the tokens of a request.
fn tokens_of(generator: &mut TextGenerator, id: RequestId) -> Vec<u32> {
    let mut tokens = Vec::new();
    while !generator.is_idle() {
        let events = generator.step_blocking().unwrap().tokens.into_iter();
        tokens.extend(
            events
                .filter(|event| event.id == id)
                .map(|event| event.token),
        );
    }
    tokens
}

#[test]
fn the_next_step_is_submitted_before_the_tokens_are_read() {
    for asynchronous in [true, false] {
        let (mut generator, steps) = counting(asynchronous, 1);
        generator.add(request(0, 20, vec![])).unwrap();
        let (mut tokens, mut ahead) = (Vec::new(), Vec::new());
        while !generator.is_idle() {
            let events = generator.step_blocking().unwrap().tokens.into_iter();
            tokens.extend(events.map(|event| event.token));
            ahead.push(steps.load(Relaxed) - tokens.len());
        }
        assert_eq!(tokens, following(0, 20));
        // The pace begins with one step, and the last token has no successor.
        assert_eq!(ahead.iter().max(), Some(&usize::from(asynchronous)));
        assert_eq!(ahead.iter().sum::<usize>() > 10, asynchronous, "{ahead:?}");
        assert_eq!(steps.load(Relaxed), 20);
    }
}

/// The chunks of a prompt, a new request behind decode, and the other way round: each batch is on its way to the device
/// before the results of the one before it are read.
#[test]
fn prompts_are_submitted_ahead() {
    let (device, commands) = Faults::wrap(&Device::host(1).unwrap());
    let (mut generator, steps) = on_device(device, true, 1, Arc::default());
    let prompt = |first, len| {
        let tokens = following(first, len);
        Request {
            tokens,
            ..request(0, 9, vec![])
        }
    };
    let long = generator.add(prompt(0, 200)).unwrap();
    let mut tokens: Vec<(RequestId, u32)> = Vec::new();
    let (mut short, mut returned, mut ahead) = (None, 0, 0);
    while !generator.is_idle() {
        let events = generator.step_blocking().unwrap();
        returned += 1;
        if steps.load(Relaxed) > returned {
            ahead += 1;
            // Also of a chunk of which nothing is sampled.
            let read = commands.count(FaultPoint::Readback);
            assert_eq!(read, steps.load(Relaxed) as u64);
        }
        tokens.extend(events.tokens.iter().map(|event| (event.id, event.token)));
        if short.is_none() && tokens.len() == 3 {
            short = Some(generator.add(prompt(40, 30)).unwrap());
        }
    }
    assert!(ahead > returned / 2, "{ahead} of {returned} batches");
    let of = |id| tokens.iter().filter(move |(other, _)| *other == id);
    let of = |id| of(id).map(|(_, token)| *token).collect::<Vec<_>>();
    assert_eq!(of(long), following(200, 9));
    assert_eq!(of(short.expect("a second request")), following(70, 9));
}

#[test]
fn idle_devices_get_the_first_of_several_steps_before_the_others() {
    let (device, commands) = Faults::wrap(&Device::host(1).unwrap());
    let (mut generator, steps) = on_device(device, false, 4, Arc::default());
    generator.add(request(0, 20, vec![])).unwrap();
    let counts = || (steps.load(Relaxed), commands.count(FaultPoint::Submission));
    let mut batches = Vec::new();
    while !generator.is_idle() {
        let before = counts();
        generator.step_blocking().unwrap();
        let after = counts();
        batches.push((after.0 - before.0, after.1 - before.1));
    }
    // The pace begins with one step. The last step of a batch is submitted by the read of its tokens.
    let (first, per_step) = batches[0];
    assert_eq!(first, 1);
    assert!(batches.iter().any(|(steps, _)| *steps == 4), "{batches:?}");
    for (steps, commands) in &batches {
        let expected = *steps as u64 * per_step + u64::from(*steps > 1);
        assert_eq!(*commands, expected, "{batches:?}");
    }
}

#[test]
fn a_stop_token_wastes_at_most_one_submission() {
    for max_steps in [1, 3] {
        let (mut generator, steps) = counting(true, max_steps);
        // Token 7 ends the text.
        let id = generator.add(request(0, 100, vec![7])).unwrap();
        assert_eq!(tokens_of(&mut generator, id), following(0, 7));
        let (steps, most) = (steps.load(Relaxed), 7 + 2 * max_steps as usize - 1);
        assert!((7..=most).contains(&steps), "{steps} steps, at most {most}");
        // The next request begins at once, with its own tokens.
        let id = generator.add(request(3, 9, vec![])).unwrap();
        assert_eq!(tokens_of(&mut generator, id), following(3, 9));
    }
}

#[test]
fn requests_may_come_and_go_while_a_step_is_ahead() {
    let (mut generator, steps) = counting(true, 2);
    let first = generator.add(request(0, 40, vec![])).unwrap();
    let mut tokens: Vec<(RequestId, u32)> = Vec::new();
    let mut second = None;
    let mut take = |events: StepEvents| {
        tokens.extend(events.tokens.iter().map(|event| (event.id, event.token)));
        tokens.len()
    };
    loop {
        let received = take(generator.step_blocking().unwrap());
        if second.is_none() && steps.load(Relaxed) > received {
            second = Some(generator.add(request(5, 30, vec![])).unwrap());
        } else if received >= 30 && generator.cancel(first) {
            assert!(!generator.is_idle());
        }
        if generator.is_idle() {
            break;
        }
    }
    let of = |id| tokens.iter().filter(move |(other, _)| *other == id);
    let of = |id| of(id).map(|(_, token)| *token).collect::<Vec<_>>();
    let first = of(first);
    assert_eq!(first, following(0, first.len() as u32));
    assert!(first.len() < 40);
    assert_eq!(of(second.expect("a step was ahead")), following(5, 30));
}

/// The device may have changed a recurrent state, so nothing continues from it.
#[test]
fn requests_start_over_if_the_submission_of_their_step_is_dropped() {
    for asynchronous in [true, false] {
        let hangs = Arc::new(AtomicBool::new(false));
        let (mut generator, steps) = hanging(asynchronous, 1, hangs.clone());
        generator.add(request(0, 20, vec![])).unwrap();
        let mut tokens = Vec::new();
        while !generator.is_idle() {
            if tokens.len() == 7 && generator.preemptions() == 0 && !hangs.load(Relaxed) {
                hangs.store(true, Relaxed);
                let before = steps.load(Relaxed);
                let mut step = Box::pin(generator.step());
                let mut context = Context::from_waker(Waker::noop());
                assert!(step.as_mut().poll(&mut context).is_pending());
                assert_eq!(steps.load(Relaxed), before + 1);
            }
            let events = generator.step_blocking().unwrap().tokens.into_iter();
            tokens.extend(events.map(|event| event.token));
        }
        assert_eq!(tokens, following(0, 20));
        assert_eq!(generator.preemptions(), 1);
    }
}

/// The batch behind the one with the logits has the sequence too, and begins another prompt: the device must have some
/// token for it.
#[test]
fn logits_that_are_not_finite_fail_only_their_request_while_a_step_is_ahead() {
    let files = ModelFiles::from_bytes("damaged.gguf", bundled::damaged()).unwrap();
    let limits = ModelLimits {
        max_length: 96,
        max_step_tokens: 24,
        max_steps: 1,
        ..ModelLimits::default()
    };
    let session = bundled::session(TestDevice::Host);
    let load = || {
        let model = DecoderModel::load(&session, &files, limits, None);
        let model = Asynchronous(pollster::block_on(model).unwrap());
        TextGenerator::new_blocking(&session, model, TextProcessor::of(&files)).unwrap()
    };
    let prompt = |len| Request {
        tokens: (0..len).map(|at| 40 + at).collect(),
        ..request(0, 20, vec![])
    };
    let [expected, expected_long] = [5, 60].map(|len| {
        let mut generator = load();
        let id = generator.add(prompt(len)).unwrap();
        tokens_of(&mut generator, id)
    });
    let mut generator = load();
    let good = generator.add(prompt(5)).unwrap();
    let mut events = Vec::new();
    let mut ids = None;
    while !generator.is_idle() {
        events.extend(generator.step_blocking().unwrap().tokens);
        if ids.is_none() && events.len() == 4 {
            let bad = request(bundled::DAMAGED_TOKEN, 20, vec![]);
            ids = Some([bad, prompt(60)].map(|request| generator.add(request).unwrap()));
        }
    }
    let [bad, long] = ids.expect("four tokens");
    let of = |id| events.iter().filter(move |event| event.id == id);
    let finishes: Vec<_> = of(bad).map(|event| event.finish).collect();
    assert_eq!(finishes, [Some(FinishReason::NonFinite)]);
    for (id, expected) in [(good, expected), (long, expected_long)] {
        let tokens: Vec<u32> = of(id).map(|event| event.token).collect();
        assert_eq!(tokens, expected);
    }
}

on_every_device_and_class!(a_step_that_is_dropped_loses_no_tokens);

/// Polls each step once and drops it if it is not ready.
fn a_step_that_is_dropped_loses_no_tokens(place: TestDevice) {
    let limits = ModelLimits {
        max_length: 64,
        max_steps: 1,
        ..ModelLimits::default()
    };
    let session = bundled::session(place);
    let tokens = |drops: bool| {
        let files = bundled::files();
        let mut generator = TextGenerator::load_blocking(&session, &files, limits).unwrap();
        generator.add(request(40, 24, vec![])).unwrap();
        let mut tokens = Vec::new();
        let mut take = |events: StepEvents| {
            tokens.extend(events.tokens.iter().map(|event| event.token));
            let finish = events.tokens.last().and_then(|event| event.finish);
            assert!(matches!(finish, None | Some(FinishReason::Length)));
        };
        while !generator.is_idle() {
            if drops {
                let mut step = Box::pin(generator.step());
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(events) = step.as_mut().poll(&mut context) {
                    take(events.unwrap());
                    continue;
                }
            }
            take(generator.step_blocking().unwrap());
        }
        tokens
    };
    assert_eq!(tokens(true), tokens(false));
}
