//! Tokenizers from hand-written metadata: all kinds, unusable values, contradictions.

use super::*;

pub(crate) fn texts(texts: &[&str]) -> Meta {
    Meta::Texts(texts.iter().map(|text| (*text).to_owned()).collect())
}

pub(crate) fn header(model: &str, tokens: &[&str]) -> Header {
    Header::default()
        .with("ggml.model", Meta::Text(model.to_owned()))
        .with("ggml.tokens", texts(tokens))
}

pub(crate) fn bpe() -> Header {
    header("gpt2", &["a", "b", "ab", "Ġ", "Ġa", "<|im_end|>", "é"])
        .with("ggml.pre", Meta::Text("gpt-2".to_owned()))
        .with("ggml.merges", texts(&["a b", "Ġ a"]))
}

pub(crate) fn spm() -> Header {
    let tokens = [
        "<unk>", "<s>", "</s>", "<0x41>", "▁", "a", "▁a", "aa", "▁aa", "<sep>",
    ];
    header("llama", &tokens)
        .with(
            "ggml.scores",
            Meta::Floats((0..10).map(|i| -(i as f32)).collect()),
        )
        .with(
            "ggml.token_type",
            Meta::Ints(vec![2, 3, 3, 6, 1, 1, 1, 1, 1, 4]),
        )
}

#[track_caller]
fn error(header: Header) -> String {
    let error = Tokenizer::from_gguf(&header).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn contradictory_metadata_is_an_error() {
    assert!(error(Header::default()).contains("tokenizer.ggml.model"));
    assert!(error(header("llama", &[])).contains("0 tokens"));
    assert!(error(header("llama", &["a", "b", "a"])).contains("twice"));
    assert!(error(header("rwkv", &["a"])).contains("supported: llama, gpt2"));
    assert!(error(header("plamo2", &["a"])).contains("not supported"));
    let unknown = bpe().with("ggml.pre", Meta::Text("nobody".to_owned()));
    assert!(error(unknown).contains("pre-tokenizer 'nobody'"));
    assert!(error(header("gpt2", &["a"])).contains("tokenizer.ggml.merges"));
    let short = spm().with("ggml.scores", Meta::Floats(vec![0.0]));
    assert!(error(short).contains("1 entries"));
    let short = spm().with("ggml.token_type", Meta::Ints(vec![1]));
    assert!(error(short).contains("token_type"));
    let wrong = spm().with("ggml.tokens", Meta::Int(3));
    assert!(error(wrong).contains("array of strings"));
    for merge in ["ab", "", " ", "a ", " b", "é"] {
        let merge = bpe().with("ggml.merges", texts(&[merge]));
        assert!(error(merge).contains("merges"));
    }
    assert!(error(bpe().with("ggml.merges", texts(&["x y"]))).contains("name no token"));
    let no_bos =
        header("t5", &["<pad>", "</s>", "<unk>"]).with("ggml.add_bos_token", Meta::Bool(true));
    assert!(error(no_bos).contains("BOS"));
}

#[test]
fn unusable_values_are_warnings() {
    let odd = bpe()
        .with("ggml.merges", texts(&["a b", "a z"]))
        .with("ggml.bos_token_id", Meta::Int(99));
    let tokenizer = Tokenizer::from_gguf(&odd).unwrap();
    assert_eq!(tokenizer.warnings().len(), 2, "{:?}", tokenizer.warnings());
    assert_eq!(tokenizer.bos(), None);
    assert_eq!(tokenizer.encode("ab a", false, false).unwrap(), [2, 3, 0]);
    assert_eq!(
        tokenizer
            .end_of_generation()
            .iter()
            .copied()
            .collect::<Vec<_>>(),
        [5]
    );
    // Bytes that the vocabulary lacks are left out, as in llama.cpp; unknown ids have no text.
    assert_eq!(tokenizer.encode("az", false, false).unwrap(), [0]);
    assert_eq!(tokenizer.decode(&[0, 7, u32::MAX, 1], false), "ab");
}

#[test]
fn spm_falls_back_to_bytes_then_to_unknown() {
    let tokenizer = Tokenizer::from_gguf(&spm()).unwrap();
    // ▁a (-6) merges before aa (-7) can; ▁aa (-8) follows.
    assert_eq!(tokenizer.encode("aa", true, false).unwrap(), [1, 8]);
    assert_eq!(tokenizer.encode("Aé", false, false).unwrap(), [4, 3, 0]);
    // A user-defined token always matches, and text after it begins with a space again.
    assert_eq!(
        tokenizer.encode("a<sep>a", false, false).unwrap(),
        [6, 9, 6]
    );
    assert_eq!(tokenizer.encode("</s>", false, true).unwrap(), [2]);
    let plain = spm().with("ggml.add_space_prefix", Meta::Bool(false));
    let tokenizer = Tokenizer::from_gguf(&plain).unwrap();
    // Of two equal scores, the leftmost merges.
    assert_eq!(tokenizer.encode("aaa", false, false).unwrap(), [7, 5]);
    assert_eq!(tokenizer.decode(&[6], false), " a");
}

#[test]
fn wordpiece_takes_the_longest_match() {
    let tokens = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "able", "▁a", "▁!", "a",
    ];
    let bert = header("bert", &tokens)
        .with(
            "ggml.token_type",
            Meta::Ints(vec![3, 2, 3, 3, 1, 1, 1, 1, 1]),
        )
        .with("ggml.bos_token_id", Meta::Int(2))
        .with("ggml.seperator_token_id", Meta::Int(3))
        .with("ggml.unknown_token_id", Meta::Int(1));
    let tokenizer = Tokenizer::from_gguf(&bert).unwrap();
    assert_eq!(
        tokenizer.encode("Unable! xyz À", true, false).unwrap(),
        [2, 4, 5, 7, 1, 6, 3]
    );
    assert_eq!(tokenizer.decode(&[2, 4, 5, 7, 3], true), "unable !");
    // A long word is neither slow nor truncated.
    assert_eq!(
        tokenizer
            .encode(&"a".repeat(100_000), false, false)
            .unwrap()
            .len(),
        100_000
    );
    assert_eq!(
        tokenizer
            .encode(&"un".repeat(100_000), false, false)
            .unwrap(),
        [1]
    );
}

#[test]
fn unigram_chooses_the_most_probable_pieces() {
    let tokens = ["<pad>", "</s>", "<unk>", "▁", "▁a", "b", "▁ab", "c"];
    let scores = [0.0, 0.0, 0.0, -3.0, -2.0, -2.0, -5.0, -1.0];
    let t5 = header("t5", &tokens)
        .with("ggml.scores", Meta::Floats(scores.to_vec()))
        .with("ggml.token_type", Meta::Ints(vec![3, 3, 2, 1, 1, 1, 1, 1]))
        .with("ggml.add_space_prefix", Meta::Bool(true))
        .with("ggml.remove_extra_whitespaces", Meta::Bool(true));
    let tokenizer = Tokenizer::from_gguf(&t5).unwrap();
    assert_eq!(
        tokenizer.encode("  ab   c ", true, false).unwrap(),
        [4, 5, 3, 7, 1]
    );
    assert_eq!(tokenizer.encode("xyz", false, false).unwrap(), [3, 2]);
    assert_eq!(tokenizer.decode(&[4, 5, 3, 7, 1], true), "ab c");
    let bytes = |bytes: &[u8]| Meta::Ints(bytes.iter().map(|&byte| byte.into()).collect());
    let short = t5
        .clone()
        .with("ggml.precompiled_charsmap", bytes(&[9, 0, 0, 0, 1]));
    assert!(error(short).contains("double array"));
    // A table whose root points past its end is an error when it is used.
    let past = [&[4, 0, 0, 0][..], &[0xff; 4], b"x\0"].concat();
    let past = t5.with("ggml.precompiled_charsmap", bytes(&past));
    let tokenizer = Tokenizer::from_gguf(&past).unwrap();
    assert!(tokenizer.encode("a", false, false).is_err());
}

#[test]
fn gemma_4_is_bpe_on_plain_text() {
    let tokens = [
        "<pad>", "<bos>", "▁", "a", "▁a", "\n\n", "\n", "<0xC3>", "<0xA9>",
    ];
    let gemma = header("gemma4", &tokens)
        .with("ggml.merges", texts(&["▁ a", "\n \n"]))
        .with(
            "ggml.token_type",
            Meta::Ints(vec![3, 3, 1, 1, 1, 1, 1, 6, 6]),
        )
        .with("ggml.bos_token_id", Meta::Int(1));
    let tokenizer = Tokenizer::from_gguf(&gemma).unwrap();
    let tokens = tokenizer.encode("a a\n\né", true, false).unwrap();
    assert_eq!(tokens, [1, 3, 4, 5, 7, 8]);
    assert_eq!(tokenizer.decode(&tokens, true), "a a\n\né");
}

#[test]
fn harmony_message_tokens_are_visible() {
    let harmony = header(
        "gpt2",
        &[
            "<|return|>",
            "<|call|>",
            "<|end|>",
            "<|message|>",
            "a",
            "b",
            "ab",
        ],
    )
    .with("ggml.pre", Meta::Text("gpt-4o".to_owned()))
    .with("ggml.merges", texts(&["a b"]))
    .with("ggml.eos_token_id", Meta::Int(0));
    let tokenizer = Tokenizer::from_gguf(&harmony).unwrap();
    assert_eq!(
        tokenizer
            .end_of_generation()
            .iter()
            .copied()
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(
        tokenizer.decode(&[0, 1, 2, 3, 6], true),
        "<|end|><|message|>ab"
    );
}

#[test]
fn chat_templates_are_found_by_name() {
    let named = bpe()
        .with("chat_template", Meta::Text("one".to_owned()))
        .with("chat_template.tool_use", Meta::Text("two".to_owned()));
    let tokenizer = Tokenizer::from_gguf(&named).unwrap();
    assert_eq!(tokenizer.chat_template(None), Some("one"));
    assert_eq!(tokenizer.chat_template(Some("tool_use")), Some("two"));
    assert_eq!(tokenizer.chat_template_names().count(), 2);
}

proptest! {
    /// Loading and using any metadata ends with a result.
    #[test]
    fn random_metadata_never_panics(
        model in "llama|gpt2|bert|t5|gemma4",
        tokens in prop::collection::vec("(▁|Ġ|<0x[0-9A-F]{2}>|[a-c<>s|]){0,3}", 0..20),
        merges in prop::collection::vec("[a-c▁Ġ ]{0,5}", 0..6),
        types in prop::collection::vec(-1i64..9, 0..24),
        scores in prop::collection::vec(prop::num::f32::ANY, 0..24),
        table in prop::collection::vec(any::<i64>(), 0..40),
        ids in prop::collection::vec(any::<i64>(), 4),
        text in "[ -~▁é\\n]{0,20}",
    ) {
        let mut header = header(&model, &[]).with("ggml.tokens", Meta::Texts(tokens))
            .with("ggml.merges", Meta::Texts(merges))
            .with("ggml.pre", Meta::Text("default".to_owned()))
            .with("ggml.token_type", Meta::Ints(types))
            .with("ggml.scores", Meta::Floats(scores))
            .with("ggml.precompiled_charsmap", Meta::Ints(table));
        for (key, id) in ["bos", "eos", "unknown", "eot"].iter().zip(ids) {
            header = header.with(&format!("ggml.{key}_token_id"), Meta::Int(id % 24));
        }
        if let Ok(tokenizer) = Tokenizer::from_gguf(&header) {
            for parse in [true, false] {
                if let Ok(tokens) = tokenizer.encode(&text, true, parse) {
                    tokenizer.decode(&tokens, parse);
                }
            }
        }
    }
}
