//! Damaged files and invalid requests end with one line on standard error and exit status 1.

mod directories;
mod gguf;
mod requests;

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

/// The tensors of a small model: 16 tokens, width 32, 2 heads, one block.
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

/// Pseudo-random weights, the same in every run.
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

/// The metadata of the small model. `instead` replaces keys, or removes them with `None`.
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

/// Adds the tensors of the small model. `change` returns the shape and weights of each, or `None` to leave
/// it out.
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

/// The small model as an intact file.
fn sound() -> Vec<u8> {
    with_tensors(header(&[]), |_, shape| {
        Some((shape.clone(), weights(&shape)))
    })
}
