//! Models from a hub, with the command line and a local server that can misbehave.

mod cache;
mod repositories;
mod transfers;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;
use wisp_tests::{
    hub::{COMMIT, Fault, Hub, git_blob_id, sha256},
    parallel,
    program::{Run, run, run_command},
    pytorch_writer,
};

const TINY: &[u8] = include_bytes!("../../../../native-demo/model/wisp-tiny.gguf");

const GENERATE: &[&str] = &["--device", "host", "--json", "--tokens", "1,2,3", "-n", "4"];

fn home() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn generate(hub: &Hub, home: &Path, model: &str, flags: &[&str]) -> Run {
    run_command(command(hub, home, model, flags), "")
}

fn command(hub: &Hub, home: &Path, model: &str, flags: &[&str]) -> Command {
    let args = [&["generate", "--model", model], GENERATE, flags].concat();
    hub.command(home, &args)
}

fn tokens(run: Run) -> Value {
    run.json()["tokens"].clone()
}

/// The tokens of the built-in model, which is the model on the hub.
fn expected() -> Value {
    static TOKENS: OnceLock<Value> = OnceLock::new();
    let generate = || tokens(run([&["generate"], GENERATE].concat()));
    TOKENS.get_or_init(generate).clone()
}

/// A hub with the built-in model as `org/tiny`.
fn tiny_hub() -> Hub {
    let hub = Hub::start();
    hub.add("org/tiny", "tiny-Q8_0.gguf", TINY);
    hub.add("org/tiny", "README.md", "# Tiny");
    hub
}

fn snapshot(home: &Path, repo: &str) -> PathBuf {
    let folder = format!("models--{}", repo.replace('/', "--"));
    home.join("hub").join(folder).join("snapshots").join(COMMIT)
}

/// The sizes of the partial files in a cache.
fn partials(home: &Path) -> Vec<u64> {
    let blobs = home.join("hub/models--org--tiny/blobs");
    let files = std::fs::read_dir(blobs).expect("blobs").flatten();
    files
        .filter(|file| file.path().extension().is_some_and(|e| e == "incomplete"))
        .map(|file| file.metadata().expect("metadata").len())
        .collect()
}

/// Adds a small model in Hugging Face's layout, in two files with an index.
fn sharded(hub: &Hub, repo: &str) {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "torch_dtype": "float32", "tie_word_embeddings": true,
    });
    hub.add(repo, "config.json", config.to_string());
    let layer = "model.layers.0.";
    let tensors: Vec<(String, Vec<usize>)> = [
        ("model.embed_tokens.weight", vec![16, 32]),
        ("model.norm.weight", vec![32]),
        ("input_layernorm.weight", vec![32]),
        ("post_attention_layernorm.weight", vec![32]),
        ("self_attn.q_proj.weight", vec![32, 32]),
        ("self_attn.k_proj.weight", vec![32, 32]),
        ("self_attn.v_proj.weight", vec![32, 32]),
        ("self_attn.o_proj.weight", vec![32, 32]),
        ("mlp.gate_proj.weight", vec![48, 32]),
        ("mlp.up_proj.weight", vec![48, 32]),
        ("mlp.down_proj.weight", vec![32, 48]),
    ]
    .into_iter()
    .map(|(name, shape)| match name.starts_with("model.") {
        true => (name.to_string(), shape),
        false => (format!("{layer}{name}"), shape),
    })
    .collect();
    let mut map = serde_json::Map::new();
    for (i, half) in tensors.chunks(6).enumerate() {
        let file = format!("model-{:05}-of-00002.safetensors", i + 1);
        let data: Vec<(String, Vec<usize>, Vec<u8>)> = half
            .iter()
            .map(|(name, shape)| {
                let count: usize = shape.iter().product();
                let value = |n: usize| (n * 2_654_435_761 % 1000) as f32 / 1000.0 - 0.5;
                let bytes = (0..count).flat_map(|n| value(n).to_le_bytes()).collect();
                (name.clone(), shape.clone(), bytes)
            })
            .collect();
        let views = data.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor");
            (name.clone(), view)
        });
        let bytes = safetensors::serialize(views, None).expect("safetensors");
        hub.add(repo, &file, bytes);
        map.extend(half.iter().map(|(name, _)| (name.clone(), json!(file))));
    }
    let index = json!({ "metadata": {}, "weight_map": map });
    hub.add(repo, "model.safetensors.index.json", index.to_string());
}
