//! Tokens of the built-in model do not depend on chunk sizes, batches, steps per submission and devices.

use serde_json::Value;
use wisp_engine::pipelines::{
    CheckpointModel, DecoderModel, ModelLimits, Request, RequestId, SamplingParams, TextProcessor,
    text_generation::TextGenerator,
};
use wisp_tests::{
    asynchronous::Asynchronous,
    bundled::{files, folder, shared_session},
    on_every_device, on_every_device_and_class,
    program::TestDevice,
    sample,
};

const NEW_TOKENS: usize = 24;

/// Returns `len` tokens of the reference texts from number `from` on.
fn text(from: usize, len: usize) -> Vec<u32> {
    let golden: Value =
        serde_json::from_slice(&std::fs::read(folder().join("golden.json")).unwrap()).unwrap();
    let cases = golden["cases"].as_array().unwrap().iter();
    let tokens = cases
        .flat_map(|case| [&case["prompt_tokens"], &case["tokens"]])
        .flat_map(|tokens| tokens.as_array().unwrap().clone());
    let tokens: Vec<u32> = tokens.map(|token| token.as_u64().unwrap() as u32).collect();
    tokens.into_iter().cycle().skip(from).take(len).collect()
}

fn load(place: TestDevice, limits: ModelLimits) -> TextGenerator {
    TextGenerator::load_blocking(&shared_session(place), &files(), limits).unwrap()
}

fn load_ahead(place: TestDevice, limits: ModelLimits) -> TextGenerator {
    let session = shared_session(place);
    let files = files();
    let model = DecoderModel::load(&session, &files, limits, None);
    let model = Asynchronous(pollster::block_on(model).unwrap());
    TextGenerator::new_blocking(&session, model, TextProcessor::of(&files)).unwrap()
}

fn limits() -> ModelLimits {
    ModelLimits {
        max_length: 160,
        max_batch: 6,
        max_step_tokens: 64,
        max_logit_rows: 6,
        page_size: 16,
        pages: 0,
        max_steps: 4,
        ..ModelLimits::default()
    }
}

/// Limits for one request at a time.
fn alone(chunk: u64, max_steps: u64) -> ModelLimits {
    ModelLimits {
        max_batch: 1,
        max_logit_rows: 1,
        max_step_tokens: chunk,
        max_steps,
        ..limits()
    }
}

fn request(tokens: &[u32], sampling: SamplingParams) -> Request {
    Request {
        tokens: tokens.to_vec(),
        sampling,
        max_new_tokens: NEW_TOKENS,
        stop_tokens: Vec::new(),
        ..Request::default()
    }
}

/// Runs requests together to their end and returns the tokens of each.
fn run(generator: &mut TextGenerator, requests: &[Request]) -> Vec<Vec<u32>> {
    let ids: Vec<RequestId> = requests
        .iter()
        .map(|request| generator.add(request.clone()).unwrap())
        .collect();
    let mut tokens = vec![Vec::new(); ids.len()];
    for _ in 0..1000 {
        for event in pollster::block_on(generator.step()).unwrap().tokens {
            let at = ids
                .iter()
                .position(|id| *id == event.id)
                .expect("a request of this run");
            tokens[at].push(event.token);
        }
        if generator.is_idle() {
            return tokens;
        }
    }
    panic!("the requests do not end: {tokens:?}");
}

fn run_one(place: TestDevice, limits: ModelLimits, request: &Request) -> Vec<u32> {
    run(&mut load(place, limits), std::slice::from_ref(request)).remove(0)
}

/// Five sequences of other lengths, which run beside the request.
fn others(sampling: &SamplingParams) -> Vec<Request> {
    [(3, 1), (20, 7), (41, 33), (60, 64), (75, 90)]
        .map(|(from, len)| request(&text(from, len), sampling.clone()))
        .to_vec()
}

/// Asserts that a request has the same tokens in all chunk sizes, steps and batches. Returns the tokens.
fn check(place: TestDevice, request: &Request) -> Vec<u32> {
    let expected = run_one(place, alone(160, 1), request);
    assert_eq!(expected.len(), NEW_TOKENS);
    for (chunk, steps) in [(160, 1), (160, 4), (64, 4), (7, 1), (1, 4)] {
        assert_eq!(
            run_one(place, alone(chunk, steps), request),
            expected,
            "chunks of {chunk}, {steps} steps on {place:?}"
        );
    }
    // First or last in a batch, in another slot and beside other positions.
    let neighbours = others(&request.sampling);
    for at in [0, 5] {
        let mut requests = neighbours.clone();
        requests.insert(at, request.clone());
        // With and without batches that are submitted before the tokens of those before them are known.
        for (max_steps, ahead) in [(1, at == 0), (4, at != 0)] {
            let limits = ModelLimits {
                max_steps,
                ..limits()
            };
            let mut generator = match ahead {
                true => load_ahead(place, limits),
                false => load(place, limits),
            };
            assert_eq!(
                run(&mut generator, &requests)[at],
                expected,
                "at {at} of six with {max_steps} steps, ahead: {ahead}, on {place:?}"
            );
        }
    }
    expected
}

fn greedy_tokens_do_not_depend_on_chunks_steps_and_batches(place: TestDevice) {
    check(place, &request(&text(0, 100), SamplingParams::default()));
}

/// Sampled tokens depend only on the seed and the position, and equal those of the host on every device.
fn sampled_tokens_depend_only_on_seed_and_position(place: TestDevice) {
    let plain = SamplingParams {
        temperature: 0.8,
        seed: 7,
        ..SamplingParams::default()
    };
    let all = SamplingParams {
        top_k: 40,
        top_p: 0.95,
        min_p: 0.02,
        repetition_penalty: 1.1,
        presence_penalty: 0.3,
        frequency_penalty: 0.1,
        logit_bias: vec![(5, 2.0), (40, -100.0), (300, 0.5)],
        log_probs: Some(3),
        ..plain.clone()
    };
    for (i, sampling) in [plain.clone(), all].into_iter().enumerate() {
        let request = request(&text(0, 100), sampling.clone());
        // Devices take one of them through all chunks and batches in an ordinary run.
        let got = match place == TestDevice::Host || sample::has("sampling", i, 2) {
            true => check(place, &request),
            false => run_one(place, alone(160, 1), &request),
        };
        if place != TestDevice::Host {
            assert_eq!(
                got,
                run_one(TestDevice::Host, alone(160, 1), &request),
                "{sampling:?}: {place:?} and the host"
            );
        }
    }
    let seeds = [1, 2].map(|seed| {
        run_one(
            place,
            alone(160, 4),
            &request(
                &text(0, 100),
                SamplingParams {
                    seed,
                    temperature: 1.5,
                    ..plain.clone()
                },
            ),
        )
    });
    assert_ne!(seeds[0], seeds[1], "two seeds");
}

/// The cache has room for one of these requests, so another runs only if cancelling freed the pages.
fn cancelled_requests_free_their_pages(place: TestDevice) {
    let limits = ModelLimits {
        pages: 8,
        max_batch: 2,
        max_logit_rows: 2,
        ..limits()
    };
    let wanted = request(&text(0, 100), SamplingParams::default());
    let expected = run_one(place, alone(160, 4), &wanted);
    let mut generator = load(place, limits);
    for steps in 0..6 {
        let id = generator
            .add(request(&text(9, 100), SamplingParams::default()))
            .unwrap();
        for _ in 0..steps {
            pollster::block_on(generator.step()).unwrap();
        }
        assert!(generator.cancel(id));
        assert!(!generator.cancel(id), "cancelled twice");
        assert!(generator.is_idle());
        assert_eq!(
            run(&mut generator, std::slice::from_ref(&wanted)),
            std::slice::from_ref(&expected),
            "after {steps} steps"
        );
    }
}

on_every_device_and_class!(
    greedy_tokens_do_not_depend_on_chunks_steps_and_batches,
    cancelled_requests_free_their_pages
);

// One device that poses as a GPU is enough: these take long.
on_every_device!(sampled_tokens_depend_only_on_seed_and_position);
