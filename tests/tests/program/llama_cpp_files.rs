//! What llama.cpp requires of GGUF files, and what its own converter writes otherwise than `wisp convert`. The scripts
//! `llama_cpp.py` and `llama_cpp_convert.py` compare results with llama.cpp itself.

use std::path::Path;

use wisp_engine::weights::{
    Checkpoint, Encoding, WeightSource,
    gguf::{Array, Value},
};
use wisp_tests::{
    gguf_writer::GgufWriter,
    goldens::{Golden, golden},
    program::{TestDevice, assert_rows_close, logits, run},
};

fn convert(directory: &Path, out: &Path) {
    let [model, out] = [directory, out].map(|path| path.to_str().unwrap());
    let args = [
        "convert",
        "--model",
        model,
        "--out",
        out,
        "--encoding",
        "f32",
    ];
    run(args).succeeded();
}

/// Converts a golden and returns the new file.
fn converted(name: &str) -> Checkpoint {
    let (directory, _) = golden::<serde_json::Value>(name).expect("a golden of the repository");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model.gguf");
    convert(&directory, &out);
    Checkpoint::from_bytes("model.gguf", std::fs::read(&out).unwrap()).unwrap()
}

#[test]
fn tensors_have_the_names_and_dimensions_that_llama_cpp_requires() {
    let tensors: [(&str, &str, &[u64]); 10] = [
        // A row for each group.
        ("granite-hybrid", "blk.0.ssm_norm.weight", &[2, 30]),
        ("nemotron-h", "blk.0.ssm_norm.weight", &[2, 30]),
        // Filters without the dimension of size 1.
        ("lfm2", "blk.0.shortconv.conv.weight", &[30, 4]),
        ("nemotron-h", "blk.0.ssm_conv1d.weight", &[88, 3]),
        // This name has no suffix.
        ("falcon-h1", "blk.0.ffn_norm", &[30]),
        // Gate and up projection are one.
        ("modernbert-reranker", "blk.0.ffn_up.weight", &[92, 30]),
        // Matrices of versions of the residual stream are one tensor, and every token has embeddings of layers.
        ("gemma3n", "altup_proj.weight", &[2, 30, 30]),
        ("gemma3n", "per_layer_token_embd.weight", &[67, 35]),
        // The rotation of half a head.
        ("gemma4", "rope_freqs.weight", &[7]),
        // The shared expert's gate and up projection are two, unlike those of the checkpoint.
        ("granite-hybrid-moe", "blk.0.ffn_up_shexp.weight", &[26, 30]),
    ];
    for (name, tensor, shape) in tensors {
        let file = converted(name);
        let found = file
            .find(tensor)
            .unwrap_or_else(|| panic!("{name}: {tensor}"));
        assert_eq!(found.shape, shape, "{name}: {tensor}");
    }
}

#[test]
fn metadata_has_the_keys_that_llama_cpp_requires() {
    let recurrent = vec![true, false, true, true];
    let keys = [
        (
            "nemotron-h",
            "nemotron_h.attention.layer_norm_epsilon",
            Value::F32(1e-5),
        ),
        (
            "nemotron-h-moe",
            "nemotron_h_moe.attention.layer_norm_epsilon",
            Value::F32(1e-5),
        ),
        (
            "phimoe",
            "phimoe.attention.layer_norm_rms_epsilon",
            Value::F32(1e-5),
        ),
        // Queries without a low rank have the rank 0.
        (
            "deepseek-v2",
            "deepseek2.attention.q_lora_rank",
            Value::U32(0),
        ),
        (
            "qwen3-5",
            "qwen35.attention.recurrent_layers",
            Value::Array(Array::Bool(recurrent.clone())),
        ),
        (
            "qwen3-next",
            "qwen3next.attention.recurrent_layers",
            Value::Array(Array::Bool(recurrent)),
        ),
        ("llama4", "llama4.interleave_moe_layer_step", Value::U32(2)),
        (
            "gemma3n",
            "gemma3n.feed_forward_length",
            Value::Array(Array::U32(vec![46, 34, 46, 34, 34])),
        ),
        ("gemma4", "gemma4.attention.key_length", Value::U32(14)),
        ("gemma4", "gemma4.attention.key_length_swa", Value::U32(6)),
        (
            "gemma4-moe",
            "gemma4.attention.head_count_kv",
            Value::Array(Array::I32(vec![2, 1])),
        ),
    ];
    for (name, key, value) in keys {
        let file = converted(name);
        assert_eq!(
            file.gguf().unwrap().metadata.get(key),
            Some(&value),
            "{name}: {key}"
        );
    }
}

/// The sizes of the heads of a file of DeepSeek.
struct Heads {
    count: usize,
    unrotated: usize,
    value: usize,
    rank: usize,
}

/// Splits the projection of keys and values from their low rank into those of keys, transposed, and those of values.
fn split(values: &[f32], heads: &Heads) -> [Vec<f32>; 2] {
    let (mut keys, mut of_values) = (Vec::new(), Vec::new());
    let size = heads.unrotated + heads.value;
    for head in values.chunks(size * heads.rank) {
        let (key, value) = head.split_at(heads.unrotated * heads.rank);
        for column in 0..heads.rank {
            keys.extend(key.iter().skip(column).step_by(heads.rank));
        }
        of_values.extend_from_slice(value);
    }
    [keys, of_values]
}

/// Writes a file of DeepSeek as llama.cpp's converter does.
fn with_split_projections(file: &Checkpoint) -> Vec<u8> {
    let heads = Heads {
        count: 4,
        unrotated: 10,
        value: 9,
        rank: 18,
    };
    let mut writer = GgufWriter::new(3, false);
    // The sizes of attention to the low rank, whose heads share one key.
    let sizes = [
        ("key_length", 24),
        ("value_length", 18),
        ("head_count_kv", 1),
        ("key_length_mla", 16),
        ("value_length_mla", 9),
    ];
    let sizes = sizes.map(|(key, size)| (format!("deepseek2.attention.{key}"), size));
    for (key, value) in &file.gguf().unwrap().metadata {
        if sizes.iter().all(|(other, _)| other != key) {
            writer = writer.key(key, value.clone());
        }
    }
    for (key, size) in &sizes {
        writer = writer.key(key, Value::U32(*size));
    }
    for tensor in file.tensors() {
        let bytes = file.bytes(&tensor.name, 0..tensor.len).unwrap();
        let Some(block) = tensor.name.strip_suffix("attn_kv_b.weight") else {
            writer = writer.tensor(&tensor.name, Encoding::F32, &tensor.shape, &bytes);
            continue;
        };
        let [keys, values] = split(&bytemuck::pod_collect_to_vec(&bytes), &heads);
        let [count, unrotated, value, rank] =
            [heads.count, heads.unrotated, heads.value, heads.rank].map(|size| size as u64);
        let parts = [
            ("attn_k_b.weight", keys, [count, rank, unrotated]),
            ("attn_v_b.weight", values, [count, value, rank]),
        ];
        for (name, values, shape) in parts {
            let bytes: &[u8] = bytemuck::cast_slice(&values);
            writer = writer.tensor(&format!("{block}{name}"), Encoding::F32, &shape, bytes);
        }
    }
    writer.write()
}

#[test]
fn split_projections_of_keys_and_values_give_the_results_of_the_joint_one() {
    for name in ["deepseek-v2", "deepseek-v3"] {
        let (_, golden) = golden::<Golden>(name).expect("a golden of the repository");
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("split.gguf");
        std::fs::write(&out, with_split_projections(&converted(name))).unwrap();
        let found = logits(Some(&out), TestDevice::Host, &golden.tokens, &[]);
        assert_rows_close(name, &found, &golden.logits);
    }
}

/// The format's width of the feed-forward network is that of experts, of which the model has none.
#[test]
fn granite_without_experts_has_the_width_of_the_shared_one() {
    let name = "granite-hybrid";
    let (_, golden) = golden::<Golden>(name).expect("a golden of the repository");
    let file = converted(name);
    let shared = "granitehybrid.expert_shared_feed_forward_length";
    let mut writer = GgufWriter::new(3, false).key(shared, Value::U32(26));
    for (key, value) in &file.gguf().unwrap().metadata {
        let value = match &**key {
            "granitehybrid.feed_forward_length" => Value::U32(46),
            _ => value.clone(),
        };
        writer = writer.key(key, value);
    }
    for tensor in file.tensors() {
        let bytes = file.bytes(&tensor.name, 0..tensor.len).unwrap();
        writer = writer.tensor(&tensor.name, Encoding::F32, &tensor.shape, &bytes);
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model.gguf");
    std::fs::write(&out, writer.write()).unwrap();
    let found = logits(Some(&out), TestDevice::Host, &golden.tokens, &[]);
    assert_rows_close(name, &found, &golden.logits);
}
