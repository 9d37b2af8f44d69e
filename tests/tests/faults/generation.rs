//! Models that compute NaN, and callers who cancel.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use wisp_engine::{
    Canceller, Error, Event, FinishReason, Model,
    device::Device,
    pipelines::{
        EncodeError, GenerateOptions, ModelFiles, ModelInputs, ModelLimits, ModelOutputs,
        PipelineError, PipelineModel, RequestError, SamplingParams, TextGenerator, TextProcessor,
        benchmark::{Workload, speed_blocking},
    },
    session::{InferenceSession, Tensor},
    types::BoxFuture,
};
use wisp_tests::{
    bundled::{self, DAMAGED_TOKEN},
    encoder, fault, on_every_device,
    program::TestDevice,
};

/// The model with a damaged token, for three requests whose pages are few.
fn damaged(place: TestDevice, prefix_caching: bool) -> TextGenerator {
    let files = ModelFiles::from_bytes("damaged.gguf", bundled::damaged()).unwrap();
    let limits = ModelLimits {
        max_length: 64,
        max_batch: 3,
        max_logit_rows: 3,
        page_size: 8,
        pages: 24,
        max_steps: 4,
        prefix_caching,
        ..ModelLimits::default()
    };
    TextGenerator::load_blocking(&bundled::shared_session(place), &files, limits).unwrap()
}

fn options(max_new_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        max_new_tokens: Some(max_new_tokens),
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

fn tokens(generator: &mut TextGenerator, prompt: &[u32]) -> Vec<u32> {
    let go = |_: &str| ControlFlow::Continue(());
    let generation = generator.generate_blocking(prompt, &options(12), go);
    generation.unwrap().tokens
}

on_every_device!(nan_ends_its_request_and_no_other);

fn nan_ends_its_request_and_no_other(place: TestDevice) {
    for prefix_caching in [false, true] {
        let mut generator = damaged(place, prefix_caching);
        let prompts: Vec<Vec<u32>> = (0..3).map(|i| (i..i + 20).collect()).collect();
        let alone: Vec<Vec<u32>> = prompts
            .iter()
            .map(|prompt| tokens(&mut generator, prompt))
            .collect();
        let mut bad = prompts[1].clone();
        bad[9] = DAMAGED_TOKEN;
        let settings = options(12);
        let requests: [(&[u32], _); 3] = [
            (&prompts[0], &settings),
            (&bad, &settings),
            (&prompts[2], &settings),
        ];
        let go = |_: usize, _: &str| ControlFlow::Continue(());
        let results = generator.generate_many_blocking(&requests, go).unwrap();
        assert_eq!(results[0].as_ref().unwrap().tokens, alone[0]);
        assert_eq!(results[2].as_ref().unwrap().tokens, alone[2]);
        let error = results[1].as_ref().unwrap_err();
        assert!(
            matches!(error, PipelineError::NotFinite { request: Some(_) }),
            "{error:?}"
        );
        assert!(error.to_string().starts_with("request 4: "), "{error}");
        assert!(generator.is_idle());
        // The pages that hold NaN are used again.
        for (prompt, alone) in prompts.iter().zip(&alone) {
            assert_eq!(&tokens(&mut generator, prompt), alone);
        }
    }
}

on_every_device!(nan_in_a_prompt_fails_its_log_probabilities);

fn nan_in_a_prompt_fails_its_log_probabilities(place: TestDevice) {
    let mut generator = damaged(place, false);
    let mut settings = options(0);
    settings.sampling = SamplingParams {
        log_probs: Some(2),
        prompt_log_probs: true,
        ..SamplingParams::default()
    };
    let go = |_: &str| ControlFlow::Continue(());
    let sound = generator.generate_blocking(&[1, 2, 3], &settings, go);
    assert_eq!(sound.unwrap().prompt_scores.len(), 2);
    for prompt in [
        [1, DAMAGED_TOKEN, 3, 4],
        [DAMAGED_TOKEN, 1, 2, 3],
        [1, 2, 3, DAMAGED_TOKEN],
    ] {
        let failed = generator.generate_blocking(&prompt, &settings, go);
        assert!(
            matches!(failed, Err(PipelineError::NotFinite { request: Some(_) })),
            "{failed:?}"
        );
        assert!(generator.is_idle());
        let failed = generator.logits_blocking(&prompt, None, |_| {});
        assert!(matches!(
            failed,
            Err(PipelineError::NotFinite { request: None })
        ));
    }
}

#[test]
fn benchmark_of_a_model_that_computes_nan_fails() {
    let files = ModelFiles::from_bytes("damaged.gguf", bundled::damaged()).unwrap();
    let limits = ModelLimits {
        max_length: 512,
        page_size: 32,
        ..ModelLimits::default()
    };
    let session = bundled::session(TestDevice::Host);
    let mut generator = TextGenerator::load_blocking(&session, &files, limits).unwrap();
    let start = Instant::now();
    // A prompt of this length has the damaged token.
    let workload = Workload {
        prompt_tokens: 400,
        new_tokens: 4,
        runs: 1,
    };
    let failed = speed_blocking(&mut generator, workload, &|| start.elapsed());
    assert!(
        matches!(failed, Err(PipelineError::NotFinite { request: Some(_) })),
        "{failed:?}"
    );
    assert!(generator.is_idle());
}

on_every_device!(nan_in_a_text_names_the_text);

fn nan_in_a_text_names_the_text(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let mut tensors = encoder::read(folder.path());
    let words = tensors
        .get_mut("embeddings.word_embeddings.weight")
        .unwrap();
    let width = words.0[1];
    words.1[7 * width..8 * width].fill(f32::NAN);
    encoder::write(folder.path(), &encoder::config(), &tensors);
    let name = folder.path().to_str().unwrap();
    let [_, device, ..] = place.args();
    let model = Model::builder(name).device(device).unwrap().load().unwrap();
    let texts = vec![vec![2, 5, 3], vec![2, 7, 3], vec![2, 6, 3]];
    let error = model.embedder().embed_tokens(texts.clone()).unwrap_err();
    let not_finite = EncodeError::NotFinite { text: 2 };
    assert!(
        matches!(error.pipeline_error(), Some(PipelineError::Encode(error)) if *error == not_finite),
        "{error:?}"
    );
    let sound = vec![texts[0].clone(), texts[2].clone()];
    let rows = model.embedder().embed_tokens(sound).unwrap();
    assert!(rows.concat().iter().all(|value| value.is_finite()));
}

/// A model of an application whose logits are all one number after some tokens, and which may be slow
/// or fail.
#[derive(Debug)]
struct Odd {
    limits: ModelLimits,
    per_token: Duration,
}

const VOCAB: u64 = 8;

/// The logits that follow these tokens are NaN, infinite and minus infinite; the last one's step fails.
const ODD: [(u32, f32); 3] = [(4, f32::NAN), (5, f32::INFINITY), (6, f32::NEG_INFINITY)];
const FAILING: u32 = 7;

impl PipelineModel for Odd {
    fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    fn vocab_size(&self) -> u64 {
        VOCAB
    }

    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>> {
        Box::pin(async move {
            let tokens = inputs.tokens.to_host().await?;
            let tokens = tokens.as_u32().unwrap_or_default();
            std::thread::sleep(self.per_token * tokens.len() as u32);
            if tokens.contains(&FAILING) {
                return Err(PipelineError::Batch);
            }
            let rows = inputs.logit_rows.as_u32().unwrap_or_default();
            let row = |row: &u32| {
                let token = tokens[*row as usize];
                let odd = ODD.iter().find(|(other, _)| *other == token);
                (0..VOCAB).map(move |i| odd.map_or(-(i as f32), |(_, value)| *value))
            };
            let logits: Vec<f32> = rows.iter().flat_map(row).collect();
            Ok(ModelOutputs {
                logits: Tensor::f32(&[rows.len() as u64, VOCAB], &logits).unwrap(),
                logit_offsets: inputs.logit_offsets.clone(),
                hidden_states: None,
            })
        })
    }
}

/// A model whose tokens take this long each.
fn odd(per_token: Duration) -> Model {
    let limits = ModelLimits {
        max_batch: 4,
        max_logit_rows: 4,
        max_length: 4096,
        ..ModelLimits::default()
    };
    let session = InferenceSession::new(Device::host(1).unwrap());
    let text = TextProcessor::without_tokenizer("odd", []);
    Model::from_pipeline_model(&session, Odd { limits, per_token }, text).unwrap()
}

#[test]
fn request_without_finite_logits_is_named_and_the_others_go_on() {
    fault::call_limited(|| {
        let model = odd(Duration::ZERO);
        for temperature in [0.0, 0.8] {
            let request = |token| {
                let request = model.generate_tokens([token]).temperature(temperature);
                request.max_tokens(20)
            };
            let events: Vec<_> = (1..7).map(|token| request(token).events()).collect();
            for (token, events) in (1..7).zip(events) {
                let number = events.request();
                match events.blocking().completion() {
                    Ok(completion) => assert_eq!((completion.tokens.len(), token < 4), (20, true)),
                    Err(Error::NonFinite { request }) => {
                        assert_eq!((request, token > 3), (number, true));
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
        let results = model
            .complete_many([1, 4, 2].map(|token| model.generate_tokens([token]).max_tokens(3)));
        assert_eq!(
            results.iter().map(Result::is_ok).collect::<Vec<_>>(),
            [true, false, true]
        );
    });
}

#[test]
fn failed_step_ends_its_requests_and_later_ones_work() {
    fault::call_limited(|| {
        let model = odd(Duration::ZERO);
        let failing = model.generate_tokens([FAILING]).events();
        assert!(matches!(
            failing.blocking().completion(),
            Err(Error::Failed(_))
        ));
        let work = model.exclusive_blocking(|generator| {
            Box::pin(async move {
                let id = generator.add_request(&[FAILING], &GenerateOptions::default())?;
                let error = generator.next_events().await.unwrap_err();
                assert_eq!(error.requests, [id]);
                assert!(generator.is_idle());
                Ok(())
            })
        });
        work.unwrap();
        let completion = model.generate_tokens([1]).max_tokens(3).complete().unwrap();
        assert_eq!(completion.finish_reason, FinishReason::Length);
    });
}

/// A prompt that takes 20 seconds, of which the caller waits for a part only.
fn long_prompt(model: &Model) -> wisp_engine::Generate {
    model.generate_tokens(vec![1; 2000]).max_tokens(1)
}

const SLOW: Duration = Duration::from_millis(10);
/// A step takes a second, and the machine may be busy.
const SOON: Duration = Duration::from_secs(2);

#[test]
fn cancelling_during_a_long_prompt_takes_effect_after_the_current_step() {
    let model = odd(SLOW);
    let canceller = Canceller::new();
    let events = long_prompt(&model).canceller(&canceller).events();
    std::thread::sleep(Duration::from_secs(1));
    let asked = Instant::now();
    canceller.cancel();
    let completion = events.blocking().completion().unwrap();
    assert_eq!(completion.finish_reason, FinishReason::Cancelled);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn dropping_the_events_of_a_long_prompt_frees_the_model_after_the_current_step() {
    let model = odd(SLOW);
    let mut events = long_prompt(&model).events().blocking();
    assert!(matches!(events.next(), Some(Ok(Event::Prefill { .. }))));
    let asked = Instant::now();
    drop(events);
    // This waits until no request runs.
    model.adapters().unwrap();
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn callback_can_end_a_generation_during_its_prompt() {
    let model = odd(SLOW);
    let took = model.exclusive_blocking(|generator| {
        Box::pin(async move {
            let asked = Instant::now();
            let (stop, options) = (|_: &str| ControlFlow::Break(()), GenerateOptions::default());
            let generation = generator.generate(&[1; 2000], &options, stop).await?;
            assert_eq!(generation.finish_reason, FinishReason::Cancelled);
            assert!(generation.tokens.is_empty() && generator.is_idle());
            Ok(asked.elapsed())
        })
    });
    let took = took.unwrap();
    assert!(took < SOON, "{took:?}");
}

#[test]
fn cancelling_between_slow_tokens_takes_effect_after_the_current_step() {
    let model = odd(Duration::from_millis(100));
    let canceller = Canceller::new();
    let mut events = model.generate_tokens([1]).canceller(&canceller).into_iter();
    let tokens = events
        .by_ref()
        .filter(|event| matches!(event, Ok(Event::Token { .. })));
    assert_eq!(tokens.take(6).count(), 6);
    let asked = Instant::now();
    canceller.cancel();
    let completion = events.completion().unwrap();
    assert_eq!(completion.finish_reason, FinishReason::Cancelled);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn rate_of_a_short_answer_is_not_invented() {
    let model = odd(Duration::from_millis(20));
    let rate = |tokens: usize| {
        let mut events = model.generate_tokens([1]).max_tokens(tokens).into_iter();
        // The caller receives all events at once.
        std::thread::sleep(Duration::from_millis(20) * (tokens as u32 + 4));
        assert!(events.by_ref().all(|event| event.is_ok()));
        events.timings().decode_tokens_per_second()
    };
    assert_eq!([rate(1), rate(2)], [None, None]);
    let measured = rate(20).unwrap();
    assert!((20.0..=50.0).contains(&measured), "{measured}");
}

#[test]
fn text_beyond_the_limit_is_cut_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let limit = serde_json::json!({"max_seq_length": 16, "do_lower_case": false});
    encoder::write_json(folder.path(), "sentence_bert_config.json", &limit);
    let name = folder.path().to_str().unwrap();
    let model = Model::builder(name).device("host").unwrap().load().unwrap();
    let long = "a b ".repeat(400);
    let error = model.embed(&["a b", &long]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TextTooLong {
                text: 2,
                max: 16,
                ..
            }
        ),
        "{error:?}"
    );
    let cut = model.embedder().truncate(true).embed(&["a b", &long]);
    assert!(cut.unwrap().cut[1] > 0);
    // A blank text has its special tokens.
    assert_eq!(model.embed(&["", " \n"]).unwrap().tokens, 4);
    let error = model.embedder().embed_tokens(vec![vec![5], Vec::new()]);
    let error = error.unwrap_err();
    assert!(matches!(error, Error::EmptyText { text: 2 }), "{error:?}");
}

#[test]
fn context_beyond_the_trained_one_is_refused_by_library_and_program_alike() {
    let session = bundled::session(TestDevice::Host);
    let load = |max_length| {
        let limits = ModelLimits {
            max_length,
            ..ModelLimits::default()
        };
        TextGenerator::load_blocking(&session, &bundled::files(), limits)
    };
    let error = load(1 << 20).unwrap_err().to_string();
    assert!(error.contains("`max_length` is 1048576, but"), "{error}");
    let error = load(ModelLimits::DEFAULT_LENGTH).unwrap_err().to_string();
    assert!(error.contains("`max_length` is 2048, but"), "{error}");
    // The default is reduced.
    assert_eq!(load(0).unwrap().limits().max_length, 512);
    let builder = Model::builder(bundled::folder().join("wisp-tiny.gguf").to_str().unwrap());
    let error = builder
        .context_length(1 << 20)
        .load()
        .unwrap_err()
        .to_string();
    assert!(error.contains("`max_length` is 1048576, but"), "{error}");
    let run = fault::run_limited(["generate", "--max-length", "1048576", "a"]);
    let message = run.failed("a context that is too long");
    assert!(
        message.contains("1048576") && message.contains("512"),
        "{message}"
    );
}

#[test]
fn logits_during_a_generation_say_so() {
    let limits = ModelLimits {
        max_length: 64,
        ..ModelLimits::default()
    };
    let session = bundled::session(TestDevice::Host);
    let generator = TextGenerator::load_blocking(&session, &bundled::files(), limits);
    let mut generator = generator.unwrap();
    let id = generator
        .add_request(&[1, 2, 3, 4, 5], &options(9))
        .unwrap();
    generator.next_events_blocking().unwrap();
    let error = generator
        .logits_blocking(&[1; 5], None, |_| {})
        .unwrap_err();
    assert!(matches!(error, PipelineError::Busy), "{error:?}");
    let no_time = Duration::ZERO;
    let error = generator
        .tune_blocking(&session, no_time, &|| no_time, &|_| {
            ControlFlow::Continue(())
        })
        .unwrap_err();
    assert!(matches!(error, PipelineError::Busy), "{error:?}");
    assert!(generator.cancel(id));
    generator.logits_blocking(&[1; 5], None, |_| {}).unwrap();
    let error = generator
        .logits_blocking(&[1; 65], None, |_| {})
        .unwrap_err();
    let too_long = matches!(error, PipelineError::Request(RequestError::TooLong { .. }));
    assert!(too_long, "{error:?}");
}
