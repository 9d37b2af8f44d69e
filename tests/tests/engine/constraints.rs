//! Constrained texts of the built-in model: what they match, alone and in batches with others.

use std::ops::ControlFlow;

use proptest::prelude::*;
use serde_json::{Value, json};
use wisp_engine::{
    Error, FinishReason, Model,
    grammar::Constraint,
    pipelines::{
        CheckpointModel, DecoderModel, ModelFiles, ModelLimits, SamplingParams, TextProcessor,
        text_generation::{GenerateOptions, Generation, TextGenerator},
        tokenizer::{HuggingFaceFiles, Tokenizer},
    },
};
use wisp_tests::{
    asynchronous::Asynchronous,
    bundled::{files, folder, session, shared_session},
    goldens, on_every_device_and_class,
    program::TestDevice,
    sample,
};

fn load(place: TestDevice, limits: ModelLimits) -> TextGenerator {
    TextGenerator::load_blocking(&shared_session(place), &files(), limits).unwrap()
}

/// Loads a model to the host, with batches that are submitted before the tokens of those before them are known or without.
fn on_host(
    files: &ModelFiles,
    text: TextProcessor,
    limits: ModelLimits,
    ahead: bool,
) -> TextGenerator {
    let session = session(TestDevice::Host);
    let model = DecoderModel::load(&session, files, limits, None);
    let model = pollster::block_on(model).unwrap();
    let generator = match ahead {
        true => TextGenerator::new_blocking(&session, Asynchronous(model), text),
        false => TextGenerator::new_blocking(&session, model, text),
    };
    generator.unwrap()
}

fn limits() -> ModelLimits {
    ModelLimits {
        max_length: 192,
        max_batch: 4,
        max_step_tokens: 24,
        max_logit_rows: 16,
        page_size: 8,
        max_steps: 4,
        ..ModelLimits::default()
    }
}

/// The constraints of these tests.
fn constraints() -> [Constraint; 4] {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 5},
            "kind": {"enum": ["cat", "dog"]},
            "ages": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 2}
        },
        "required": ["name", "kind"],
        "additionalProperties": false
    });
    [
        Constraint::JsonSchema(schema),
        Constraint::Regex("[a-c]{2,5}(, [a-c]{2})*".into()),
        Constraint::Choices(["yes", "no", "maybe not"].map(String::from).to_vec()),
        Constraint::Lark("start: (WORD \" \")+ \"end\"\nWORD: /[xyz]{1,3}/".into()),
    ]
}

/// Whether a complete text matches a constraint of [`constraints`].
fn matches(number: usize, text: &str) -> bool {
    let words = |text: &str, letters: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.chars().all(|c| letters.contains(c))
    };
    match number {
        0 => {
            let Ok(Value::Object(object)) = serde_json::from_str(text) else {
                return false;
            };
            let known = ["name", "kind", "ages"];
            let ages = object.get("ages").map(|ages| ages.as_array().unwrap());
            object.keys().all(|name| known.contains(&name.as_str()))
                && object["name"]
                    .as_str()
                    .is_some_and(|name| name.chars().count() <= 5)
                && ["cat", "dog"].contains(&object["kind"].as_str().unwrap_or_default())
                && ages.is_none_or(|ages| {
                    ages.len() <= 2
                        && ages
                            .iter()
                            .all(|age| age.as_u64().is_some_and(|age| age <= 99))
                })
        }
        1 => {
            let mut parts = text.split(", ");
            let first = parts.next().unwrap_or_default();
            words(first, "abc", 5)
                && first.len() >= 2
                && parts.all(|part| part.len() == 2 && words(part, "abc", 2))
        }
        2 => ["yes", "no", "maybe not"].contains(&text),
        _ => text
            .strip_suffix(" end")
            .is_some_and(|text| text.split(' ').all(|word| words(word, "xyz", 3))),
    }
}

fn options(generator: &TextGenerator, number: Option<usize>, seed: u32) -> GenerateOptions {
    let constraint = number.map(|number| generator.text().grammar(&constraints()[number]).unwrap());
    GenerateOptions {
        sampling: SamplingParams {
            temperature: [0.0, 0.9, 1.6][seed as usize % 3],
            top_k: [0, 40][seed as usize / 3 % 2],
            presence_penalty: [0.0, 0.5][seed as usize / 6 % 2],
            seed,
            ..SamplingParams::default()
        },
        max_new_tokens: Some(120),
        constraint,
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

fn texts_that_end_match_their_constraint(place: TestDevice) {
    let mut generator = load(place, limits());
    // Off the host three seeds, with each temperature and with each other setting.
    let all = place == TestDevice::Host || sample::takes_all();
    let seeds = match all {
        true => &[0, 1, 2, 3, 4, 5, 6, 7, 8][..],
        false => &[0, 4, 8],
    };
    let mut ended_in_all = 0;
    for number in 0..constraints().len() {
        let mut ended = 0;
        for seed in seeds.iter().copied() {
            let options = options(&generator, Some(number), seed);
            let got = generate(&mut generator, &[1, 50, 7], &options);
            match got.finish_reason {
                FinishReason::Stop => {
                    assert!(
                        matches(number, &got.text),
                        "{number}, seed {seed}: {:?}",
                        got.text
                    );
                    ended += 1;
                }
                FinishReason::Length => assert_eq!(got.tokens.len(), 120),
                reason => panic!("{reason:?}"),
            }
        }
        assert!(!all || ended >= 2, "{number}: only {ended} texts ended");
        ended_in_all += ended;
    }
    assert!(ended_in_all > 0, "no text ended");
}

on_every_device_and_class!(texts_that_end_match_their_constraint);

/// The tokens of a request do not depend on which other requests run in its batch, on chunks of prompts, or on
/// whether it is preempted.
#[test]
fn batches_mix_constrained_and_free_texts() {
    mix_constrained_and_free_texts(1024, &files(), TextProcessor::of(&files()));
}

/// Nor do they on the snapshots of a recurrent state.
#[test]
fn batches_mix_constrained_and_free_texts_over_a_recurrent_state() {
    let files = ModelFiles::open(&goldens::directory("lfm2").unwrap()).unwrap();
    let text = TextProcessor::new("lfm2", tokenizer_of_67(), [2]);
    mix_constrained_and_free_texts(67, &files, text);
}

/// A tokenizer with 67 tokens, for a checkpoint that has none: three control tokens, characters, and two merges.
fn tokenizer_of_67() -> Tokenizer {
    let control = ["<pad>", "<s>", "</s>"];
    let characters = "abcdefghijklmnopqrstuvwxyz\u{120}0123456789{}[]\":,!.ABCDEFGHIJKLMNOP";
    let merges = [["a", "b"], ["c", "a"]];
    let tokens = control.iter().map(ToString::to_string);
    let tokens = tokens.chain(characters.chars().map(String::from));
    let tokens = tokens.chain(merges.iter().map(|pair| pair.concat()));
    let vocab: serde_json::Map<String, Value> = (0..)
        .zip(tokens)
        .map(|(id, token): (u32, _)| (token, id.into()))
        .collect();
    assert_eq!(vocab.len(), 67);
    let added = control.iter().enumerate().map(|(id, content)| {
        json!({"id": id, "content": content, "special": true, "normalized": false,
               "single_word": false, "lstrip": false, "rstrip": false})
    });
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let file = json!({
        "added_tokens": added.collect::<Vec<_>>(), "pre_tokenizer": bytes, "decoder": bytes,
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}
    });
    let file = file.to_string();
    let files = HuggingFaceFiles {
        tokenizer: file.as_bytes(),
        ..HuggingFaceFiles::default()
    };
    Tokenizer::from_files(&files).unwrap()
}

/// Checks random batches of a model with so many tokens.
fn mix_constrained_and_free_texts(vocab: u32, files: &ModelFiles, text: TextProcessor) {
    let request = (0usize..5, 0u32..12, 1u32..40).prop_map(|(number, seed, length)| {
        (
            number.checked_sub(1),
            seed,
            (0..length)
                .map(|i| (i * 37 + seed % 4) % vocab)
                .collect::<Vec<u32>>(),
        )
    });
    let all = prop::collection::vec(request, 2..6);
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(10)
    };
    proptest!(config, |(all in all, pages in 24u64..40, max_steps in 1u64..5, prefix_caching: bool, ahead: bool)| {
        let together = ModelLimits { pages, max_steps, prefix_caching, ..limits() };
        let mut together = on_host(files, text.clone(), together, ahead);
        let mut alone = on_host(files, text.clone(), limits(), false);
        let options: Vec<GenerateOptions> =
            all.iter().map(|(number, seed, _)| options(&together, *number, *seed)).collect();
        let requests: Vec<(&[u32], &GenerateOptions)> =
            all.iter().map(|(_, _, prompt)| prompt.as_slice()).zip(&options).collect();
        let got = together.generate_many_blocking(&requests, |_, _| ControlFlow::Continue(())).unwrap();
        for ((got, (prompt, options)), (number, _, _)) in got.into_iter().zip(&requests).zip(&all) {
            let got = got.unwrap();
            let expected = generate(&mut alone, prompt, options);
            prop_assert_eq!(&got.tokens, &expected.tokens);
            prop_assert_eq!(got.finish_reason, expected.finish_reason);
            if let (Some(number), FinishReason::Stop) = (number, got.finish_reason) {
                prop_assert!(matches(*number, &got.text), "{:?}", got.text);
            }
        }
    });
}

#[test]
fn forced_tokens_need_no_step_of_their_own() {
    for ahead in [false, true] {
        let files = files();
        let text = TextProcessor::of(&files);
        check_forced_tokens(on_host(&files, text, limits(), ahead));
    }
}

fn check_forced_tokens(mut generator: TextGenerator) {
    let long = "Once upon a time there was a little ";
    let pattern = Constraint::Regex(format!("{long}(cat|dog)"));
    let mut options = options(&generator, None, 0);
    options.constraint = Some(generator.text().grammar(&pattern).unwrap());
    let mut run = |options: &GenerateOptions| {
        generator.add_request(&[1, 2, 3], options).unwrap();
        let (mut steps, mut text, mut tokens, mut scores) = (0, String::new(), 0, 0);
        while !generator.is_idle() {
            steps += 1;
            for event in generator.next_events_blocking().unwrap().texts {
                text += &event.text;
                tokens += usize::from(event.token.is_some());
                scores += usize::from(event.score.is_some());
                assert!(
                    event
                        .finish
                        .is_none_or(|reason| reason == FinishReason::Stop)
                );
            }
        }
        (steps, text, tokens, scores)
    };
    let (steps, text, tokens, _) = run(&options);
    assert!(
        [format!("{long}cat"), format!("{long}dog")].contains(&text),
        "{text}"
    );
    assert!(steps < tokens / 2, "{steps} steps for {tokens} tokens");
    // With log-probabilities every token is sampled, and has one.
    options.sampling.log_probs = Some(1);
    let (steps, scored_text, tokens, scores) = run(&options);
    assert_eq!((scored_text, scores), (text, tokens));
    assert!(steps >= tokens);
}

#[test]
fn texts_at_the_token_limit_say_so() {
    let mut generator = load(TestDevice::Host, limits());
    let pattern = Constraint::Regex("Once upon a time(!|, )[a-z]{50}".into());
    for most in [1, 2, 5, 12] {
        let mut options = options(&generator, None, 0);
        options.constraint = Some(generator.text().grammar(&pattern).unwrap());
        options.max_new_tokens = Some(most);
        let got = generate(&mut generator, &[1], &options);
        assert_eq!(
            (got.tokens.len(), got.finish_reason),
            (most, FinishReason::Length)
        );
    }
    // A text that is complete with its last token has ended by itself.
    let mut options = options(&generator, None, 0);
    options.constraint = Some(
        generator
            .text()
            .grammar(&Constraint::Choices(vec!["cat".into()]))
            .unwrap(),
    );
    let whole = generate(&mut generator, &[1], &options);
    assert_eq!(whole.finish_reason, FinishReason::Stop);
    options.max_new_tokens = Some(whole.tokens.len());
    assert_eq!(generate(&mut generator, &[1], &options), whole);
    options.max_new_tokens = Some(0);
    assert_eq!(
        generate(&mut generator, &[1], &options).finish_reason,
        FinishReason::Length
    );
}

#[test]
fn a_text_that_cannot_go_on_is_an_error_of_its_request() {
    let mut generator = load(TestDevice::Host, limits());
    // The states of this expression are too many for the limits of a step.
    let pattern = Constraint::Regex("(a|b)*a(a|b){14}c".repeat(12));
    let mut failing = options(&generator, None, 1);
    match generator.text().grammar(&pattern) {
        Ok(grammar) => failing.constraint = Some(grammar),
        // Refusing it is as good.
        Err(error) => return assert!(error.to_string().contains("regular expression"), "{error}"),
    }
    let free = options(&generator, None, 4);
    let requests = [(&[1u32][..], &failing), (&[1][..], &free)];
    let got = generator
        .generate_many_blocking(&requests, |_, _| ControlFlow::Continue(()))
        .unwrap();
    if let Err(error) = &got[0] {
        assert!(
            error
                .to_string()
                .contains("the constraint cannot be followed"),
            "{error}"
        );
    }
    assert!(got[1].is_ok());
}

#[test]
fn applications_get_values_and_errors() {
    #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Blue,
    }
    #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        color: Color,
        count: u8,
        large: Option<bool>,
    }
    let path = folder().join("wisp-tiny.gguf");
    let model = Model::builder(path.to_str().unwrap())
        .device("host")
        .unwrap()
        .load()
        .unwrap();
    let thing: Thing = model.generate("A thing: ").max_tokens(100).json().unwrap();
    assert!([Color::Red, Color::Blue].contains(&thing.color));
    let _ = (thing.count, thing.large);

    let cut = model
        .generate("A thing: ")
        .max_tokens(3)
        .json::<Thing>()
        .unwrap_err();
    assert!(
        matches!(
            cut,
            Error::IncompleteJson {
                reason: FinishReason::Length,
                ..
            }
        ),
        "{cut}"
    );
    let refused = model
        .generate("x")
        .json_schema(json!({"uniqueItems": true}))
        .complete()
        .unwrap_err();
    let Error::Grammar(refused) = refused else {
        panic!("{refused}")
    };
    assert_eq!(refused.keyword(), Some("uniqueItems"));
    let text = model
        .generate("x")
        .regex("[0-9]{3}")
        .complete()
        .unwrap()
        .text;
    assert!(text.len() == 3 && text.parse::<u32>().is_ok(), "{text}");
}
