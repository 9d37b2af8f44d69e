//! Broken files and wrong requests: one clear line and exit status 1, whatever is wrong.

use std::path::Path;

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value as Json, json};
use wisp_engine::weights::{
    Encoding,
    gguf::{Array, Value},
};
use wisp_tests::{
    gguf_writer::GgufWriter,
    program::{Run, run},
};

/// Runs a model without a tokenizer for one token.
fn generate(model: &Path) -> Run {
    run([
        "generate",
        "--device",
        "host",
        "--tokens",
        "1",
        "--max-new-tokens",
        "1",
        "--model",
        model.to_str().unwrap(),
    ])
}

/// Writes bytes to a file and asserts that they are refused.
fn refused(what: &str, bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    generate(&path).failed(what)
}

/// A little model: 16 words, width 32, 2 heads, one block.
const SHAPES: &[(&str, &[u64])] = &[
    ("token_embd.weight", &[16, 32]),
    ("blk.0.attn_norm.weight", &[32]),
    ("blk.0.attn_q.weight", &[32, 32]),
    ("blk.0.attn_k.weight", &[32, 32]),
    ("blk.0.attn_v.weight", &[32, 32]),
    ("blk.0.attn_output.weight", &[32, 32]),
    ("blk.0.ffn_norm.weight", &[32]),
    ("blk.0.ffn_gate.weight", &[48, 32]),
    ("blk.0.ffn_up.weight", &[48, 32]),
    ("blk.0.ffn_down.weight", &[32, 48]),
    ("output_norm.weight", &[32]),
    ("output.weight", &[16, 32]),
];

/// Weights without a pattern, and always the same.
fn weights(shape: &[u64]) -> Vec<f32> {
    (0..shape.iter().product::<u64>())
        .map(|i| ((i * 2_654_435_761 % 1000) as f32 - 500.0) / 1000.0)
        .collect()
}

fn bytes(weights: &[f32]) -> Vec<u8> {
    weights
        .iter()
        .flat_map(|weight| weight.to_le_bytes())
        .collect()
}

/// The metadata of the little model, but for keys that `instead` replaces (or, by `None`, leaves out).
fn header(instead: &[(&str, Option<Value>)]) -> GgufWriter {
    let sound = [
        ("general.architecture", Value::String("llama".into())),
        ("llama.embedding_length", Value::U32(32)),
        ("llama.block_count", Value::U32(1)),
        ("llama.attention.head_count", Value::U32(2)),
        ("llama.feed_forward_length", Value::U32(48)),
        ("llama.context_length", Value::U32(64)),
    ];
    let mut writer = GgufWriter::new(3, false);
    for (key, value) in sound {
        match instead.iter().find(|(name, _)| *name == key) {
            Some((_, other)) => {
                writer = other
                    .iter()
                    .fold(writer, |writer, other| writer.key(key, other.clone()))
            }
            None => writer = writer.key(key, value),
        }
    }
    writer
}

/// Adds the little model's tensors, each as `change` has it: with another shape or other weights, or not.
fn with_tensors(
    mut writer: GgufWriter,
    change: impl Fn(&str, Vec<u64>) -> Option<(Vec<u64>, Vec<f32>)>,
) -> Vec<u8> {
    for (name, shape) in SHAPES {
        if let Some((shape, weights)) = change(name, shape.to_vec()) {
            writer = writer.tensor(name, Encoding::F32, &shape, &bytes(&weights));
        }
    }
    writer.write()
}

fn sound() -> Vec<u8> {
    with_tensors(header(&[]), |_, shape| {
        Some((shape.clone(), weights(&shape)))
    })
}

#[test]
fn the_sound_model_that_the_others_are_broken_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, sound()).unwrap();
    generate(&path).succeeded();
}

#[test]
fn truncated_anywhere() {
    let file = sound();
    let data = file.len()
        - SHAPES
            .iter()
            .map(|(_, shape)| shape.iter().product::<u64>() as usize * 4)
            .sum::<usize>();
    // In the magic, the version, the counts; all over the header; at its end; in the data.
    let header = (0..32).chain((32..data).step_by(29));
    let rest = [
        data - 1,
        data,
        data + 1,
        data + 4000,
        file.len() - 4,
        file.len() - 1,
    ];
    for len in header.chain(rest) {
        refused(
            &format!("the first {len} of {} bytes", file.len()),
            &file[..len],
        );
    }
}

#[test]
fn not_a_model_at_all() {
    refused("an empty file", b"");
    refused(
        "a page",
        b"<!DOCTYPE html><html><body>Sign in to download</body></html>",
    );
    refused("zeros", &[0; 4096]);
    refused(
        "a pointer to another store",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    );
    refused(
        "another version",
        &[b"GGUF".as_slice(), &99u32.to_le_bytes(), &[0; 64]].concat(),
    );
    refused(
        "many keys",
        &[
            b"GGUF".as_slice(),
            &3u32.to_le_bytes(),
            &0u64.to_le_bytes(),
            &u64::MAX.to_le_bytes(),
        ]
        .concat(),
    );
    refused(
        "many tensors",
        &[
            b"GGUF".as_slice(),
            &3u32.to_le_bytes(),
            &(u64::MAX / 2).to_le_bytes(),
            &0u64.to_le_bytes(),
        ]
        .concat(),
    );
    let long_key = [
        b"GGUF".as_slice(),
        &3u32.to_le_bytes(),
        &0u64.to_le_bytes(),
        &1u64.to_le_bytes(),
        &u64::MAX.to_le_bytes(),
    ];
    refused("an endless key", &long_key.concat());
}

#[test]
fn tensors_that_overflow_or_lie_outside() {
    let huge: [&[u64]; 4] = [
        &[u64::MAX, u64::MAX],
        &[1 << 40, 1 << 40],
        &[u64::MAX / 4 + 1],
        &[1 << 33, 32],
    ];
    for shape in huge {
        let file = header(&[])
            .raw_tensor(
                "token_embd.weight",
                Encoding::F32.ggml_type().unwrap(),
                shape,
                &[0; 64],
            )
            .write();
        refused(&format!("a tensor of {shape:?}"), &file);
    }
    let name = b"output.weight";
    let file = sound();
    let at = file
        .windows(name.len())
        .rposition(|window| window == name)
        .unwrap()
        + name.len();
    // Behind the name: how many dimensions, two of them, the type, the offset.
    let offset_at = at + 4 + 16 + 4;
    for offset in [1u64, 1 << 20, 1 << 62, u64::MAX - 31, u64::MAX] {
        let mut file = file.clone();
        file[offset_at..][..8].copy_from_slice(&offset.to_le_bytes());
        refused(&format!("a tensor at {offset}"), &file);
    }
    let mut many_dimensions = file.clone();
    many_dimensions[at..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    refused("a tensor of many dimensions", &many_dimensions);
    let mut unknown_type = file;
    unknown_type[at + 20..][..4].copy_from_slice(&9999u32.to_le_bytes());
    refused("a tensor of an unknown type", &unknown_type);
}

#[test]
fn absent_tensors() {
    for (absent, _) in SHAPES.iter().filter(|(name, _)| *name != "output.weight") {
        let file = with_tensors(header(&[]), |name, shape| {
            (name != *absent).then(|| (shape.clone(), weights(&shape)))
        });
        let line = refused(&format!("no {absent}"), &file);
        assert!(line.contains(absent), "{line}");
    }
}

#[test]
fn wrong_shapes() {
    for (wrong, shape) in SHAPES
        .iter()
        .filter(|(name, _)| *name != "token_embd.weight")
    {
        for factor in [2, 3] {
            let mut other = shape.to_vec();
            other[0] *= factor;
            let file = with_tensors(header(&[]), |name, shape| {
                let shape = if name == *wrong { other.clone() } else { shape };
                Some((shape.clone(), weights(&shape)))
            });
            let line = refused(&format!("{wrong} of {other:?}"), &file);
            assert!(line.contains(wrong), "{line}");
        }
    }
}

#[test]
fn a_norm_of_another_type() {
    // Any encoding will do for a norm, but not ggml's integers (I8, I32) and F64.
    for (ggml_type, len) in [(24, 32), (26, 128), (28, 256)] {
        let mut writer = header(&[]);
        for (name, shape) in SHAPES {
            writer = match *name {
                "output_norm.weight" => writer.raw_tensor(name, ggml_type, shape, &vec![0; len]),
                _ => writer.tensor(name, Encoding::F32, shape, &bytes(&weights(shape))),
            };
        }
        refused(&format!("a norm of type {ggml_type}"), &writer.write());
    }
}

#[test]
fn weights_that_are_no_numbers() {
    for (broken, value) in [
        ("output_norm.weight", f32::NAN),
        ("token_embd.weight", f32::NAN),
        ("output.weight", f32::INFINITY),
        ("blk.0.ffn_norm.weight", f32::INFINITY),
    ] {
        let file = with_tensors(header(&[]), |name, shape| {
            let sound = weights(&shape);
            Some((
                shape,
                if name == broken {
                    vec![value; sound.len()]
                } else {
                    sound
                },
            ))
        });
        let line = refused(&format!("{broken} is {value}"), &file);
        assert!(line.contains("no finite logits"), "{line}");
    }
}

#[test]
fn metadata_that_makes_no_sense() {
    let keys = [
        "general.architecture",
        "llama.embedding_length",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.feed_forward_length",
        "llama.context_length",
    ];
    let values = [
        None,
        Some(Value::U32(0)),
        Some(Value::I32(-1)),
        Some(Value::U64(u64::MAX)),
        Some(Value::F32(f32::NAN)),
        Some(Value::String("many".into())),
        Some(Value::Array(Array::U32(vec![]))),
    ];
    for key in keys {
        for value in &values {
            let file = with_tensors(header(&[(key, value.clone())]), |_, shape| {
                Some((shape.clone(), weights(&shape)))
            });
            refused(&format!("{key} is {value:?}"), &file);
        }
    }
}

#[test]
fn a_missing_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, sound()).unwrap();
    let line = run([
        "generate",
        "--device",
        "host",
        "--prompt",
        "Hello",
        "--model",
        path.to_str().unwrap(),
    ])
    .failed("no tokenizer");
    assert!(line.contains("--tokens works"), "{line}");
}

#[test]
fn tokens_outside_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, sound()).unwrap();
    for token in ["16", "4294967295"] {
        let line = run([
            "generate",
            "--device",
            "host",
            "--tokens",
            token,
            "--model",
            path.to_str().unwrap(),
        ])
        .failed(token);
        assert!(line.contains(token) && line.contains("16"), "{line}");
        let out = folder.path().join("logits");
        run([
            "logits",
            "--device",
            "host",
            "--tokens",
            token,
            "--out",
            out.to_str().unwrap(),
            "--model",
            path.to_str().unwrap(),
        ])
        .failed(token);
    }
}

/// A directory with a sound checkpoint of the same sizes, in Hugging Face's layout.
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
fn configurations() {
    let folder = directory();
    generate(folder.path()).succeeded();
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
    let also = [
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
    for (key, value) in sizes
        .iter()
        .flat_map(|key| wrong.iter().map(move |value| (*key, value)))
        .chain(also.iter().map(|(key, value)| (*key, value)))
    {
        let mut config = config();
        config[key] = value.clone();
        write_config(folder.path(), &config);
        generate(folder.path()).failed(&format!("{key} is {value}"));
    }
    // Fields of other architectures, in a configuration that would be sound without.
    let of_others = [
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
        // What its configuration says is sound; its tensors are not there.
        ("GPT2LMHeadModel", "n_positions", json!(8)),
        ("Olmo2ForCausalLM", "rms_norm_eps", json!(1e-5)),
    ];
    for (architecture, key, value) in of_others {
        let mut config = config();
        config["architectures"] = json!([architecture]);
        config[key] = value.clone();
        write_config(folder.path(), &config);
        generate(folder.path()).failed(&format!("{key} of {architecture} is {value}"));
    }
    for text in ["", "{", "[]", "null", "{\"architectures\":"] {
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        generate(folder.path()).failed(&format!("a config.json of {text:?}"));
    }
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    generate(folder.path()).failed("no config.json");
}

#[test]
fn safetensors() {
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
fn an_index_that_leaves_its_directory() {
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

#[test]
fn paths() {
    let folder = tempfile::tempdir().unwrap();
    generate(&folder.path().join("absent.gguf")).failed("no such file");
    generate(folder.path()).failed("an empty directory");
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, sound()).unwrap();
    generate(&file.join("below")).failed("a file taken for a directory");
    let directory = folder.path().join("directory.gguf");
    std::fs::create_dir(&directory).unwrap();
    generate(&directory).failed("a directory called .gguf");
}
