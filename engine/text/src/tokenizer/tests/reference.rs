//! Encoding equals that of the `tokenizers` crate, whose components are put together here.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tokenizer::{HuggingFaceFiles, Tokenizer};

const CHARACTERS: &str = "abcdeABC 12.,!é▁<>\u{fdfa}中\u{301}\n\t";

/// Vocabularies of all characters that the texts have, in the three common forms.
fn model(kind: &str) -> Value {
    let characters: Vec<String> = CHARACTERS.chars().map(String::from).collect();
    let mut vocab: Vec<String> = characters.clone();
    match kind {
        "BPE" => {
            vocab.extend(["ab", "abc", "▁a", "▁ab", "[UNK]"].map(String::from));
            json!({"type": "BPE", "vocab": numbered(&vocab), "unk_token": "[UNK]", "fuse_unk": true,
                "merges": [["a", "b"], ["▁", "a"], ["ab", "c"], ["▁", "ab"]]})
        }
        "WordPiece" => {
            vocab.extend(characters.iter().map(|character| format!("##{character}")));
            vocab.extend(["ab", "##bc", "[UNK]"].map(String::from));
            json!({"type": "WordPiece", "vocab": numbered(&vocab), "unk_token": "[UNK]",
                "continuing_subword_prefix": "##", "max_input_chars_per_word": 20})
        }
        _ => {
            vocab.insert(0, "<unk>".to_owned());
            vocab.extend(["ab", "▁a", "bc"].map(String::from));
            let pieces = vocab.iter().enumerate();
            let pieces = pieces.map(|(id, piece)| json!([piece, -(id as f64) / 7.0]));
            json!({"type": "Unigram", "unk_id": 0, "vocab": pieces.collect::<Vec<_>>()})
        }
    }
}

fn numbered(vocab: &[String]) -> Value {
    let tokens = vocab.iter().enumerate();
    tokens
        .map(|(id, token)| (token.clone(), id.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn normalizers() -> Vec<Value> {
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    let bert = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
        "strip_accents": null, "lowercase": true});
    let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
    let strip = json!({"type": "Strip", "strip_left": false, "strip_right": true});
    vec![
        Value::Null,
        json!({"type": "Sequence", "normalizers": [prepend, replace]}),
        bert,
        json!({"type": "Sequence", "normalizers": [{"type": "NFKC"}, spaces, {"type": "Lowercase"}, strip]}),
    ]
}

fn pre_tokenizers() -> Vec<Value> {
    let split = json!({"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s+(?!\\S)|\\s+|[^\\s\\p{L}]+"},
        "behavior": "Isolated", "invert": false});
    let inverted = json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "MergedWithPrevious", "invert": true});
    let digits = json!({"type": "Digits", "individual_digits": true});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    vec![
        Value::Null,
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}),
        json!({"type": "BertPreTokenizer"}),
        json!({"type": "Sequence", "pretokenizers": [split, digits, inverted]}),
        bytes,
    ]
}

fn post_processors() -> Vec<Value> {
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let token = json!({"SpecialToken": {"id": "a", "type_id": 0}});
    vec![
        Value::Null,
        json!({"type": "BertProcessing", "cls": ["a", 0], "sep": ["b", 1]}),
        json!({"type": "TemplateProcessing", "single": [token, text, token], "pair": [text],
            "special_tokens": {"a": {"id": "a", "ids": [2, 3], "tokens": ["a", "b"]}}}),
    ]
}

/// Added tokens that take spaces, match whole words, and are searched before or after normalization.
fn added() -> Value {
    let token = |id: u32, content: &str, flags: [bool; 4], special: bool| {
        let [single_word, lstrip, rstrip, normalized] = flags;
        json!({"id": id, "content": content, "single_word": single_word, "lstrip": lstrip,
            "rstrip": rstrip, "normalized": normalized, "special": special})
    };
    json!([
        token(200, "<e>", [false; 4], true),
        token(201, "<a>", [false, true, true, false], true),
        token(202, "AB", [false, false, false, true], false),
        token(203, "bc", [true, false, false, false], false),
        token(204, "<>", [false, true, false, true], false),
        token(205, "1", [false, false, true, false], false),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn encoding_equals_that_of_the_crate(
        kind in prop::sample::select(vec!["BPE", "WordPiece", "Unigram"]),
        normalizer in prop::sample::select(normalizers()),
        pre_tokenizer in prop::sample::select(pre_tokenizers()),
        post_processor in prop::sample::select(post_processors()),
        with_added in any::<bool>(),
        text in prop::collection::vec(prop::sample::select(vec![
            "a", "ab", "abc", "b", "c", " ", "  ", "\n", "1", "2", "AB", "bc", "<e>", "<a>", "<>", "<",
            ">", "é", "e\u{301}", "\u{fdfa}", "中", "▁", ".", "!", "C", "\t", "x",
        ]), 0..24),
        add_special in any::<bool>(),
        parse_special in any::<bool>(),
    ) {
        let added = if with_added { added() } else { json!([]) };
        let json = json!({"version": "1.0", "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": null,
            "model": model(kind)});
        let json = json.to_string();
        let text = text.concat();
        let files = HuggingFaceFiles { tokenizer: json.as_bytes(), ..HuggingFaceFiles::default() };
        let own = Tokenizer::from_files(&files).unwrap();
        let mut reference = tokenizers::Tokenizer::from_bytes(&json).unwrap();
        reference.set_encode_special_tokens(!parse_special);
        let expected = reference.encode_fast(text.as_str(), add_special).unwrap();
        prop_assert_eq!(own.encode(&text, add_special, parse_special).unwrap(), expected.get_ids());
        prop_assert_eq!(own.vocab_size(), reference.get_vocab_size(true));
    }
}
