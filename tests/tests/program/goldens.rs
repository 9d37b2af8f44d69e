//! Tiny random checkpoints in Hugging Face's layout, compared with the results of transformers.

use std::{collections::BTreeMap, path::Path};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use wisp_tests::{
    goldens::{CAUSAL, Golden, for_each, golden},
    on_every_device, on_every_device_and_class,
    program::{TestDevice, assert_rows_close, generate, logits, run},
    sample,
    shared::shared_data,
};

fn for_each_checkpoint(check: impl Fn(&str, &Path, &Golden)) {
    for_each(CAUSAL, check);
}

fn logits_and_tokens_match_transformers(place: TestDevice) {
    for_each_checkpoint(|name, directory, golden| {
        if !sample::runs_on(name, place) {
            return;
        }
        let paged = [
            "--prefill-chunk",
            "7",
            "--cache-strategy",
            "paged",
            "--page-size",
            "3",
        ];
        for flags in [&[][..], &paged] {
            let what = format!("{name} on {place:?} with {flags:?}");
            let off = assert_rows_close(
                &what,
                &logits(Some(directory), place, &golden.tokens, flags),
                &golden.logits,
            );
            let got = generate(
                Some(directory),
                place,
                &golden.tokens,
                golden.greedy.len(),
                flags,
            );
            assert_eq!(got.tokens, golden.greedy, "{what}");
            println!("{what}: within {off:.1e}");
        }
    });
}

/// The size of prefill chunks, of pages and of submissions does not change the tokens.
fn chunks_pages_and_steps_do_not_change_tokens(place: TestDevice) {
    // Every combination runs, spread over checkpoints. GPUs take longer to open: theirs have each value at least once.
    let mut combinations = Vec::new();
    for (i, chunk) in ["1", "7", "64"].into_iter().enumerate() {
        for (j, page) in ["1", "3", "32"].into_iter().enumerate() {
            for (k, steps) in ["1", "4"].into_iter().enumerate() {
                if place == TestDevice::Host || (i + j + k) % 3 == 0 {
                    combinations.push([
                        "--prefill-chunk",
                        chunk,
                        "--cache-strategy",
                        "paged",
                        "--page-size",
                        page,
                        "--max-num-steps",
                        steps,
                    ]);
                }
            }
        }
    }
    for_each_checkpoint(|name, directory, golden| {
        if !sample::runs_on(name, place) {
            return;
        }
        let samples = if place == TestDevice::Host { 6 } else { 3 };
        let combinations = combinations.iter().enumerate();
        for (_, flags) in combinations.filter(|(i, _)| sample::has(name, *i, samples)) {
            let got = generate(
                Some(directory),
                place,
                &golden.tokens,
                golden.greedy.len(),
                flags,
            );
            assert_eq!(
                got.tokens, golden.greedy,
                "{name} on {place:?} with {flags:?}"
            );
        }
    });
}

on_every_device_and_class!(by case: logits_and_tokens_match_transformers);

// One device that poses as a GPU is enough: these take long.
on_every_device!(by case: chunks_pages_and_steps_do_not_change_tokens);

/// A configuration of Gemma 4 as multimodal checkpoints have it.
fn multimodal_gemma4(mut text: Value) -> Value {
    let fields = text.as_object_mut().unwrap();
    let layers = fields.remove("per_layer_config").unwrap();
    let own = layers.as_object().unwrap().values().next().unwrap().clone();
    fields.insert("global_head_dim".into(), own["head_dim"].clone());
    let kv_heads = own.get("num_key_value_heads").cloned();
    fields.insert(
        "num_global_key_value_heads".into(),
        kv_heads.unwrap_or_default(),
    );
    fields.remove("architectures");
    json!({"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": text})
}

/// A configuration as transformers 4 wrote it, or as it is published.
fn older_layout(mut config: Value, type_key: &str) -> Value {
    if config["model_type"] == "gemma4_text" {
        return multimodal_gemma4(config);
    }
    let fields = config.as_object_mut().unwrap();
    // Models that read images had the fields of their text at the top.
    if let Some(Value::Object(mut text)) = fields.remove("text_config") {
        text.retain(|key, value| {
            !["model_type", "tie_word_embeddings"].contains(&key.as_str()) && !value.is_null()
        });
        fields.extend(text);
    }
    let dtype = fields.remove("dtype").unwrap();
    fields.extend([
        ("torch_dtype".into(), dtype),
        ("transformers_version".into(), json!("4.40.0")),
    ]);
    if let Some(kinds) = fields.remove("layers_block_type") {
        let letter = |kind: &Value| match kind.as_str() {
            Some("linear_attention") => 'M',
            Some("full_attention") => '*',
            Some("moe") => 'E',
            _ => '-',
        };
        let kinds = kinds.as_array().unwrap().iter();
        let pattern: String = kinds.map(letter).collect();
        fields.insert("num_hidden_layers".into(), json!(pattern.len()));
        fields.insert("hybrid_override_pattern".into(), json!(pattern));
    }
    let Some(mut rope) = fields.remove("rope_parameters") else {
        return config;
    };
    let model_type = fields["model_type"].as_str().unwrap_or("").to_string();
    // If layers differ, only sliding-window layers had their own rotary base (Gemma 3), or they were not
    // scaled (OLMo 3).
    if let Some(local) = rope.get("sliding_attention") {
        if model_type.starts_with("gemma3n") {
            fields.insert("rope_local_base_freq".into(), local["rope_theta"].clone());
        } else if model_type.starts_with("gemma3") {
            fields.insert("rope_local_base_freq".into(), local["rope_theta"].clone());
            fields.insert("sliding_window_pattern".into(), json!(6));
            fields.remove("_sliding_window_pattern");
            fields.remove("layer_types");
        }
        rope = rope["full_attention"].take();
    }
    if ["cohere2", "exaone4"].contains(&model_type.as_str()) {
        fields.remove("layer_types");
    }
    let rope = rope.as_object_mut().unwrap();
    let (theta_key, partial_key) = match model_type.as_str() {
        "gpt_neox" => ("rotary_emb_base", "rotary_pct"),
        _ => ("rope_theta", "partial_rotary_factor"),
    };
    if let Some(partial) = rope.remove("partial_rotary_factor") {
        fields.insert(partial_key.into(), partial);
    }
    let theta = rope.remove("rope_theta").unwrap();
    let kind = rope.remove("rope_type").unwrap();
    let kind = match rope.contains_key("mrope_section") {
        true => json!("mrope"),
        false => kind,
    };
    let scaling = if kind == "default" {
        Value::Null
    } else {
        rope.insert(type_key.into(), kind);
        json!(rope)
    };
    fields.extend([(theta_key.into(), theta), ("rope_scaling".into(), scaling)]);
    config
}

fn config(directory: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(directory.join("config.json")).unwrap()).unwrap()
}

/// A copy of a checkpoint with another configuration.
fn with_config(directory: &Path, config: &Value) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(
        directory.join("model.safetensors"),
        copy.path().join("model.safetensors"),
    )
    .unwrap();
    std::fs::write(copy.path().join("config.json"), config.to_string()).unwrap();
    copy
}

#[test]
fn configurations_of_transformers_4_give_the_same_results() {
    for_each_checkpoint(|name, directory, golden| {
        // `type` is the older name of `rope_type`.
        for type_key in ["rope_type", "type"] {
            let copy = with_config(directory, &older_layout(config(directory), type_key));
            let what = format!("{name} with {type_key}");
            assert_rows_close(
                &what,
                &logits(Some(copy.path()), TestDevice::Host, &golden.tokens, &[]),
                &golden.logits,
            );
            let got = generate(
                Some(copy.path()),
                TestDevice::Host,
                &golden.tokens,
                golden.greedy.len(),
                &[],
            );
            assert_eq!(got.tokens, golden.greedy, "{what}");
        }
    });
}

/// The same weights in PyTorch's format give the same bits.
#[test]
fn pytorch_files_give_the_same_bits() {
    for_each_checkpoint(|name, directory, golden| {
        let copy = tempfile::tempdir().unwrap();
        let at = |file: &str| copy.path().join(file);
        std::fs::copy(directory.join("config.json"), at("config.json")).unwrap();
        let file = std::fs::read(directory.join("model.safetensors")).unwrap();
        let file = wisp_tests::pytorch_writer::from_safetensors(&file);
        std::fs::write(at("pytorch_model.bin"), file).unwrap();
        let of = |model| logits(Some(model), TestDevice::Host, &golden.tokens, &[]);
        assert_eq!(of(copy.path()), of(directory), "{name}");
        // A file can be named instead of the directory.
        if name == "llama" {
            assert_eq!(of(&at("pytorch_model.bin")), of(directory), "{name}");
        }
    });
}

/// A safetensors file whose experts are in one tensor for each layer, as transformers 5 has them in memory: gate and
/// up projections together.
fn with_fused_experts(file: &[u8]) -> Vec<u8> {
    let tensors = SafeTensors::deserialize(file).unwrap();
    let mut fused: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    let mut others = Vec::new();
    let mut names = tensors.names();
    // Experts and, of one expert, gates and up projections follow each other.
    names.sort_by_key(|name| {
        let parts = name.split_once(".experts.").unwrap_or((name, ""));
        let (expert, part) = parts.1.split_once('.').unwrap_or(("0", ""));
        (
            parts.0,
            expert.parse::<u32>().unwrap(),
            part == "up_proj.weight",
        )
    });
    for name in names {
        let tensor = tensors.tensor(name).unwrap();
        let Some((layer, rest)) = name.split_once(".experts.") else {
            others.push((name.to_string(), tensor));
            continue;
        };
        let (_, part) = rest.split_once('.').unwrap();
        let gated = tensors
            .tensor(&name.replace("up_proj", "gate_proj"))
            .is_ok();
        let part = match part.trim_end_matches(".weight") {
            "gate_proj" | "up_proj" if gated => "gate_up_proj",
            part => part,
        };
        let [rows, cols] = tensor.shape() else {
            panic!("{name}");
        };
        let stacked = fused.entry(format!("{layer}.experts.{part}"));
        let (shape, data) = stacked.or_insert((vec![0, *rows, *cols], Vec::new()));
        data.extend(tensor.data());
        let parts = if part == "gate_up_proj" { 2 } else { 1 };
        shape[1] = parts * rows;
        shape[0] = data.len() / (4 * shape[1] * cols);
    }
    let fused = fused.iter().map(|(name, (shape, data))| {
        let view = TensorView::new(Dtype::F32, shape.clone(), data).unwrap();
        (name.clone(), view)
    });
    safetensors::serialize(others.into_iter().chain(fused), None).unwrap()
}

/// Experts in one tensor for each layer give the same bits as those in a tensor each.
#[test]
fn fused_experts_give_the_same_bits() {
    for name in ["qwen3-5-moe", "nemotron-h-moe", "glm4-moe"] {
        let (directory, golden) = golden::<Golden>(name).unwrap();
        let copy = tempfile::tempdir().unwrap();
        let at = |file: &str| copy.path().join(file);
        std::fs::copy(directory.join("config.json"), at("config.json")).unwrap();
        let file = std::fs::read(directory.join("model.safetensors")).unwrap();
        std::fs::write(at("model.safetensors"), with_fused_experts(&file)).unwrap();
        let of = |model: &Path| logits(Some(model), TestDevice::Host, &golden.tokens, &[]);
        assert_eq!(of(copy.path()), of(&directory), "{name}");
        // Conversion takes them apart.
        let gguf = at("model.gguf");
        let paths = [copy.path(), &gguf].map(|path| path.to_str().unwrap());
        run(["convert", "--model", paths[0], "--out", paths[1]]).succeeded();
        assert_rows_close(name, &of(&gguf), &golden.logits);
    }
}

/// Published checkpoints of Qwen 3 VL store experts transposed.
#[test]
fn transposed_experts_give_the_same_bits() {
    let (directory, golden) = golden::<Golden>("qwen3-vl-moe").unwrap();
    let copy = with_config(&directory, &config(&directory));
    let file = std::fs::read(directory.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let transposed = tensors.tensors().into_iter().map(|(name, tensor)| {
        let data = tensor.data().to_vec();
        let [experts, rows, cols] = *tensor.shape() else {
            return (name, tensor.shape().to_vec(), data);
        };
        let elements: Vec<&[u8]> = data.chunks_exact(4).collect();
        let of = |i: usize| i / cols / rows * rows * cols + i % rows * cols + i / rows % cols;
        let data = (0..elements.len()).flat_map(|i| elements[of(i)]).copied();
        (name, vec![experts, cols, rows], data.collect())
    });
    let transposed: Vec<(String, Vec<usize>, Vec<u8>)> = transposed.collect();
    let views = transposed.iter().map(|(name, shape, data)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), data).unwrap();
        (name, view)
    });
    let file = safetensors::serialize(views, None).unwrap();
    std::fs::write(copy.path().join("model.safetensors"), file).unwrap();
    let of = |model: &Path| logits(Some(model), TestDevice::Host, &golden.tokens, &[]);
    assert_eq!(of(copy.path()), of(&directory));
}

#[track_caller]
fn assert_supported_are_named(directory: &Path) {
    let line = run([
        "generate",
        "--tokens",
        "1",
        "--device",
        "host",
        "--model",
        directory.to_str().unwrap(),
    ])
    .failed("an unknown architecture");
    for supported in ["LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"] {
        assert!(line.contains(supported), "{line}");
    }
}

#[test]
fn unsupported_architectures_are_refused_with_the_supported_ones() {
    let Some(goldens) = shared_data("goldens") else {
        return;
    };
    for entry in std::fs::read_dir(&goldens).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().join("config.json").exists() && !CAUSAL.contains(&name.as_str()) {
            assert_supported_are_named(&entry.path());
        }
    }
    let mut config = config(&goldens.join("llama"));
    config["architectures"] = json!(["NobodysForCausalLM"]);
    assert_supported_are_named(with_config(&goldens.join("llama"), &config).path());
}
