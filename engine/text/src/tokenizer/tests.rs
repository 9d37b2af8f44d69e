//! Tests of whole tokenizers: llama.cpp's vocabularies with their pairs of texts and tokens, round
//! trips, streams, and contradictory metadata.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use header::{Header, Meta};

pub(crate) mod header;
pub(crate) mod huggingface;
pub(crate) mod metadata;
mod reference;

/// Returns the folder of shared test data: `WISP_SHARED`, or `shared` beside the checkout.
fn shared() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("WISP_SHARED").map_or_else(beside, PathBuf::from);
    let found = folder.join("data").is_dir();
    if !found {
        println!("skipped: no test data in {}", folder.display());
    }
    found.then_some(folder)
}

fn vocabulary(name: &str) -> Option<Tokenizer> {
    let path = shared()?.join(format!("data/vocab/ggml-vocab-{name}.gguf"));
    let header = Header::read(&std::fs::read(path).unwrap());
    Some(Tokenizer::from_gguf(&header).unwrap())
}

/// Returns a vocabulary that several tests share.
pub(crate) fn cached(name: &str) -> Option<&'static Tokenizer> {
    const NAMES: [&str; 6] = [
        "llama-spm",
        "llama-bpe",
        "gpt-2",
        "qwen2",
        "phi-3",
        "deepseek-llm",
    ];
    // One each: a test that needs one vocabulary does not load the others.
    static CACHE: [OnceLock<Option<Tokenizer>>; NAMES.len()] =
        [const { OnceLock::new() }; NAMES.len()];
    let at = NAMES.iter().position(|known| *known == name).unwrap();
    CACHE[at].get_or_init(|| vocabulary(name)).as_ref()
}

/// Encodes every text of a vocabulary's `.inp` file and compares with its `.out` file.
fn check_pairs(name: &str) {
    let Some(folder) = shared() else { return };
    let path = |end| folder.join(format!("data/vocab/ggml-vocab-{name}.gguf.{end}"));
    let tokenizer = vocabulary(name).unwrap();
    let input = std::fs::read_to_string(path("inp")).unwrap();
    let output = std::fs::read_to_string(path("out")).unwrap();
    let texts: Vec<&str> = input.split("\n__ggml_vocab_test__\n").collect();
    let lines: Vec<&str> = output.lines().collect();
    assert!(texts.len() >= 40 && texts.len() - lines.len() <= 1);
    let mut wrong = Vec::new();
    for (text, line) in texts.iter().zip(&lines) {
        let expected: Vec<u32> = line
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        let actual = tokenizer.encode(text, false, false).unwrap();
        if actual != expected {
            wrong.push(format!(
                "{text:?}\n  expected {expected:?}\n  actual   {actual:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        lines.len(),
        wrong.join("\n")
    );
    println!("{name}: {} pairs", lines.len());
}

#[test]
fn llama_spm_encodes_the_reference_pairs() {
    check_pairs("llama-spm");
}

#[test]
fn phi_3_encodes_the_reference_pairs() {
    check_pairs("phi-3");
}

#[test]
fn llama_bpe_encodes_the_reference_pairs() {
    check_pairs("llama-bpe");
}

#[test]
fn gpt_2_encodes_the_reference_pairs() {
    check_pairs("gpt-2");
}

#[test]
fn qwen2_encodes_the_reference_pairs() {
    check_pairs("qwen2");
}

#[test]
fn deepseek_llm_encodes_the_reference_pairs() {
    check_pairs("deepseek-llm");
}

#[test]
fn bert_bge_encodes_the_reference_pairs() {
    check_pairs("bert-bge");
}

#[test]
fn llama_3_special_tokens_are_parsed_only_on_request() {
    let Some(tokenizer) = cached("llama-bpe") else {
        return;
    };
    assert_eq!(tokenizer.bos(), Some(128_000));
    assert!(tokenizer.adds_bos());
    assert_eq!(tokenizer.vocab_size(), 128_256);
    let ends = ["<|end_of_text|>", "<|eot_id|>"].map(|text| tokenizer.id(text).unwrap());
    assert!(
        ends.iter()
            .all(|id| tokenizer.end_of_generation().contains(id))
    );
    let text = "<|start_header_id|>user";
    let parsed = tokenizer.encode(text, true, true).unwrap();
    assert_eq!(parsed, [128_000, 128_006, 882]);
    let plain = tokenizer.encode(text, false, false).unwrap();
    assert!(plain.len() > 4 && !plain.contains(&128_006));
    assert_eq!(tokenizer.decode(&plain, true), text);
    assert_eq!(tokenizer.decode(&parsed, true), "user");
    assert_eq!(
        tokenizer.decode(&parsed, false),
        "<|begin_of_text|><|start_header_id|>user"
    );
}

/// Qwen 2's vocabulary has `</s>` as ordinary text.
#[test]
fn qwen_2_keeps_html_end_tag_as_text() {
    let Some(tokenizer) = cached("qwen2") else {
        return;
    };
    let ends: Vec<u32> = tokenizer.end_of_generation().iter().copied().collect();
    assert_eq!(ends, [151_643, 151_645]);
    let tokens = tokenizer.encode("</s><|im_end|>", true, true).unwrap();
    assert_eq!(tokenizer.decode(&tokens, true), "</s>");
}

#[test]
fn llama_2_spaces_survive_encoding_and_decoding() {
    let Some(tokenizer) = cached("llama-spm") else {
        return;
    };
    let tokens = tokenizer.encode("Hello world", true, false).unwrap();
    assert_eq!(tokens, [1, 15043, 3186]);
    assert_eq!(tokenizer.decode(&tokens, true), "Hello world");
    // Text that continues a prompt keeps its space.
    let mut detokenizer = tokenizer.detokenizer(true);
    detokenizer.skip(&tokens[..2]);
    assert_eq!(detokenizer.push(3186).as_deref(), Some(" world"));
    assert_eq!(tokenizer.token_bytes(3186), b" world");
    assert_eq!(tokenizer.token_bytes(3 + 0xe4), [0xe4]);
    let special = tokenizer.encode("a</s>b", false, true).unwrap();
    assert_eq!(special, [263, 2, 289]);
    assert!(tokenizer.end_of_generation().contains(&2));
}

/// The greedy output of the small model that the engine is tested on.
#[test]
fn golden_tokens_decode_to_their_text() {
    let Some(folder) = shared() else { return };
    let folder = folder.join("data/models/stories260K");
    let header = Header::read(&std::fs::read(folder.join("stories260K.gguf")).unwrap());
    let tokenizer = Tokenizer::from_gguf(&header).unwrap();
    let golden = std::fs::read_to_string(folder.join("golden.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&golden).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(golden["greedy_tokens"].clone()).unwrap();
    let text = golden["text"].as_str().unwrap();
    assert_eq!(tokenizer.decode(&tokens, true), text);
    let again = tokenizer.encode(text, true, false).unwrap();
    assert_eq!(tokenizer.decode(&again, true), text);
}

#[test]
fn long_texts_round_trip() {
    let words = "The quick brown fox, aged 12345, doesn't jump;  Zażółć gęślą 你好世界 🦊\n";
    let takes_all = std::env::var_os("WISP_TEST_ALL").is_some_and(|value| value == "1");
    let size = if takes_all { 1 << 20 } else { 1 << 18 };
    let cases = [
        words.repeat(size / words.len()),
        "a".repeat(size),
        " ".repeat(size),
        "\n".repeat(size),
        "🦊".repeat(size / "🦊".len()),
    ];
    for name in ["llama-spm", "llama-bpe", "qwen2"] {
        let Some(tokenizer) = cached(name) else {
            return;
        };
        for text in &cases {
            let start = Instant::now();
            let tokens = tokenizer.encode(text, false, false).unwrap();
            let (count, encoding) = (tokens.len(), start.elapsed());
            assert_eq!(&tokenizer.decode(&tokens, false), text, "{name}");
            println!("{name}: {count} tokens, encoded in {encoding:?}");
        }
    }
}

#[test]
fn large_vocabularies_load_without_warnings() {
    let Some(folder) = shared() else { return };
    for name in ["llama-bpe", "llama-spm", "qwen2"] {
        let path = folder.join(format!("data/vocab/ggml-vocab-{name}.gguf"));
        let header = Header::read(&std::fs::read(path).unwrap());
        let start = Instant::now();
        let tokenizer = Tokenizer::from_gguf(&header).unwrap();
        println!(
            "{name}: {} tokens in {:?}",
            tokenizer.vocab_size(),
            start.elapsed()
        );
        assert!(
            tokenizer.warnings().is_empty(),
            "{:?}",
            tokenizer.warnings()
        );
    }
}

/// Returns the concatenated pieces of a stream of tokens.
fn streamed(tokenizer: &Tokenizer, tokens: &[u32], skip_special: bool) -> String {
    rest_of(tokenizer.detokenizer(skip_special), tokens)
}

/// Returns the text of the tokens that follow those of a detokenizer.
fn rest_of(mut detokenizer: Detokenizer, tokens: &[u32]) -> String {
    let pieces = tokens.iter().filter_map(|&token| detokenizer.push(token));
    let mut text: String = pieces.collect();
    text.extend(detokenizer.finish());
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn decoding_returns_the_encoded_text(text in "(\\PC|[ \\t\\r\\n'a-z0-9.]|\\x00){0,60}") {
        for name in ["llama-spm", "llama-bpe", "gpt-2", "qwen2"] {
            let Some(tokenizer) = cached(name) else { return Ok(()) };
            // SPM does not distinguish this character from a space.
            let text = text.replace('▁', "_");
            let tokens = tokenizer.encode(&text, false, false).unwrap();
            prop_assert_eq!(&tokenizer.decode(&tokens, false), &text, "{}", name);
            prop_assert_eq!(&streamed(tokenizer, &tokens, false), &text, "{}", name);
        }
    }

    #[test]
    fn streams_equal_decoding_for_any_tokens(tokens in prop::collection::vec(0u32..160_000, 0..40)) {
        for name in ["llama-spm", "llama-bpe", "gpt-2", "qwen2"] {
            let Some(tokenizer) = cached(name) else { return Ok(()) };
            let bytes: Vec<u32> = tokens.iter().map(|token| token % 259).collect();
            for tokens in [&tokens, &bytes] {
                for skip in [true, false] {
                    let whole = tokenizer.decode(tokens, skip);
                    prop_assert_eq!(streamed(tokenizer, tokens, skip), whole, "{}", name);
                }
            }
        }
    }

    #[test]
    fn skipping_a_prompt_leaves_what_decoding_it_leaves(
        tokens in prop::collection::vec(0u32..160_000, 0..12),
        rest in prop::collection::vec(0u32..259, 0..4),
    ) {
        for name in ["llama-spm", "llama-bpe", "gpt-2", "qwen2"] {
            let Some(tokenizer) = cached(name) else { return Ok(()) };
            let bytes: Vec<u32> = tokens.iter().map(|token| token % 259).collect();
            for prompt in [&tokens, &bytes] {
                for special in [true, false] {
                    let mut skipped = tokenizer.detokenizer(special);
                    skipped.skip(prompt);
                    let mut decoded = tokenizer.detokenizer(special);
                    for token in prompt {
                        decoded.push(*token);
                    }
                    prop_assert_eq!(rest_of(skipped, &rest), rest_of(decoded, &rest), "{}", name);
                }
            }
        }
    }
}
