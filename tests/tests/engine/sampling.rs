//! Sampling with the built-in model: log-probabilities, penalties, biases, and independence of batches and
//! shared pages.

use std::{collections::HashMap, ops::ControlFlow};

use proptest::prelude::*;
use wisp_engine::pipelines::{
    Batch, BatchSequence, CheckpointModel, DecoderModel, ModelLimits, PipelineError, PipelineModel,
    Request, SamplingParams,
    text_generation::{GenerateOptions, Generation, TextGenerator},
};
use wisp_tests::{
    bundled::{files, shared_session},
    on_every_device,
    program::TestDevice,
};

const VOCAB: usize = 1024;

fn load(place: TestDevice, limits: ModelLimits) -> TextGenerator {
    TextGenerator::load_blocking(&shared_session(place), &files(), limits).unwrap()
}

fn limits() -> ModelLimits {
    ModelLimits {
        max_length: 96,
        max_batch: 4,
        max_step_tokens: 24,
        max_logit_rows: 16,
        page_size: 8,
        max_steps: 4,
        ..ModelLimits::default()
    }
}

fn prompt(kind: u32, len: u32) -> Vec<u32> {
    (0..len)
        .map(|i| (i * i * 7 + i * kind + 3) % VOCAB as u32)
        .collect()
}

fn options(sampling: SamplingParams) -> GenerateOptions {
    GenerateOptions {
        sampling,
        max_new_tokens: Some(16),
        stop: Vec::new(),
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

fn generate(
    generator: &mut TextGenerator,
    prompt: &[u32],
    options: &GenerateOptions,
) -> Generation {
    let on_text = |_: &str| ControlFlow::Continue(());
    generator
        .generate_blocking(prompt, options, on_text)
        .unwrap()
}

fn many(generator: &mut TextGenerator, all: &[(Vec<u32>, GenerateOptions)]) -> Vec<Generation> {
    let requests: Vec<(&[u32], &GenerateOptions)> = all
        .iter()
        .map(|(prompt, options)| (&prompt[..], options))
        .collect();
    let go = |_: usize, _: &str| ControlFlow::Continue(());
    let generations = pollster::block_on(generator.generate_many(&requests, go)).unwrap();
    generations.into_iter().collect::<Result<_, _>>().unwrap()
}

/// The logits of all positions, `[tokens, vocab]`.
fn logits(generator: &mut TextGenerator, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    let take = |piece: &[f32]| rows.extend(piece.chunks(VOCAB).map(<[f32]>::to_vec));
    pollster::block_on(generator.logits(tokens, None, take)).unwrap();
    rows
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let total: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
    logits.iter().map(|l| f64::from(*l) - total.ln()).collect()
}

/// The scores of prompt tokens and sampled tokens do not depend on the sampling settings or on the batch.
fn scores_are_the_log_softmax_of_the_logits(place: TestDevice) {
    let mut generator = load(place, limits());
    let biased = SamplingParams {
        temperature: 1.5,
        top_k: 9,
        repetition_penalty: 1.3,
        logit_bias: vec![(7, 5.0), (11, -100.0)],
        log_probs: Some(5),
        prompt_log_probs: true,
        ..SamplingParams::default()
    };
    let greedy = SamplingParams {
        log_probs: Some(0),
        ..SamplingParams::default()
    };
    let all = [
        (prompt(1, 40), options(biased.clone())),
        (prompt(2, 9), options(greedy)),
        (
            prompt(3, 30),
            options(SamplingParams {
                log_probs: None,
                ..biased.clone()
            }),
        ),
        (prompt(4, 1), options(biased)),
    ];
    let generations = many(&mut generator, &all);
    assert!(generations[2].scores.is_empty() && generations[2].prompt_scores.is_empty());
    assert!(generations[1].prompt_scores.is_empty());
    for number in [0, 1, 3] {
        let ((prompt, options), got) = (&all[number], &generations[number]);
        let top = options.sampling.log_probs.unwrap() as usize;
        let text = [&prompt[..], &got.tokens].concat();
        let rows = logits(&mut generator, &text);
        assert_eq!(got.scores.len(), 16);
        let first = if options.sampling.prompt_log_probs {
            0
        } else {
            prompt.len() - 1
        };
        assert_eq!(got.prompt_scores.len(), prompt.len() - 1 - first);
        let scores = got.prompt_scores.iter().chain(&got.scores);
        for (at, score) in (first..).zip(scores) {
            let expected = log_softmax(&rows[at]);
            let close = |token: u32, got: f32| {
                let expected = expected[token as usize];
                assert!(
                    (f64::from(got) - expected).abs() < 1e-3,
                    "{number}: token {token} at {at}: {got}, not {expected}"
                );
            };
            close(text[at + 1], score.log_probability);
            assert_eq!(score.top.len(), top);
            score
                .top
                .iter()
                .for_each(|(token, got)| close(*token, *got));
            let mut sorted = expected.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            for (n, (_, got)) in score.top.iter().enumerate() {
                assert!(
                    (f64::from(*got) - sorted[n]).abs() < 1e-3,
                    "top token {n} at {at}"
                );
            }
        }
    }
    // Evaluations request only the scores of the prompt.
    let mut prompt_only = all[0].1.clone();
    prompt_only.max_new_tokens = Some(0);
    let got = generate(&mut generator, &all[0].0, &prompt_only);
    assert!(got.tokens.is_empty() && got.text.is_empty() && got.scores.is_empty());
    assert_eq!(got.prompt_scores.len(), 39);
    for (a, b) in got.prompt_scores.iter().zip(&generations[0].prompt_scores) {
        assert!((a.log_probability - b.log_probability).abs() < 1e-3);
    }
}

/// Greedy tokens are the largest of the logits after the penalties and biases are applied here.
fn penalties_and_biases_follow_their_definition(place: TestDevice) {
    let params =
        |presence_penalty, frequency_penalty, repetition_penalty, logit_bias| SamplingParams {
            presence_penalty,
            frequency_penalty,
            repetition_penalty,
            logit_bias,
            ..SamplingParams::default()
        };
    let all: Vec<(Vec<u32>, GenerateOptions)> = [
        params(1.5, 0.0, 1.0, vec![]),
        params(0.0, 0.7, 1.0, vec![]),
        params(0.0, 0.0, 1.5, vec![]),
        params(-0.5, 0.4, 1.2, vec![(3, 4.0), (1000, 6.0), (50, -100.0)]),
        params(0.0, 0.0, 1.0, vec![(77, 100.0)]),
        params(0.0, 0.0, 1.0, vec![]),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, params)| (prompt(i as u32, 12 + i as u32), options(params)))
    .collect();
    // Too few pages for all requests: some are preempted and start over.
    let mut generator = load(
        place,
        ModelLimits {
            pages: 9,
            ..limits()
        },
    );
    let generations = many(&mut generator, &all);
    for ((prompt, options), got) in all.iter().zip(&generations) {
        let s = &options.sampling;
        let text = [&prompt[..], &got.tokens].concat();
        let rows = logits(&mut generator, &text);
        assert_eq!(got.tokens.len(), 16);
        for (n, token) in got.tokens.iter().enumerate() {
            let mut row = rows[prompt.len() + n - 1].clone();
            let mut drawn: HashMap<u32, f32> = HashMap::new();
            got.tokens[..n]
                .iter()
                .for_each(|token| *drawn.entry(*token).or_default() += 1.0);
            s.logit_bias
                .iter()
                .for_each(|(token, bias)| row[*token as usize] += bias);
            for (token, l) in (0u32..).zip(&mut row) {
                if prompt.contains(&token) || drawn.contains_key(&token) {
                    *l = if *l > 0.0 {
                        *l / s.repetition_penalty
                    } else {
                        *l * s.repetition_penalty
                    };
                }
                if let Some(count) = drawn.get(&token) {
                    *l -= s.presence_penalty + count * s.frequency_penalty;
                }
            }
            let best = row.iter().copied().fold(f32::MIN, f32::max);
            assert!(
                row[*token as usize] > best - 1e-3,
                "{s:?}: token {token} at {n}"
            );
        }
    }
    assert_eq!(generations[4].tokens, [77; 16]);
    assert!(!generations[3].tokens.contains(&50));
}

/// Prompts with common prefixes share pages.
fn prefix_caching_does_not_change_tokens(place: TestDevice) {
    let draw = SamplingParams {
        temperature: 0.9,
        seed: 3,
        frequency_penalty: 0.2,
        ..SamplingParams::default()
    };
    let long = prompt(1, 50);
    let mut other = long.clone();
    other[30] += 1;
    let all: Vec<(Vec<u32>, GenerateOptions)> = [
        long[..40].to_vec(),
        long.clone(),
        other,
        long[..41].to_vec(),
        prompt(2, 20),
        long,
    ]
    .into_iter()
    .zip([SamplingParams::default(), draw].into_iter().cycle())
    .map(|(prompt, sampling)| (prompt, options(sampling)))
    .collect();
    let expected = many(&mut load(place, limits()), &all);
    let numbers = match place {
        TestDevice::Host => &[0, 10, 16][..],
        _ => &[0, 10],
    };
    for pages in numbers.iter().copied() {
        let limits = ModelLimits {
            prefix_caching: true,
            pages,
            ..limits()
        };
        let mut generator = load(place, limits);
        for round in 0..2 {
            let got = many(&mut generator, &all);
            for (got, expected) in got.iter().zip(&expected) {
                assert_eq!(got.tokens, expected.tokens, "{pages} pages, round {round}");
            }
        }
        let hits = generator.prefix_hits();
        assert!(pages > 0 || hits.hits > 200, "{hits:?}");
        // Computing logits overwrites pages, whose cached prefixes must not be used afterwards.
        logits(&mut generator, &prompt(9, 60));
        assert_eq!(
            many(&mut generator, &all[..1])[0].tokens,
            expected[0].tokens
        );
    }
}

/// `compute_log_probabilities` reads the logits that `execute` left on the device.
fn compute_log_probabilities_matches_the_logits(place: TestDevice) {
    let files = files();
    pollster::block_on(async {
        let mut model = DecoderModel::load(&shared_session(place), &files, limits(), None)
            .await
            .unwrap();
        // All rows of the first sequence, and the last row of the second.
        let (a, b) = (prompt(1, 6), prompt(2, 4));
        let pages = limits().pages_per_sequence() as u32;
        let pages = |slot| (slot * pages..(slot + 1) * pages).collect::<Vec<u32>>();
        let batch = Batch {
            sequences: vec![
                BatchSequence::new(0, 0, &a, &pages(0)).with_logit_rows(6),
                BatchSequence::new(2, 0, &b, &pages(2)),
            ],
            steps: 1,
        };
        let inputs = model.prepare_initial_token_inputs(&batch).unwrap();
        let outputs = model.execute(&inputs).await.unwrap();
        let logits = outputs.logits.to_host().await.unwrap();
        let logits = logits.as_f32().unwrap();
        let rows: Vec<Vec<f64>> = logits.chunks(VOCAB).map(log_softmax).collect();
        let next = [17, 400];
        let got = model
            .compute_log_probabilities(&inputs, &outputs, &next, &[3, 1], &[true, false])
            .await
            .unwrap();
        let first = got[0].as_ref().unwrap();
        let expected = [&a[1..], &next[..1]].concat();
        assert_eq!(first.token_log_probabilities.len(), 6);
        for (at, token) in expected.iter().enumerate() {
            let off = f64::from(first.token_log_probabilities[at]) - rows[at][*token as usize];
            assert!(off.abs() < 1e-3, "{at}");
            assert_eq!(first.top_log_probabilities[at].len(), 3);
        }
        let second = got[1].as_ref().unwrap();
        assert_eq!(second.token_log_probabilities.len(), 1);
        assert!((f64::from(second.token_log_probabilities[0]) - rows[6][400]).abs() < 1e-3);
        // Without requested scores there are none. Invalid requests are refused.
        let none = model
            .compute_log_probabilities(&inputs, &outputs, &next, &[0, 0], &[false; 2])
            .await;
        assert_eq!(none.unwrap(), [None, None]);
        for (next, top, echo) in [
            (&next[..1], [1, 1], [false; 2]),
            (&next[..], [1, 1], [true; 2]),
            (&[17, 5000], [1, 1], [false; 2]),
            (&next[..], [21, 1], [false; 2]),
        ] {
            assert!(
                model
                    .compute_log_probabilities(&inputs, &outputs, next, &top, &echo)
                    .await
                    .is_err()
            );
        }
    });
}

on_every_device!(
    scores_are_the_log_softmax_of_the_logits,
    penalties_and_biases_follow_their_definition,
    prefix_caching_does_not_change_tokens,
    compute_log_probabilities_matches_the_logits
);

#[test]
fn tokens_outside_the_vocabulary_are_refused() {
    let mut generator = load(TestDevice::Host, limits());
    let request = |tokens, logit_bias| Request {
        tokens,
        sampling: SamplingParams {
            logit_bias,
            ..SamplingParams::default()
        },
        max_new_tokens: 1,
        ..Request::default()
    };
    for request in [
        request(vec![1024], vec![]),
        request(vec![1], vec![(1024, 1.0)]),
    ] {
        let error = generator.add(request).unwrap_err();
        assert!(
            matches!(error, PipelineError::UnknownToken { token: 1024, .. }),
            "{error}"
        );
    }
    assert!(generator.is_idle());
}

/// One text is cancelled and one stops at a stop text. The others are those of separate runs.
#[test]
fn texts_of_a_batch_end_independently() {
    let mut generator = load(TestDevice::Host, limits());
    let plain = options(SamplingParams::default());
    let whole = generate(&mut generator, &prompt(1, 10), &plain);
    let stop: String = whole.text.chars().skip(8).take(5).collect();
    let stopping = GenerateOptions {
        stop: vec![stop.clone()],
        ..plain.clone()
    };
    let (a, b) = (prompt(1, 10), prompt(5, 10));
    let requests = [
        (&a[..], &plain),
        (&a[..], &stopping),
        (&b[..], &plain),
        (&a[..], &plain),
    ];
    let mut pieces = 0;
    let mut texts = vec![String::new(); 4];
    let on_text = |number: usize, text: &str| {
        texts[number] += text;
        // Those of the prompt are empty.
        pieces += usize::from(number == 2 && !text.is_empty());
        match number == 2 && pieces == 3 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let got = pollster::block_on(generator.generate_many(&requests, on_text)).unwrap();
    let got: Vec<Generation> = got.into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!((&got[0], &got[3].tokens), (&whole, &whole.tokens));
    assert_eq!(texts[0], whole.text);
    assert_eq!(got[1].text, whole.text[..whole.text.find(&stop).unwrap()]);
    assert_eq!(serde_json::json!(got[1].finish_reason), "stop");
    assert_eq!(
        (got[2].tokens.len(), serde_json::json!(got[2].finish_reason)),
        (3, "cancelled".into())
    );
    assert!(generator.is_idle());
    // Where the future is dropped before its end, as by a panic, no request is left.
    let unfinished = std::panic::AssertUnwindSafe(|| {
        let end = |_: usize, _: &str| -> ControlFlow<()> { panic!("the caller ends") };
        pollster::block_on(generator.generate_many(&requests, end))
    });
    assert!(std::panic::catch_unwind(unfinished).is_err());
    assert!(generator.is_idle());
}

/// A random request.
fn any_request() -> impl Strategy<Value = (Vec<u32>, GenerateOptions)> {
    let penalty = || prop_oneof![Just(0.0f32), Just(0.5f32)];
    let sampling = (
        prop_oneof![Just(0.0f32), Just(0.8f32), Just(1.4f32)],
        0u32..5,
        prop_oneof![Just(1.0f32), Just(0.9f32)],
        penalty(),
        penalty(),
        0u32..9,
        prop_oneof![Just(None), (0u32..4).prop_map(Some)],
        any::<bool>(),
    );
    (0u32..3, 1u32..40, 1usize..20, sampling).prop_map(|(kind, len, new, s)| {
        let sampling = SamplingParams {
            temperature: s.0,
            top_k: s.1 * 10,
            top_p: s.2,
            presence_penalty: s.3,
            frequency_penalty: s.4,
            repetition_penalty: 1.0 + s.3 / 2.0,
            logit_bias: vec![(s.5 * 3, 2.0)],
            seed: s.5,
            log_probs: s.6,
            prompt_log_probs: s.7,
            ..SamplingParams::default()
        };
        let max_new_tokens = Some(new);
        (
            prompt(kind, len),
            GenerateOptions {
                max_new_tokens,
                ..options(sampling)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn results_do_not_depend_on_batches_pages_and_prefix_caching(
        all in prop::collection::vec(any_request(), 1..7),
        pages in 8u64..20,
        prefix_caching: bool,
        max_steps in 1u64..5,
    ) {
        let mut together = load(TestDevice::Host, ModelLimits { pages, prefix_caching, max_steps, ..limits() });
        let mut alone = load(TestDevice::Host, limits());
        for (got, (prompt, options)) in many(&mut together, &all).iter().zip(&all) {
            let expected = generate(&mut alone, prompt, options);
            prop_assert_eq!(&got.tokens, &expected.tokens);
            prop_assert_eq!(&got.text, &expected.text);
            prop_assert_eq!(got.scores.len(), expected.scores.len());
            prop_assert_eq!(got.prompt_scores.len(), expected.prompt_scores.len());
        }
    }
}
