//! Damaged model directories in Hugging Face's layout.

use super::*;

/// A directory with an intact checkpoint of the same shapes, in Hugging Face's layout.
fn directory() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        ("token_embd", "model.embed_tokens"),
        ("blk.0.attn_norm", "model.layers.0.input_layernorm"),
        ("blk.0.attn_q", "model.layers.0.self_attn.q_proj"),
        ("blk.0.attn_k", "model.layers.0.self_attn.k_proj"),
        ("blk.0.attn_v", "model.layers.0.self_attn.v_proj"),
        ("blk.0.attn_output", "model.layers.0.self_attn.o_proj"),
        ("blk.0.ffn_norm", "model.layers.0.post_attention_layernorm"),
        ("blk.0.ffn_gate", "model.layers.0.mlp.gate_proj"),
        ("blk.0.ffn_up", "model.layers.0.mlp.up_proj"),
        ("blk.0.ffn_down", "model.layers.0.mlp.down_proj"),
        ("output_norm", "model.norm"),
        ("output", "lm_head"),
    ];
    let data: Vec<Vec<u8>> = SHAPES
        .iter()
        .map(|(_, shape)| bytes(&weights(shape)))
        .collect();
    let tensors = SHAPES
        .iter()
        .zip(names)
        .zip(&data)
        .map(|(((_, shape), (_, name)), data)| {
            let shape = shape.iter().map(|dim| *dim as usize).collect();
            (
                format!("{name}.weight"),
                TensorView::new(Dtype::F32, shape, data).unwrap(),
            )
        });
    safetensors::serialize_to_file(tensors, None, &folder.path().join("model.safetensors"))
        .unwrap();
    write_config(folder.path(), &config());
    folder
}

fn config() -> Json {
    json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    })
}

fn write_config(directory: &Path, config: &Json) {
    std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn the_intact_directory_runs() {
    generate(directory().path()).succeeded();
}

/// Writes a configuration with one field replaced, and asserts that the model is refused.
fn assert_config_refused(directory: &Path, architecture: &str, key: &str, value: &Json) {
    let mut config = config();
    config["architectures"] = json!([architecture]);
    config[key] = value.clone();
    write_config(directory, &config);
    generate(directory).failed(&format!("{key} of {architecture} is {value}"));
}

#[test]
fn invalid_sizes_in_a_configuration_are_refused() {
    let folder = directory();
    let sizes = [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    ];
    let wrong = [
        json!(0),
        json!(-1),
        json!(1u64 << 62),
        json!("32"),
        json!(2.5),
        json!([32]),
        Json::Null,
    ];
    for key in sizes {
        for value in &wrong {
            assert_config_refused(folder.path(), "LlamaForCausalLM", key, value);
        }
    }
}

#[test]
fn inconsistent_fields_of_a_configuration_are_refused() {
    let folder = directory();
    let fields = [
        ("num_attention_heads", json!(3)),
        ("num_attention_heads", json!(1u32 << 28)),
        ("rope_theta", json!(0)),
        (
            "rope_scaling",
            json!({"rope_type": "linear", "factor": 0.0}),
        ),
        ("num_key_value_heads", json!(0)),
        ("num_key_value_heads", json!(3)),
        ("head_dim", json!(0)),
        ("head_dim", json!(15)),
        ("vocab_size", json!(17)),
        ("max_position_embeddings", json!(-5)),
        ("rms_norm_eps", json!("small")),
        ("hidden_act", json!("nonsense")),
        ("rope_scaling", json!({ "rope_type": "nonsense" })),
        ("rope_scaling", json!({ "rope_type": "linear" })),
        ("architectures", json!([])),
        ("architectures", json!(7)),
    ];
    for (key, value) in &fields {
        assert_config_refused(folder.path(), "LlamaForCausalLM", key, value);
    }
}

/// Fields that only some architectures have.
fn invalid_fields_of_architectures() -> Vec<(&'static str, &'static str, Json)> {
    vec![
        ("Qwen3MoeForCausalLM", "num_experts", json!(0)),
        ("Qwen3MoeForCausalLM", "num_experts_per_tok", json!(129)),
        ("Qwen3MoeForCausalLM", "moe_intermediate_size", json!(0)),
        ("Qwen3MoeForCausalLM", "decoder_sparse_step", json!(0)),
        ("Qwen3MoeForCausalLM", "mlp_only_layers", json!("none")),
        ("MixtralForCausalLM", "num_local_experts", json!(1u64 << 40)),
        ("MixtralForCausalLM", "num_local_experts", json!(4000)),
        ("Gemma2ForCausalLM", "layer_types", json!([])),
        (
            "Gemma2ForCausalLM",
            "layer_types",
            json!(["chunked_attention"]),
        ),
        ("Gemma2ForCausalLM", "query_pre_attn_scalar", json!(-1)),
        ("Gemma3ForCausalLM", "sliding_window_pattern", json!(0)),
        ("GraniteForCausalLM", "logits_scaling", json!(0)),
        ("SmolLM3ForCausalLM", "no_rope_layers", json!([])),
        ("GPTNeoXForCausalLM", "rotary_pct", json!(-0.5)),
        ("GPTNeoXForCausalLM", "rotary_pct", json!(1.5)),
        (
            "Phi3ForCausalLM",
            "rope_scaling",
            json!({ "type": "longrope" }),
        ),
        (
            "Phi3ForCausalLM",
            "rope_scaling",
            json!({ "type": "su", "short_factor": [0.0], "long_factor": [1.0] }),
        ),
        // These configurations are valid, but the tensors have the names of another architecture.
        ("GPT2LMHeadModel", "n_positions", json!(8)),
        ("Olmo2ForCausalLM", "rms_norm_eps", json!(1e-5)),
    ]
}

#[test]
fn invalid_fields_of_an_architecture_are_refused() {
    let folder = directory();
    for (architecture, key, value) in invalid_fields_of_architectures() {
        assert_config_refused(folder.path(), architecture, key, &value);
    }
}

#[test]
fn malformed_and_missing_configurations_are_refused() {
    let folder = directory();
    for text in ["", "{", "[]", "null", "{\"architectures\":"] {
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        generate(folder.path()).failed(&format!("a config.json of {text:?}"));
    }
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    generate(folder.path()).failed("no config.json");
}

#[test]
fn truncated_and_missing_safetensors_files_are_refused() {
    let folder = directory();
    let path = folder.path().join("model.safetensors");
    let file = std::fs::read(&path).unwrap();
    for len in [0, 1, 7, 8, 9, 100, 700, file.len() / 2, file.len() - 1] {
        std::fs::write(&path, &file[..len]).unwrap();
        generate(folder.path()).failed(&format!("the first {len} bytes"));
    }
    for size in [u64::MAX, 1 << 40, 0] {
        let header = [&size.to_le_bytes(), &file[8..]].concat();
        std::fs::write(&path, header).unwrap();
        generate(folder.path()).failed(&format!("a header of {size} bytes"));
    }
    std::fs::remove_file(&path).unwrap();
    generate(folder.path()).failed("no weights");
}

#[test]
fn an_index_cannot_name_files_outside_its_folder() {
    let (folder, outside) = (directory(), directory());
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let outside = outside.path().join("model.safetensors");
    for name in [
        outside.to_str().unwrap(),
        "../model.safetensors",
        "absent.safetensors",
        "",
        ".",
    ] {
        let index = json!({ "metadata": {}, "weight_map": { "model.norm.weight": name } });
        std::fs::write(
            folder.path().join("model.safetensors.index.json"),
            index.to_string(),
        )
        .unwrap();
        generate(folder.path()).failed(&format!("an index that names {name:?}"));
    }
}
