//! The built-in model: its reference results, and requantised copies in every encoding.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use wisp_engine::{
    SamplingDefaults,
    pipelines::{
        ModelFiles,
        chat_template::{ChatTemplate, Message},
    },
    weights::{Encoding, gguf::Value},
};
use wisp_tests::{
    bundled,
    dequantize::dequantize,
    on_every_device, on_every_device_and_class,
    program::{TestDevice, assert_close, assert_rows_close, generate, ids, logits, run},
    quantize::requantize,
    sample,
};

/// The results of evaluating the file's weights in float64.
#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    /// The tokens of `text`, with BOS.
    prompt_tokens: Vec<u32>,
    /// Greedy tokens after the prompt, not stopping at the end-of-text token.
    tokens: Vec<u32>,
    /// The text of `tokens`, including special tokens.
    continuation: String,
    /// The logits after the prompt, `[vocab]`.
    logits: Vec<f32>,
}

/// The results of the tokenizer that the model was trained with.
#[derive(Deserialize)]
struct TokenizerGolden {
    pairs: Vec<Pair>,
    chat: Vec<Chat>,
}

#[derive(Deserialize)]
struct Pair {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Turn>,
    add_generation_prompt: bool,
    text: String,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../native-demo/model")
        .join(name)
}

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    serde_json::from_slice(&std::fs::read(file(name)).unwrap()).unwrap()
}

fn model_files() -> ModelFiles {
    ModelFiles::open(&file("wisp-tiny.gguf")).unwrap()
}

fn logits_and_greedy_tokens_match_the_reference(place: TestDevice) {
    let tokenizer = model_files().tokenizer.unwrap();
    for case in read::<Golden>("golden.json").cases {
        let what = format!("{:?} on {place:?}", case.text);
        let got = logits(None, place, &case.prompt_tokens, &[]);
        let off = assert_close(&what, got.last().unwrap(), &case.logits);
        println!("{what}: within {off:.1e}");
        for flags in [
            &[][..],
            &[
                "--prefill-chunk",
                "3",
                "--page-size",
                "5",
                "--max-num-steps",
                "1",
            ],
        ] {
            let got = generate(None, place, &case.prompt_tokens, case.tokens.len(), flags);
            assert_eq!(got.tokens, case.tokens, "{what} with {flags:?}");
            // The program does not print special tokens.
            if !case.tokens.iter().any(|token| tokenizer.is_special(*token)) {
                assert_eq!(got.text, case.continuation, "{what} with {flags:?}");
            }
        }
    }
}

#[test]
fn prompts_are_encoded_with_bos() {
    for case in read::<Golden>("golden.json").cases {
        let json = run([
            "generate",
            "--device",
            "host",
            "--json",
            "--max-new-tokens",
            "1",
            "--prompt",
            &case.text,
        ])
        .json();
        assert_eq!(
            json["prompt_tokens"],
            serde_json::json!(case.prompt_tokens),
            "{:?}",
            case.text
        );
    }
}

#[test]
fn tokens_match_those_of_the_training_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    for pair in read::<TokenizerGolden>("tokenizer_golden.json").pairs {
        std::fs::write(&path, &pair.text).unwrap();
        let json = run([
            "tokenize",
            "--no-special",
            "--json",
            "--file",
            path.to_str().unwrap(),
        ])
        .json();
        assert_eq!(
            json["tokens"],
            serde_json::json!(pair.ids),
            "{:?}",
            pair.text
        );
    }
}

#[test]
fn conversations_are_rendered_as_in_training() {
    let tokenizer = model_files().tokenizer.unwrap();
    let special = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
    let source = tokenizer.chat_template(None).expect("a chat template");
    let template =
        ChatTemplate::new(source, &special(tokenizer.bos()), &special(tokenizer.eos())).unwrap();
    for case in read::<TokenizerGolden>("tokenizer_golden.json").chat {
        let messages: Vec<Message> = case
            .messages
            .iter()
            .map(|turn| Message::new(&turn.role, &turn.content))
            .collect();
        let text = template
            .render(
                &messages,
                case.add_generation_prompt,
                &serde_json::Map::new(),
            )
            .unwrap();
        assert_eq!(text, case.text);
        // The program can render conversations of a single message.
        if let ([turn], true) = (&*case.messages, case.add_generation_prompt) {
            let json = run([
                "generate",
                "--device",
                "host",
                "--json",
                "--chat",
                "--max-new-tokens",
                "1",
                "--prompt",
                &turn.content,
            ])
            .json();
            let mut expected: Vec<u32> = tokenizer
                .bos()
                .filter(|_| tokenizer.adds_bos())
                .into_iter()
                .collect();
            expected.extend(tokenizer.encode(&text, false, true).unwrap());
            assert_eq!(json["prompt_tokens"], serde_json::json!(expected), "{text}");
        }
    }
}

/// On the host, the reference is the same weights in F32; on a GPU, it is the host.
fn every_encoding_matches_its_reference(place: TestDevice) {
    let original = std::fs::read(file("wisp-tiny.gguf")).unwrap();
    let case = &read::<Golden>("golden.json").cases[0];
    let text = [&case.prompt_tokens[..], &case.tokens[..20]].concat();
    let folder = tempfile::tempdir().unwrap();
    let (quantised, plain) = (
        folder.path().join("quantised.gguf"),
        folder.path().join("plain.gguf"),
    );
    let mut seen = HashSet::new();
    for encoding in Encoding::file_encodings() {
        // On a device, encodings that become the same one differ no more.
        if place != TestDevice::Host && !seen.insert(encoding.on_device()) {
            continue;
        }
        if !sample::runs_on(&encoding.to_string(), place) {
            continue;
        }
        let bytes = requantize(&original, encoding);
        std::fs::write(&quantised, &bytes).unwrap();
        let reference = if place == TestDevice::Host {
            std::fs::write(&plain, dequantize(&bytes)).unwrap();
            &plain
        } else {
            &quantised
        };
        let what = format!("{encoding} on {place:?}");
        let info = run(["info", "--json", quantised.to_str().unwrap()]).json();
        assert!(
            info["encodings"][encoding.to_string()]["tensors"].as_u64() > Some(7),
            "{what}: {info}"
        );
        let got = logits(Some(&quantised), place, &text, &[]);
        let off = assert_rows_close(
            &what,
            &got,
            &logits(Some(reference), TestDevice::Host, &text, &[]),
        );
        println!("{what}: within {off:.1e}");
        // The host's tokens follow from its logits, whatever the encoding is.
        if place == TestDevice::Host && !sample::has(&encoding.to_string(), 0, 3) {
            continue;
        }
        let greedy =
            |model: &Path, place| generate(Some(model), place, &case.prompt_tokens, 40, &[]).tokens;
        let (got, expected) = (
            greedy(&quantised, place),
            greedy(reference, TestDevice::Host),
        );
        assert_eq!(
            got,
            expected,
            "{what}: greedy after {}",
            ids(&case.prompt_tokens)
        );
    }
}

on_every_device_and_class!(logits_and_greedy_tokens_match_the_reference);

// One device that poses as a GPU is enough: these take long.
on_every_device!(by case: every_encoding_matches_its_reference);

#[test]
fn sampling_that_a_gguf_file_recommends_is_known() {
    let values = [
        ("general.sampling.temp", Value::F32(0.5)),
        ("general.sampling.top_k", Value::I32(20)),
        ("general.sampling.top_p", Value::F32(0.75)),
        ("general.sampling.min_p", Value::F32(2.0)),
        ("general.sampling.penalty_repeat", Value::F32(1.5)),
    ];
    let values = values.map(|(key, value)| (key, Some(value)));
    let files = ModelFiles::from_bytes("tiny", bundled::with_metadata(&values)).unwrap();
    let expected = SamplingDefaults {
        temperature: Some(0.5),
        top_k: Some(20),
        top_p: Some(0.75),
        // It is out of range.
        min_p: None,
        repetition_penalty: Some(1.5),
    };
    assert_eq!(files.sampling_defaults, expected);
    assert_eq!(model_files().sampling_defaults, SamplingDefaults::default());
}
