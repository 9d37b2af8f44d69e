//! Converts tokenizers of every kind to GGUF and back.

use proptest::prelude::*;
use serde_json::{Map, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};

use serde_json::Value as Json;
use wisp_text::tokenizer::{
    Tokenizer,
    pre_tokenizers::{PRE_TOKENIZERS, PreTokenizer},
};
use wisp_weights::{
    Checkpoint,
    gguf::{GgufHeaderBuilder, Value},
};

use super::{
    keys::{Keys, text},
    probes::PROBES,
    source::Source,
};
use crate::model_files;

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A tokenizer, its keys and tokenizer in GGUF, and the notes about it.
struct Converted {
    original: Tokenizer,
    back: Result<(Keys, Tokenizer), String>,
    notes: Vec<String>,
}

fn convert(json: &Json, config: &Json, padding: usize) -> Converted {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    std::fs::write(
        folder.path().join("tokenizer_config.json"),
        config.to_string(),
    )
    .unwrap();
    let original = Tokenizer::from_dir(folder.path()).unwrap();
    let size = original.vocab_size() + padding;
    let mut notes = Vec::new();
    let source = Source::new(&original, folder.path(), size as u64);
    let keys = source.gguf_keys(&GgufHeaderBuilder::default(), &mut notes);
    let back = keys.map(|keys| {
        let mut header = GgufHeaderBuilder::default();
        for (key, value) in &keys {
            header.key(&format!("tokenizer.{key}"), value.clone());
        }
        let checkpoint = Checkpoint::from_bytes("vocabulary", header.bytes()).unwrap();
        (keys, model_files::tokenizer(&checkpoint).unwrap())
    });
    Converted {
        original,
        back,
        notes,
    }
}

impl Converted {
    #[track_caller]
    fn key(&self, key: &str) -> Option<&Value> {
        let (keys, _) = self.back.as_ref().unwrap();
        keys.iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    #[track_caller]
    fn pre(&self) -> &str {
        match self.key("ggml.pre") {
            Some(Value::String(pre)) => pre,
            other => panic!("{other:?}"),
        }
    }

    /// Checks that both tokenizers give the same tokens for arbitrary texts.
    #[track_caller]
    fn same_tokens(&self, text: impl Strategy<Value = String>) {
        let (_, back) = self.back.as_ref().unwrap();
        proptest!(ProptestConfig::with_cases(400), |(text in text)| {
            for (add, parse) in [(true, true), (true, false), (false, false)] {
                prop_assert_eq!(
                    back.encode(&text, add, parse).unwrap(),
                    self.original.encode(&text, add, parse).unwrap()
                );
            }
        });
    }
}

/// Pieces of the probes in any order, characters of the probes, or characters of many scripts.
fn texts() -> impl Strategy<Value = String> {
    let chars: Vec<char> = PROBES.concat().chars().collect();
    let pieces: Vec<&str> = PROBES
        .iter()
        .flat_map(|text| text.split_inclusive(' '))
        .collect();
    prop_oneof![
        prop::collection::vec(prop::sample::select(pieces), 0..12)
            .prop_map(|pieces| pieces.concat()),
        prop::collection::vec(prop::sample::select(chars), 0..40).prop_map(String::from_iter),
        // Composed characters that every version of Unicode assigns.
        "[ -~\\n\\t¡-ÿĀ-ſЀ-я一-龥ぁ-ゖ가-힣]{0,60}",
    ]
}

fn added(tokens: &[(&str, bool)], first: usize) -> Json {
    let token = |(i, (text, special)): (usize, &(&str, bool))| {
        json!({"id": first + i, "content": text, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": special})
    };
    tokens.iter().enumerate().map(token).collect()
}

/// A byte-level tokenizer, trained on the probes and a corpus.
fn byte_level(pre_tokenizer: Json, ignore_merges: bool) -> Json {
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(600)
        .initial_alphabet(
            tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
                .into_iter()
                .collect(),
        )
        .build();
    let pre: tokenizers::PreTokenizerWrapper =
        serde_json::from_value(pre_tokenizer.clone()).unwrap();
    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(pre));
    let mut texts: Vec<String> = PROBES.iter().map(|text| text.to_string()).collect();
    texts.extend(
        include_str!("../../../../../native-demo/model/corpus_sample.txt")
            .lines()
            .map(str::to_string),
    );
    let mut trained = tokenizer.clone();
    let mut wrapped = tokenizers::models::TrainerWrapper::BpeTrainer(trainer);
    trained.train(&mut wrapped, texts.into_iter()).unwrap();
    let mut json: Json = serde_json::from_str(&trained.to_string(false).unwrap()).unwrap();
    let size = trained.get_vocab_size(true);
    json["model"]["ignore_merges"] = ignore_merges.into();
    json["added_tokens"] = added(
        &[("<|begin|>", true), ("<|end|>", true), ("<tool>", false)],
        size,
    );
    json
}

fn split(pattern: &str) -> Json {
    json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})
}

fn gpt_2() -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})
}

fn config() -> Json {
    json!({"bos_token": "<|begin|>", "eos_token": "<|end|>", "add_bos_token": true,
        "chat_template": [{"name": "default", "template": "one"}, {"name": "rag", "template": "two"}]})
}

#[test]
fn byte_level_tokenizers_keep_their_pre_tokenizers() {
    let digits = json!({"type": "Sequence", "pretokenizers":
        [{"type": "Digits", "individual_digits": true}, gpt_2()]});
    for (pre_tokenizer, ignore_merges, pre) in [
        (gpt_2(), false, "gpt-2"),
        (split(LLAMA_3), true, "llama-bpe"),
        (split(LLAMA_3), false, "dbrx"),
        (split(QWEN_2), false, "qwen2"),
        (digits, false, "starcoder"),
    ] {
        let converted = convert(&byte_level(pre_tokenizer, ignore_merges), &config(), 5);
        assert_eq!(converted.pre(), pre);
        assert_eq!(converted.notes, [""; 0]);
        converted.same_tokens(texts());
        let (_, back) = converted.back.as_ref().unwrap();
        let original = &converted.original;
        assert_eq!(back.vocab_size(), original.vocab_size() + 5);
        assert_eq!((back.bos(), back.adds_bos()), (original.bos(), true));
        assert_eq!(back.end_of_generation(), original.end_of_generation());
        assert_eq!(back.eos(), original.eos());
        assert_eq!(back.chat_template(None), Some("one"));
        assert_eq!(back.chat_template(Some("rag")), Some("two"));
        for text in ["a<|end|>b", "<tool>x <|begin|>"] {
            for parse in [true, false] {
                assert_eq!(
                    back.encode(text, true, parse).unwrap(),
                    original.encode(text, true, parse).unwrap()
                );
            }
        }
    }
}

/// `<|end|>` ends the text. The others are listed by their ids, which do not tell their roles.
#[test]
fn ends_of_turns_and_messages_are_found_by_their_texts() {
    for (texts, eot, eom, lost) in [
        (["<|eom_id|>", "<|odd|>", "<|eot_id|>"], 2, 0, 1),
        (["<|odd|>", "<|im_end|>", "<|eom_id|>"], 1, 2, 0),
        (["<|odd|>", "<|even|>", "<end_of_turn>"], 2, 0, 1),
    ] {
        let mut json = byte_level(gpt_2(), false);
        let end = json["added_tokens"][1]["id"].as_u64().unwrap();
        let first = end + 2;
        let more = added(&texts.map(|text| (text, true)), first as usize);
        let tokens = json["added_tokens"].as_array_mut().unwrap();
        tokens.extend(more.as_array().unwrap().iter().cloned());
        let folder = tempfile::tempdir().unwrap();
        let ends: Vec<u64> = [end].into_iter().chain(first..first + 3).collect();
        for (name, content) in [
            ("tokenizer.json", json),
            ("tokenizer_config.json", config()),
            ("generation_config.json", json!({"eos_token_id": ends})),
        ] {
            std::fs::write(folder.path().join(name), content.to_string()).unwrap();
        }
        let original = Tokenizer::from_dir(folder.path()).unwrap();
        assert_eq!(original.end_of_generation().len(), 4);
        let source = Source::new(&original, folder.path(), original.vocab_size() as u64);
        let mut notes = Vec::new();
        let keys = source
            .gguf_keys(&GgufHeaderBuilder::default(), &mut notes)
            .unwrap();
        let id = |key: &str| {
            let found = keys.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone())
        };
        let expected = |at: u64| Some(Value::U32((first + at) as u32));
        assert_eq!(id("ggml.eot_token_id"), expected(eot), "{texts:?}");
        assert_eq!(id("ggml.eom_token_id"), expected(eom), "{texts:?}");
        let lost = texts[lost];
        let note = format!("these tokens end generation in the original only: {lost}");
        assert_eq!(notes, [note], "{texts:?}");
    }
}

#[test]
fn unknown_pre_tokenizers_and_normalizers_are_refused() {
    let odd = split(r"\p{L}{1,4}|\p{N}{1,2}|\s+|[^\s\p{L}\p{N}]");
    let problem = convert(&byte_level(odd, false), &config(), 0)
        .back
        .err()
        .unwrap();
    assert!(problem.contains("pre-tokenizer"), "{problem}");
    let mut lower = byte_level(gpt_2(), false);
    lower["normalizer"] = json!({"type": "Lowercase"});
    let problem = convert(&lower, &config(), 0).back.err().unwrap();
    assert!(problem.contains("same tokens"), "{problem}");
    let mut composed = byte_level(gpt_2(), false);
    composed["normalizer"] = json!({"type": "NFC"});
    let notes = convert(&composed, &config(), 0).notes;
    assert!(notes[0].contains("NFC"), "{notes:?}");
}

/// The probes distinguish every two rows of the table that split differently.
#[test]
fn probes_distinguish_pre_tokenizers() {
    let rows = PRE_TOKENIZERS.iter().filter(|rules| rules.byte_level);
    let splits = rows.map(|rules| {
        let splitter = PreTokenizer::new(rules).unwrap();
        let words: Vec<Vec<&str>> = PROBES.iter().map(|text| splitter.split(text)).collect();
        (rules, words)
    });
    let splits: Vec<_> = splits.collect();
    // Equal expressions with other rules about merges, or equivalent ones.
    let twins = [
        ("dbrx", "llama-bpe"),
        ("bailingmoe", "qwen2"),
        ("granite-embed-multi-97m", "gpt-4o"),
    ];
    let mut alike = Vec::new();
    for (i, (a, words)) in splits.iter().enumerate() {
        for (b, others) in &splits[..i] {
            if words == others {
                alike.push((a.names[0], b.names[0]));
            }
        }
    }
    assert_eq!(alike, twins);
}

/// Llama 2's kind: merges with scores, a space before every text, byte fallback.
fn sentence_piece(prepend: bool) -> Json {
    let mut vocab = Map::new();
    let mut add = |token: String| {
        let id = vocab.len();
        vocab.entry(token).or_insert(id.into());
    };
    ["<unk>", "<s>", "</s>"]
        .map(String::from)
        .into_iter()
        .for_each(&mut add);
    (0..256)
        .map(|byte| format!("<0x{byte:02X}>"))
        .for_each(&mut add);
    let merges = [
        "▁ t",
        "h e",
        "▁t he",
        "▁ ▁",
        "i n",
        "▁▁ ▁▁",
        "o n",
        "▁ f",
        "▁f o",
        "▁fo x",
        "in g",
        "a n",
        "an d",
        "▁ and",
    ];
    let chars: std::collections::BTreeSet<char> = PROBES[1]
        .chars()
        .chain("▁abcdefghijklmnopqrstuvwxyz\n".chars())
        .filter(|c| *c != ' ')
        .collect();
    let chars: Vec<String> = chars.into_iter().map(String::from).collect();
    merges
        .iter()
        .map(|merge| merge.replace(' ', ""))
        .for_each(&mut add);
    chars.into_iter().for_each(&mut add);
    let mut normalizers =
        vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    if prepend {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
    }
    json!({"version": "1.0", "added_tokens": added(&[("<unk>", true), ("<s>", true), ("</s>", true)], 0),
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": vocab, "merges": merges}})
}

#[test]
fn sentence_piece_merges_become_scores() {
    for prepend in [true, false] {
        let config = json!({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"});
        let converted = convert(&sentence_piece(prepend), &config, 0);
        assert_eq!(converted.key("ggml.model"), Some(&text("llama")));
        assert_eq!(
            converted.key("ggml.add_space_prefix"),
            Some(&Value::Bool(prepend))
        );
        assert_eq!(
            converted.key("ggml.add_bos_token"),
            Some(&Value::Bool(true))
        );
        converted.same_tokens(texts());
        converted.same_tokens("[the infoxadg]{0,40}");
    }
}

#[test]
fn unigram_pieces_keep_their_scores() {
    let mut pieces = vec![
        json!(["<s>", 0.0]),
        json!(["<pad>", 0.0]),
        json!(["</s>", 0.0]),
        json!(["<unk>", 0.0]),
    ];
    for (i, piece) in [
        "▁", "▁the", "he", "t", "h", "e", "o", "▁fox", "f", "x", "in", "i", "n", "ing", "g",
    ]
    .iter()
    .enumerate()
    {
        pieces.push(json!([piece, -1.5 - i as f64 / 4.0]));
    }
    let json = json!({"version": "1.0",
        "added_tokens": added(&[("<s>", true), ("<pad>", true), ("</s>", true), ("<unk>", true)], 0),
        "normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}]},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
            "trim_offsets": true, "add_prefix_space": false},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": false}});
    let config = json!({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"});
    let converted = convert(&json, &config, 0);
    if let Err(problem) = &converted.back {
        // It splits at Unicode's white space, but GGUF at spaces.
        assert!(problem.contains("same tokens"), "{problem}");
    }
}

#[test]
fn word_pieces_are_marked_where_words_begin() {
    let mut vocab = Map::new();
    for token in [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "##es", "jump", "##ing", "##s",
        "f", "##o", "!", ",",
    ] {
        let id = vocab.len();
        vocab.insert(token.into(), id.into());
    }
    let json = json!({"version": "1.0",
        "added_tokens": added(&[("[PAD]", true), ("[UNK]", true), ("[CLS]", true), ("[SEP]", true), ("[MASK]", true)], 0),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab}});
    let config = json!({"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"});
    let converted = convert(&json, &config, 0);
    converted.same_tokens(texts());
    converted.same_tokens("[the foxes jumping!,]{0,40}");
}
