//! Encoders: `wisp encode` compared with transformers, with single texts and with the library.

use std::path::Path;

use serde_json::{Value, json};
use wisp_engine::{
    device::Device,
    pipelines::{EncodeOptions, ModelFiles, ModelLimits, Pooling, TextEncoder},
    session::InferenceSession,
    weights::{Encoding, gguf},
};
use wisp_tests::{
    encoder::{self, HIDDEN, write_json},
    gguf_writer::GgufWriter,
    goldens::{ENCODERS, EncoderGolden, for_each},
    on_every_device_and_class,
    program::{Run, TestDevice, assert_rows_close, ids, run},
};

fn for_each_checkpoint(check: impl Fn(&str, &Path, &EncoderGolden)) {
    for_each(ENCODERS, check);
}

fn encode(model: &Path, place: TestDevice, flags: &[&str]) -> Run {
    let model = ["encode", "--json", "--model", model.to_str().unwrap()];
    run([&model[..], &place.args(), flags].concat())
}

/// The hidden states of each text, `[texts, tokens, hidden]`.
fn hidden(model: &Path, place: TestDevice, texts: &[&[u32]]) -> Vec<Vec<Vec<f32>>> {
    let texts: Vec<String> = texts.iter().map(|text| ids(text)).collect();
    let mut flags = vec!["--pooling", "none"];
    flags.extend(texts.iter().flat_map(|text| ["--tokens", text.as_str()]));
    let json = encode(model, place, &flags).json();
    serde_json::from_value(json["hidden"].clone()).unwrap()
}

fn embeddings(model: &Path, flags: &[&str]) -> Vec<Vec<f32>> {
    let json = encode(model, TestDevice::Host, flags).json();
    serde_json::from_value(json["embeddings"].clone()).unwrap()
}

/// A text alone, and in a batch between other texts.
fn hidden_states_match_transformers(place: TestDevice) {
    for_each_checkpoint(|name, directory, golden| {
        let what = format!("{name} on {place:?}");
        let (tokens, expected) = (&golden.tokens[..], &golden.last_hidden_state);
        let [alone] = &hidden(directory, place, &[tokens])[..] else {
            panic!("{what}: one text in, one out");
        };
        let off = assert_rows_close(&what, alone, expected);
        println!("{what}: within {off:.1e}");
        let (other, long) = (&tokens[..1], [tokens, tokens].concat());
        let batch = hidden(directory, place, &[other, tokens, &long, tokens]);
        for i in [1, 3] {
            assert_rows_close(&format!("{what}, in a batch"), &batch[i], expected);
        }
        let [long_alone] = &hidden(directory, place, &[&long])[..] else {
            panic!("{what}: one text in, one out");
        };
        assert_rows_close(&format!("{what}, twice as long"), &batch[2], long_alone);
        assert_eq!(batch[0].len(), 1);
    });
}

/// A small model with odd sizes, and texts of every length in one batch, so that few pages are full.
fn batched_texts_match_single_texts(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let tokens: Vec<u32> = (0..24).map(|i| 2 + i * 7 % 11).collect();
    let texts: Vec<&[u32]> = [3, 24, 1, 17, 2].map(|len| &tokens[24 - len..]).into();
    let batch = hidden(folder.path(), place, &texts);
    for (text, batched) in texts.iter().zip(&batch) {
        let alone = hidden(folder.path(), TestDevice::Host, &[text]);
        let what = format!("{} tokens on {place:?}", text.len());
        assert_rows_close(&what, batched, &alone[0]);
    }
}

on_every_device_and_class!(
    hidden_states_match_transformers,
    batched_texts_match_single_texts
);

/// Fields of Nomic BERT's first checkpoints, and their names in transformers.
const NOMIC_FIELDS: &[(&str, &str)] = &[
    ("n_embd", "hidden_size"),
    ("n_head", "num_attention_heads"),
    ("n_inner", "intermediate_size"),
    ("n_layer", "num_hidden_layers"),
    ("n_positions", "max_position_embeddings"),
    ("layer_norm_epsilon", "layer_norm_eps"),
];

#[test]
fn configurations_of_transformers_4_give_the_same_results() {
    for_each_checkpoint(|name, directory, golden| {
        let text = std::fs::read(directory.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        let fields = config.as_object_mut().unwrap();
        let dtype = fields.remove("dtype").unwrap();
        fields.insert("torch_dtype".into(), dtype);
        if name == "nomic-bert" {
            // The first checkpoints follow GPT-2's names.
            let theta = fields.remove("rope_parameters").unwrap()["rope_theta"].clone();
            fields.insert("rotary_emb_base".into(), theta);
            for (old, new) in NOMIC_FIELDS {
                let value = fields.remove(*new).unwrap();
                fields.insert((*old).into(), value);
            }
            fields.remove("hidden_act");
            fields.insert("activation_function".into(), json!("swiglu"));
        } else if name == "jina-embeddings-v3" {
            let theta = fields.remove("rope_parameters").unwrap()["rope_theta"].clone();
            fields.insert("rope_theta".into(), theta);
        } else if let Some(rope) = fields.remove("rope_parameters") {
            for (old, kind) in [("global", "full"), ("local", "sliding")] {
                let theta = rope[format!("{kind}_attention")]["rope_theta"].clone();
                fields.insert(format!("{old}_rope_theta"), theta);
            }
            fields.remove("layer_types");
            fields.insert("global_attn_every_n_layers".into(), json!(3));
        } else {
            fields.insert("position_embedding_type".into(), json!("absolute"));
        }
        let folder = tempfile::tempdir().unwrap();
        encoder::write(folder.path(), &config, &encoder::read(directory));
        let states = hidden(folder.path(), TestDevice::Host, &[&golden.tokens]);
        assert_rows_close(name, &states[0], &golden.last_hidden_state);
    });
}

/// Checkpoints with a task head have a prefix before tensor names, and the oldest BERT checkpoints call the
/// weight and bias of norms gamma and beta.
#[test]
fn checkpoints_with_task_heads_and_old_names_give_the_same_results() {
    for_each_checkpoint(|name, directory, golden| {
        let (root, class) = match name {
            "bert" => ("bert.", "BertForMaskedLM"),
            "modernbert" => ("model.", "ModernBertForMaskedLM"),
            "nomic-bert" => ("nomic_bert.", "NomicBertForMaskedLM"),
            "jina-embeddings-v3" => ("roberta.", "JinaEmbeddingsV3ForTokenClassification"),
            _ => ("roberta.", "XLMRobertaForTokenClassification"),
        };
        let text = std::fs::read(directory.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        config["architectures"] = json!([class]);
        let renamed = |(name, tensor): (String, _)| {
            let old = name.replace("LayerNorm.weight", "LayerNorm.gamma");
            (
                root.to_string() + &old.replace("LayerNorm.bias", "LayerNorm.beta"),
                tensor,
            )
        };
        let tensors = encoder::read(directory).into_iter().map(renamed).collect();
        let folder = tempfile::tempdir().unwrap();
        encoder::write(folder.path(), &config, &tensors);
        let states = hidden(folder.path(), TestDevice::Host, &[&golden.tokens]);
        assert_rows_close(name, &states[0], &golden.last_hidden_state);
    });
}

/// Suffixes of tensor names in Hugging Face's layout, and the names in llama.cpp.
const GGUF_NAMES: &[(&str, &str)] = &[
    ("word_embeddings", "token_embd"),
    ("position_embeddings", "position_embd"),
    ("token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
    ("mixer.Wqkv", "attn_qkv"),
    ("mixer.out_proj", "attn_output"),
    ("mlp.fc1", "ffn_up"),
    ("emb_ln", "token_embd_norm"),
    ("attn.out_proj", "attn_output"),
    ("norm1", "attn_output_norm"),
    ("mlp.fc11", "ffn_up"),
    ("mlp.fc12", "ffn_gate"),
    ("mlp.fc2", "ffn_down"),
    ("norm2", "layer_output_norm"),
    ("tok_embeddings", "token_embd"),
    ("embeddings.norm", "token_embd_norm"),
    ("attn.Wqkv", "attn_qkv"),
    ("attn.Wo", "attn_output"),
    ("attn_norm", "attn_norm"),
    ("mlp.Wi", "ffn_up"),
    ("mlp.Wo", "ffn_down"),
    ("mlp_norm", "ffn_norm"),
    ("final_norm", "output_norm"),
];

fn gguf_name(name: &str) -> Option<String> {
    let (stem, kind) = name.rsplit_once('.')?;
    let ending = |(ending, _): &&(&str, &str)| stem.ends_with(ending);
    let (_, new) = GGUF_NAMES.iter().find(ending)?;
    let layer = stem.split('.').find(|part| part.parse::<u32>().is_ok());
    Some(match layer {
        Some(layer) => format!("blk.{layer}.{new}.{kind}"),
        None => format!("{new}.{kind}"),
    })
}

#[test]
fn encoders_in_gguf_match_transformers() {
    for_each_checkpoint(|name, directory, golden| {
        let text = std::fs::read(directory.join("config.json")).unwrap();
        let config: Value = serde_json::from_slice(&text).unwrap();
        let architecture = match name {
            "modernbert" => "modern-bert",
            "nomic-bert" => "nomic-bert",
            "jina-embeddings-v3" => "jina-bert-v3",
            _ => "bert",
        };
        let mut file = GgufWriter::new(3, false);
        file = file.key(
            "general.architecture",
            gguf::Value::String(architecture.into()),
        );
        let number = |field: &str| config[field].as_u64().unwrap() as u32;
        let keys = [
            ("context_length", "max_position_embeddings"),
            ("embedding_length", "hidden_size"),
            ("feed_forward_length", "intermediate_size"),
            ("attention.head_count", "num_attention_heads"),
            ("block_count", "num_hidden_layers"),
            ("attention.sliding_window", "local_attention"),
        ];
        for (key, field) in keys.iter().filter(|(_, field)| config[*field].is_number()) {
            let value = gguf::Value::U32(number(field));
            file = file.key(&format!("{architecture}.{key}"), value);
        }
        let (eps, theta) = match name {
            "modernbert" => (1e-5, 160_000.0),
            "jina-embeddings-v3" => (1e-5, 20_000.0),
            _ => (1e-12, 1000.0),
        };
        let floats = [
            ("attention.layer_norm_epsilon", eps),
            ("rope.freq_base", theta),
        ];
        for (key, value) in floats {
            file = file.key(&format!("{architecture}.{key}"), gguf::Value::F32(value));
        }
        for (name, (mut shape, mut values)) in encoder::read(directory) {
            let Some(new) = gguf_name(&name) else {
                continue;
            };
            if new == "position_embd.weight" && *directory.file_name().unwrap() == *"xlm-roberta" {
                let unused = number("pad_token_id") as usize + 1;
                shape[0] -= unused;
                values.drain(..unused * shape[1]);
            }
            let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
            file = file.tensor(&new, Encoding::F32, &shape, bytemuck::cast_slice(&values));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, file.write()).unwrap();
        let states = hidden(&path, TestDevice::Host, &[&golden.tokens]);
        assert_rows_close(name, &states[0], &golden.last_hidden_state);
    });
}

/// The embedding of a text from its hidden states, computed directly.
fn expected(hidden: &[Vec<f32>], is_mean: bool, normalize: bool) -> Vec<f32> {
    let count = if is_mean { hidden.len() } else { 1 };
    let mut embedding: Vec<f64> = (0..HIDDEN)
        .map(|i| {
            hidden[..count]
                .iter()
                .map(|row| f64::from(row[i]))
                .sum::<f64>()
                / count as f64
        })
        .collect();
    if normalize {
        let length = embedding.iter().map(|x| x * x).sum::<f64>().sqrt();
        embedding.iter_mut().for_each(|x| *x /= length);
    }
    embedding.into_iter().map(|x| x as f32).collect()
}

#[test]
fn flags_choose_pooling_and_normalization() {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    // [CLS] the cat sleep ##s . [SEP]
    let tokens = [2, 5, 6, 8, 9, 12, 3];
    let states = &hidden(folder.path(), TestDevice::Host, &[&tokens])[0];
    let text = ["--text", "The cat sleeps."];
    for (pooling, is_mean) in [("mean", true), ("cls", false)] {
        for normalize in [true, false] {
            let mut flags = [&text[..], &["--pooling", pooling]].concat();
            flags.extend((!normalize).then_some("--no-normalize"));
            let got = embeddings(folder.path(), &flags);
            let expected = [expected(states, is_mean, normalize)];
            assert_rows_close(&format!("{flags:?}"), &got, &expected);
        }
    }
    // Without settings in the model's files, embeddings are means scaled to length 1.
    let got = embeddings(folder.path(), &text);
    assert_rows_close("defaults", &got, &[expected(states, true, true)]);
    let two = embeddings(folder.path(), &["--text", "the", "The cat sleeps."]);
    assert_rows_close("two texts", &two[1..], &got);
    let shown = run([
        "encode",
        "--device",
        "host",
        "--text",
        "the",
        "--model",
        folder.path().to_str().unwrap(),
    ])
    .succeeded();
    assert_eq!(shown.stdout.lines().count(), 1);
    assert_eq!(shown.stdout.split_whitespace().count(), HIDDEN);
}

fn modules(directory: &Path, names: &[&str]) {
    let module = |(i, name): (usize, &&str)| {
        let path = if i == 0 {
            String::new()
        } else {
            format!("{i}_{name}")
        };
        let kind = format!("sentence_transformers.models.{name}");
        json!({ "idx": i, "name": i.to_string(), "path": path, "type": kind })
    };
    let modules: Vec<Value> = names.iter().enumerate().map(module).collect();
    write_json(directory, "modules.json", &json!(modules));
}

#[test]
fn files_of_sentence_transformers_set_pooling_and_length() {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    modules(folder.path(), &["Transformer", "Pooling", "Normalize"]);
    let pooling = json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false });
    write_json(folder.path(), "1_Pooling/config.json", &pooling);
    let config = json!({ "max_seq_length": 4, "do_lower_case": false });
    write_json(folder.path(), "sentence_bert_config.json", &config);
    let text = ["--text", "the cat sleeps."];
    let cut = encode(folder.path(), TestDevice::Host, &text).succeeded();
    assert!(
        cut.stderr.contains("truncated to 4 tokens"),
        "{}",
        cut.stderr
    );
    // The text is truncated before its last special token.
    let states = hidden(folder.path(), TestDevice::Host, &[&[2, 5, 6, 3]]);
    let got = embeddings(folder.path(), &text);
    assert_rows_close("cls, cut", &got, &[expected(&states[0], false, true)]);

    // Without a module that normalizes, embeddings have any length.
    modules(folder.path(), &["Transformer", "Pooling"]);
    for (flags, normalize) in [(&[][..], false), (&["--normalize"], true)] {
        let got = embeddings(folder.path(), &[&text[..], flags].concat());
        let expected = [expected(&states[0], false, normalize)];
        assert_rows_close(&format!("{flags:?}"), &got, &expected);
    }

    modules(folder.path(), &["Transformer", "Pooling", "Dense"]);
    let line = encode(folder.path(), TestDevice::Host, &text);
    assert_eq!(line.status, Some(1));
    assert!(line.stderr.contains("Dense"), "{}", line.stderr);
    assert_eq!(
        embeddings(folder.path(), &["--text", "the", "--pooling", "cls"]).len(),
        1
    );
}

#[test]
fn invalid_texts_models_and_configurations_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let fails = |flags: &[&str], wanted: &[&str]| {
        let line = encode(folder.path(), TestDevice::Host, flags).failed("wrong input");
        for wanted in wanted {
            assert!(line.contains(wanted), "{line}");
        }
    };
    fails(&["--tokens", "5,13"], &["token 13", "13"]);
    let long = ids(&[5; 25]);
    fails(
        &["--tokens", "5", "--tokens", &long],
        &["text 2 has 25 tokens", "24"],
    );
    let words = "the ".repeat(30);
    fails(&["--text", &words], &["text 1 has 32 tokens", "24"]);

    let model = folder.path().to_str().unwrap();
    for command in [
        &["generate", "--tokens", "5"][..],
        &["logits", "--tokens", "5", "--out", "nowhere"],
    ] {
        let args = [command, &["--device", "host", "--model", model]].concat();
        let line = run(args).failed("an encoder");
        assert!(
            line.contains("is an encoder") && line.contains("wisp encode"),
            "{line}"
        );
    }
    run(["info", model, "--json"]).json();

    let mut tensors = encoder::read(folder.path());
    let weights = tensors.get_mut("encoder.layer.1.output.dense.weight");
    weights.unwrap().1.fill(f32::NAN);
    encoder::write(folder.path(), &encoder::config(), &tensors);
    fails(&["--tokens", "5"], &["no finite hidden states"]);

    let mut config = encoder::config();
    config["position_embedding_type"] = json!("relative_key");
    write_json(folder.path(), "config.json", &config);
    fails(
        &["--tokens", "5"],
        &["position_embedding_type", "relative_key"],
    );
    let mut config = encoder::config();
    config["type_vocab_size"] = json!(3);
    write_json(folder.path(), "config.json", &config);
    fails(
        &["--tokens", "5"],
        &["token_type_embeddings", "[2, 15]", "[3, 15]"],
    );
}

/// The library and the command line give the same embeddings, in batches of any size.
#[test]
fn library_matches_the_command_line_in_batches_of_any_size() {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let files = ModelFiles::open(folder.path()).unwrap();
    let session = InferenceSession::new(Device::host(1).unwrap());
    let texts = ["the cat", "a kitten is sleeping", "runs", "the cat sleeps."];
    let flags = [&["--text"], &texts[..]].concat();
    let expected = embeddings(folder.path(), &flags);
    for (max_batch, max_step_tokens, page_size) in [(1, 1, 1), (2, 16, 3), (4, 64, 32)] {
        let limits = ModelLimits {
            max_length: 12,
            max_batch,
            max_step_tokens,
            page_size,
            ..Default::default()
        };
        let mut encoder = TextEncoder::load_blocking(&session, &files, limits).unwrap();
        let options = EncodeOptions {
            pooling: Some(Pooling::Mean),
            ..Default::default()
        };
        let got = encoder.encode_blocking(&texts, options).unwrap().vectors;
        assert_rows_close(&format!("{limits:?}"), &got, &expected);
        let long = "the ".repeat(12);
        let error = encoder.encode_blocking(&[&long], options).unwrap_err();
        assert!(error.to_string().contains("at most 12"), "{error}");
    }
}
