//! Files `tokenizer.json` that try to panic, to hang or to use up memory.

use serde_json::{Value, json};
use wisp_engine::pipelines::tokenizer::{HuggingFaceFiles, Tokenizer};
use wisp_tests::fault;

/// Returns a small valid `tokenizer.json` with another component.
fn with(component: &str, value: Value) -> Value {
    let mut json = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<unk>": 3, " ": 4},
            "merges": ["a b"], "unk_token": "<unk>"},
    });
    json[component] = value;
    json
}

fn load(json: &Value) -> Result<Tokenizer, String> {
    let text = json.to_string();
    fault::call_limited(move || {
        let files = HuggingFaceFiles {
            tokenizer: text.as_bytes(),
            ..HuggingFaceFiles::default()
        };
        Tokenizer::from_files(&files).map_err(|error| error.to_string())
    })
}

/// Encodes and decodes texts of several kinds; only an error or an answer in time is right.
fn try_texts(json: &Value) -> Vec<Result<usize, String>> {
    let Ok(tokenizer) = load(json) else {
        return Vec::new();
    };
    let texts = [
        String::new(),
        "a".to_owned(),
        "Hello, wörld! ßa <x>\n\t 12".to_owned(),
        "\u{0}\u{1}a\u{300}\u{200d}\u{10ffff}\u{fdfa}".to_owned(),
        "a".repeat(20_000),
        " ".repeat(20_000),
        "\u{fdfa}a b".repeat(1_000),
    ];
    let results = texts.map(|text| {
        let tokenizer = tokenizer.clone();
        fault::call_limited(move || {
            let tokens = tokenizer
                .encode(&text, true, true)
                .map_err(|error| error.to_string())?;
            Ok(tokenizer.decode(&tokens, false).len().max(tokens.len()))
        })
    });
    results.into_iter().collect()
}

/// Checks that a component is refused at load, by its name.
#[track_caller]
fn assert_refused(component: &str, values: &[Value]) {
    for value in values {
        let Err(error) = load(&with(component, value.clone())) else {
            panic!("accepted: {:.100}", value.to_string());
        };
        assert!(
            error.contains("tokenizer.json") && error.len() < 600,
            "{:.100}: {error}",
            value.to_string()
        );
    }
}

/// Checks that a component is refused at load, or that texts are encoded or refused in time.
#[track_caller]
fn assert_bounded(component: &str, values: &[Value]) {
    for value in values {
        for size in try_texts(&with(component, value.clone()))
            .into_iter()
            .flatten()
        {
            assert!(size < 50_000_000, "{value:.100}: {size}");
        }
    }
}

/// A character map of SentencePiece as base64.
fn charsmap(array: &[u32], replacements: &[u8]) -> Value {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = (array.len() as u32 * 4).to_le_bytes().to_vec();
    bytes.extend(array.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes.extend(replacements);
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() {
                '='
            } else {
                digit.into()
            });
        }
    }
    json!({"type": "Precompiled", "precompiled_charsmap": text})
}

#[test]
fn bad_character_map_is_refused() {
    // A state for each byte, whose replacement begins behind the text or in a character.
    let block = |value: u32| {
        let mut array = vec![0; 512];
        array[0] = 256 << 10;
        array[256] = value;
        for byte in 1..256 {
            array[256 + byte] = byte as u32 | 1 << 8 | (byte as u32) << 10;
        }
        array
    };
    assert_refused(
        "normalizer",
        &[
            json!({"type": "Precompiled", "precompiled_charsmap": ""}),
            json!({"type": "Precompiled", "precompiled_charsmap": "!!!"}),
            json!({"type": "Precompiled", "precompiled_charsmap": null}),
            json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
            charsmap(&[], b""),
            charsmap(&[u32::MAX], b"x\0"),
            charsmap(&[0x7fff_ffff; 256], b"x\0"),
            charsmap(&[0; 256], &[0xff, 0]),
            charsmap(&block(9), b"abc\0"),
            charsmap(&block(1), "éa\0".as_bytes()),
            charsmap(&block(0), "z".repeat(100_000).as_bytes()),
        ],
    );
    // A valid one is used: every ASCII character becomes "b".
    let results = try_texts(&with("normalizer", charsmap(&block(0), b"b\0")));
    assert!(
        results.len() > 3 && results.iter().all(Result::is_ok),
        "{results:?}"
    );
}

#[test]
fn empty_pattern_of_a_normalizer_is_refused() {
    let replace = |pattern| json!({"type": "Replace", "pattern": pattern, "content": "x"});
    let mut refused = vec![replace(json!({"String": ""})), replace(json!({}))];
    for expression in ["", "a*", "b*|", "^", "$", "(?!b)", "\\B", "a??"] {
        refused.push(replace(json!({"Regex": expression})));
    }
    assert_refused("normalizer", &refused);
    // These match the empty string in some places only.
    for expression in ["(?=a)", "\\b", "(?<=a)", "(?=a)|b"] {
        assert_bounded("normalizer", &[replace(json!({"Regex": expression}))]);
    }
}

#[test]
fn text_that_grows_in_a_normalizer_is_stopped() {
    let sixteen = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(16)});
    let any = json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "aaaaaaaa"});
    let wide =
        json!({"type": "Replace", "pattern": {"String": "a"}, "content": "\u{fdfa}".repeat(80)});
    let chain = |steps: &[&Value]| json!({"type": "Sequence", "normalizers": steps});
    for normalizer in [chain(&[&sixteen; 12]), chain(&[&any; 12])] {
        let results = try_texts(&with("normalizer", normalizer));
        let error = results[1].as_ref().unwrap_err();
        assert!(error.contains("normalizer makes more than"), "{error}");
    }
    let bytes = json!({"type": "ByteLevel"});
    let nfkd = json!({"type": "NFKD"});
    assert_bounded(
        "normalizer",
        &[
            chain(&[&wide, &nfkd, &wide, &nfkd]),
            chain(&[&bytes; 30]),
            chain(&[&json!({"type": "Prepend", "prepend": "a".repeat(256)}); 30]),
        ],
    );
    assert_refused(
        "normalizer",
        &[
            json!({"type": "Prepend", "prepend": "a".repeat(1_000_000)}),
            json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(1_000_000)}),
        ],
    );
}

#[test]
fn unknown_or_endless_components_are_refused() {
    for (component, list) in [
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("post_processor", "processors"),
    ] {
        let mut deep = json!({"type": "Sequence", list: []});
        for _ in 0..60 {
            deep = json!({"type": "Sequence", list: [deep]});
        }
        let wide = json!({"type": "Sequence", list: vec![json!({"type": "ByteLevel"}); 20_000]});
        assert_refused(
            component,
            &[json!({"type": "Unknown"}), json!(1), deep, wide],
        );
    }
}

#[test]
fn bad_pre_tokenizer_is_refused() {
    let split = |expression: &str| json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Removed", "invert": false});
    let many = |kind: Value| json!({"type": "Sequence", "pretokenizers": vec![kind; 30]});
    assert_refused(
        "pre_tokenizer",
        &[
            json!({"type": "FixedLength", "length": 0}),
            json!({"type": "FixedLength", "length": -1}),
            split(""),
            split("["),
            split("a*"),
            split("(?:(?:a{1000}){1000}){1000}"),
            split(&("(".repeat(5000) + "a" + &")".repeat(5000))),
            split(&"a".repeat(100_000)),
            many(
                json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false}),
            ),
            many(
                json!({"type": "Metaspace", "replacement": "a", "prepend_scheme": "always", "split": true}),
            ),
        ],
    );
    assert_bounded(
        "pre_tokenizer",
        &[
            json!({"type": "FixedLength", "length": 1}),
            json!({"type": "FixedLength", "length": usize::MAX}),
            json!({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": false}),
        ],
    );
}

#[test]
fn expression_that_backtracks_without_end_is_stopped() {
    for expression in [
        "(a+)+b",
        "(a*)*\\1b|a",
        "(?:(?:a|a){19}(?=b)|a)",
        "(?:a?){64}a{64}(?!x)|a",
        "(?<=a)(?:(?:a|aa)+)+(?=c)|a",
    ] {
        let split = json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false});
        assert_bounded("pre_tokenizer", &[split]);
        let replace = json!({"type": "Replace", "pattern": {"Regex": expression}, "content": "b"});
        assert_bounded("normalizer", &[replace]);
    }
}

#[test]
fn inconsistent_model_is_refused() {
    let bpe = |key: &str, value: Value| {
        let mut model = with("version", json!("1.0"))["model"].clone();
        model[key] = value;
        model
    };
    let wordpiece = |key: &str, value: Value| {
        let mut model = json!({"type": "WordPiece", "vocab": {"a": 0, "##a": 1, "[UNK]": 2}, "unk_token": "[UNK]",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 100});
        model[key] = value;
        model
    };
    let unigram = |vocab: Value, unknown: Value| json!({"type": "Unigram", "vocab": vocab, "unk_id": unknown});
    let accented = json!({"type": "BPE", "vocab": {"a": 0, "é": 1, "aé": 2}, "merges": ["a é"], "continuing_subword_prefix": "#"});
    let nested: Vec<Value> = (1..1000)
        .map(|length| json!(["a".repeat(length), -1.0]))
        .collect();
    assert_refused(
        "model",
        &[
            accented,
            bpe("continuing_subword_prefix", json!("x".repeat(1_000_000))),
            bpe("end_of_word_suffix", json!("x".repeat(1_000_000))),
            bpe("merges", json!(["ab ab"])),
            bpe("merges", json!(["a c"])),
            bpe("dropout", json!(2.0)),
            bpe("vocab", json!({"a": 4_294_967_295_u32, "b": 1, "ab": 2})),
            wordpiece("max_input_chars_per_word", json!(1_000_000_000_000_u64)),
            wordpiece("continuing_subword_prefix", json!("#".repeat(100_000))),
            unigram(json!([["<unk>", 0.0], ["", -1.0], ["a", -2.0]]), json!(0)),
            unigram(json!([["a", 0.0]]), json!(9)),
            unigram(json!([]), json!(0)),
            unigram(json!(nested), json!(0)),
            json!({}),
        ],
    );
    assert_bounded(
        "model",
        &[
            bpe("vocab", json!({"a": 0, "b": 0, "ab": 0})),
            bpe("unk_token", json!("missing")),
            wordpiece("unk_token", json!("missing")),
            wordpiece("vocab", json!({"": 0, "##": 1})),
            unigram(json!([["a", 0.0]]), Value::Null),
            json!({"type": "BPE", "vocab": {}, "merges": []}),
        ],
    );
}

#[test]
fn dropout_of_training_does_not_change_tokens() {
    let mut json = with("version", json!("1.0"));
    json["model"]["dropout"] = json!(1.0);
    let tokenizer = load(&json).unwrap();
    assert_eq!(tokenizer.encode("ababab", false, true).unwrap(), [2, 2, 2]);
    assert!(tokenizer.warnings()[0].contains("dropout"));
}

#[test]
fn added_tokens_take_linear_time() {
    let token = |content: &str| {
        json!({"id": 9, "content": content, "single_word": false, "lstrip": true, "rstrip": true,
            "normalized": false, "special": true})
    };
    let word =
        json!({"id": 9, "content": "a", "single_word": true, "lstrip": true, "normalized": true});
    assert_bounded(
        "added_tokens",
        &[
            json!([token("")]),
            json!([token("a")]),
            json!([token(" ")]),
            json!([token("a"), token(" ")]),
            json!([word]),
            json!([token("x"), token("x"), {"id": 1}]),
        ],
    );
    let many: Vec<Value> = (0..70_000)
        .map(|index| token(&format!("<|s_{index}|>")))
        .collect();
    let tokenizer = load(&with("added_tokens", json!(many))).unwrap();
    assert_eq!(
        tokenizer.encode("<|s_69999|>", false, true).unwrap(),
        [70_004]
    );
    let deep: Vec<Value> = (1..4000).map(|length| token(&"a".repeat(length))).collect();
    // More than the limit of 131,072 tokens.
    let too_many = vec![json!({"content": "x"}); 140_000];
    assert_refused("added_tokens", &[json!(deep), json!(too_many)]);
}

#[test]
fn older_added_tokens_load_in_time() {
    let listed: serde_json::Map<String, Value> = (0..50_000)
        .map(|index| (format!("<{index}>"), (index + 5).into()))
        .collect();
    let (tokenizer, added) = (
        with("version", json!("1.0")).to_string(),
        json!(listed).to_string(),
    );
    let size = fault::call_limited(move || {
        let files = HuggingFaceFiles {
            tokenizer: tokenizer.as_bytes(),
            added_tokens: Some(added.as_bytes()),
            ..HuggingFaceFiles::default()
        };
        Tokenizer::from_files(&files).unwrap().vocab_size()
    });
    assert_eq!(size, 50_005);
}

#[test]
fn bad_post_processor_is_refused() {
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let token = json!({"SpecialToken": {"id": "x", "type_id": 0}});
    let template = |single: Value, ids: Value| {
        json!({"type": "TemplateProcessing", "single": single, "pair": [text],
            "special_tokens": {"x": {"id": "x", "ids": ids, "tokens": ["a"]}}})
    };
    assert_refused(
        "post_processor",
        &[
            template(json!([]), json!([0])),
            template(json!([{"Sequence": {"id": "B", "type_id": 0}}]), json!([0])),
            template(
                json!([text, {"SpecialToken": {"id": "missing", "type_id": 0}}]),
                json!([0]),
            ),
            template(json!([text, text]), json!([0])),
            template(json!([token, text]), json!([4_000_000_000_u32])),
            // More than the limit of 64 tokens around a text.
            template(json!([token, text]), json!(vec![0; 65])),
            json!({"type": "BertProcessing", "cls": ["a", 99_999], "sep": ["b", 1]}),
            json!({"type": "BertProcessing"}),
        ],
    );
}

#[test]
fn component_of_many_values_is_refused() {
    // Only the count of values reads the list.
    let load_list = |length| {
        let unread = vec![Value::Null; length];
        load(&with(
            "post_processor",
            json!({"type": "ByteLevel", "unread": unread}),
        ))
    };
    // The limit is 16,384, with the component, its type and the list itself.
    load_list(16_381).unwrap();
    let error = load_list(16_382).unwrap_err();
    assert!(error.contains("more than 16384 values"), "{error}");
}

#[test]
fn decoder_that_grows_is_refused() {
    let sixteen = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(16)});
    assert_refused(
        "decoder",
        &[json!({"type": "Sequence", "decoders": vec![sixteen; 12]})],
    );
    assert_bounded(
        "decoder",
        &[
            json!({"type": "Strip", "content": "a", "start": 1_u64 << 60, "stop": 1_u64 << 60}),
            json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": true}),
            json!({"type": "WordPiece", "prefix": "", "cleanup": true}),
            json!({"type": "Metaspace", "replacement": ""}),
            json!({"type": "BPEDecoder", "suffix": ""}),
        ],
    );
}

#[test]
fn settings_of_the_last_use_are_not_applied() {
    let mut json = with(
        "padding",
        json!({"strategy": {"Fixed": 1_u64 << 40}, "direction": "Right",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "a"}),
    );
    json["truncation"] =
        json!({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 99});
    assert_eq!(
        load(&json).unwrap().encode("abab", true, true).unwrap(),
        [2, 2]
    );
}

#[test]
fn deep_or_repeated_json_is_refused() {
    let deep = format!(
        "{{\"model\": {}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let twice = r#"{"model": {"type": "BPE", "vocab": {}, "merges": []}, "model": {"type": "Unigram", "vocab": [["", 0]]}}"#;
    for text in [
        deep,
        twice.to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        String::new(),
    ] {
        let loaded = fault::call_limited(move || {
            let files = HuggingFaceFiles {
                tokenizer: text.as_bytes(),
                ..HuggingFaceFiles::default()
            };
            Tokenizer::from_files(&files)
                .map(drop)
                .map_err(|error| error.to_string())
        });
        loaded.unwrap_err();
    }
}

#[test]
fn many_spelled_control_tokens_are_marked_in_time() {
    use wisp_engine::pipelines::chat_template::{ChatTemplate, ControlTokens, Message};
    let token = json!({"id": 5, "content": "<a>", "special": true});
    let tokenizer = load(&with("added_tokens", json!([token]))).unwrap();
    let template = ChatTemplate::new("{{ messages[0].content }}<a>", "", "").unwrap();
    let messages = [Message::new("user", "<a>".repeat(200_000))];
    let tokens = fault::call_limited(move || {
        let only_template = ControlTokens::FromTemplateOnly;
        template.render_and_encode(
            &tokenizer,
            &messages,
            true,
            &Default::default(),
            only_template,
        )
    });
    assert_eq!(
        tokens.unwrap().iter().filter(|&&token| token == 5).count(),
        1
    );
}
