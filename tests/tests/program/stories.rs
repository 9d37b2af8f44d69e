//! A real little Llama, in the encodings of its files.

use serde::Deserialize;
use wisp_tests::{
    on_every_device,
    program::{TestDevice, assert_close, generate, logits},
    shared::shared_data,
};

/// What a float64 evaluation of the F32 weights gives.
#[derive(Deserialize)]
struct Golden {
    /// BOS and the 199 greedy tokens after it.
    greedy_tokens: Vec<u32>,
    /// Their text, without BOS.
    text: String,
    prefix: Vec<u32>,
    /// After the prefix.
    last_logits: Vec<f32>,
}

fn golden() -> Option<Golden> {
    let path = shared_data("models/stories260K/golden.json")?;
    let text = std::fs::read_to_string(path).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// Greedy tokens from BOS: the first `new_tokens` are the golden's.
fn same_tokens(file: &str, place: TestDevice, new_tokens: usize) {
    let (Some(golden), Some(path)) = (golden(), shared_data(&format!("models/stories260K/{file}")))
    else {
        return;
    };
    let expected = &golden.greedy_tokens[1..][..new_tokens];
    for flags in [&[][..], &["--max-num-steps", "1"]] {
        let got = generate(
            Some(&path),
            place,
            &golden.greedy_tokens[..1],
            new_tokens,
            flags,
        );
        assert_eq!(got.tokens, expected, "{file} on {place:?} with {flags:?}");
        assert_eq!(got.finish_reason, "length");
        if new_tokens + 1 == golden.greedy_tokens.len() {
            assert_eq!(got.text, golden.text, "{file} on {place:?}");
        } else {
            assert!(
                golden.text.starts_with(&got.text),
                "{file} on {place:?}: {}",
                got.text
            );
        }
    }
}

fn f32(place: TestDevice) {
    same_tokens("stories260K.gguf", place, 199);
}

fn f16(place: TestDevice) {
    same_tokens("stories260K-F16.gguf", place, 199);
}

// The golden is of the F32 weights. Quantised weights are another model, which at some token prefers
// another word: a float64 evaluation of the dequantised files, independent of Wisp, leaves the golden
// at its token 115 (Q8_0) and 74 (Q5_0), counted with BOS as 0. Everything before must be the same.

fn q8_0(place: TestDevice) {
    same_tokens("stories260K-Q8_0.gguf", place, 114);
}

fn q5_0(place: TestDevice) {
    same_tokens("stories260K-Q5_0.gguf", place, 73);
}

fn last_logits(place: TestDevice) {
    let (Some(golden), Some(path)) = (golden(), shared_data("models/stories260K/stories260K.gguf"))
    else {
        return;
    };
    for flags in [&[][..], &["--prefill-chunk", "5", "--page-size", "3"]] {
        let got = logits(Some(&path), place, &golden.prefix, flags);
        let off = assert_close(
            &format!("{place:?} with {flags:?}"),
            got.last().unwrap(),
            &golden.last_logits,
        );
        println!("{place:?} with {flags:?}: within {off:.1e}");
    }
}

on_every_device!(f32, f16, q8_0, q5_0, last_logits);
