//! Tiny random checkpoints and their results in transformers in float32: those of `fixtures/goldens`,
//! which `scripts/goldens.py` and `scripts/quantized_goldens.py` make, and those of the shared data.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::shared::shared_data;

/// The directories of decoders. A new architecture adds a row here.
pub const CAUSAL: &[&str] = &[
    "llama",
    "llama3-rope-tied",
    "llama-linear-rope-bias",
    "llama-yarn",
    "mistral-swa",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3-moe",
    "gemma",
    "gemma2",
    "gemma3",
    "phi3",
    "olmo2",
    "granite",
    "smollm3",
    "starcoder2",
    "gpt2",
    "gpt-neox",
    "olmo3",
    "exaone4",
    "glm4",
    "glm4-moe",
    "ministral3",
    "cohere2",
    "ernie4-5",
    "ernie4-5-moe",
    "hunyuan-dense",
    "qwen2-moe",
    "phi4-mini",
    "lfm2",
    "lfm2-moe",
    "deepseek-v2",
    "deepseek-v3",
    "gpt-oss",
    "gpt-oss-mxfp4",
    "qwen3-next",
    "qwen3-5",
    "qwen3-5-moe",
    "granite-hybrid",
    "granite-hybrid-moe",
    "falcon-h1",
    "falcon-h1-biases",
    "nemotron-h",
    "nemotron-h-moe",
    "phimoe",
    "llama4",
    "gemma3n",
    "gemma4",
    "gemma4-moe",
    "qwen2-5-vl",
    "qwen3-vl-moe",
];

/// Decoders whose recurrent state carries the errors of reduced precision on. On these checkpoints, with weights rounded
/// to F16 or BF16, transformers' own logits are off by up to 5.4e-3 or 6.6e-2 (‖a − b‖ / ‖b‖).
pub const RECURRENT: &[&str] = &[
    "qwen3-next",
    "qwen3-5",
    "qwen3-5-moe",
    "granite-hybrid",
    "granite-hybrid-moe",
    "falcon-h1",
    "falcon-h1-biases",
    "nemotron-h",
    "nemotron-h-moe",
];

/// Decoders that GGUF cannot express as they are here.
pub const NOT_IN_GGUF: &[&str] = &["smollm3", "falcon-h1-biases"];

/// The directories of decoders with quantised weights, which `scripts/quantized_goldens.py` makes.
pub const QUANTIZED: &[&str] = &[
    "fp8-block",
    "fp8-tensor",
    "fp8-deepseek-v3",
    "fp8-compressed",
    "gptq",
    "gptq-act-order",
    "gptq-8bit",
    "awq",
    "w4a16",
    "w4a16-act-order",
    "w8a16",
    "nvfp4",
    "nvfp4-modelopt",
    "nf4",
    "nf4-nested",
];

/// The directories of encoders.
pub const ENCODERS: &[&str] = &[
    "bert",
    "xlm-roberta",
    "modernbert",
    "nomic-bert",
    "jina-embeddings-v3",
];

/// The directories of encoders with a head that scores pairs of texts.
pub const RERANKERS: &[&str] = &[
    "bert-reranker",
    "xlm-roberta-reranker",
    "modernbert-reranker",
];

/// The directories of models that embed texts, in the layout of sentence-transformers.
pub const EMBEDDERS: &[&str] = &["qwen3-embedding", "embedding-gemma"];

/// Transformers' results for a decoder.
#[derive(Clone, Debug, Deserialize)]
pub struct Golden {
    /// The token ids of the prompt.
    pub tokens: Vec<u32>,
    /// `[tokens, vocab]`.
    pub logits: Vec<Vec<f32>>,
    /// The greedy tokens after the prompt.
    pub greedy: Vec<u32>,
}

/// Transformers' results for an encoder.
#[derive(Clone, Debug, Deserialize)]
pub struct EncoderGolden {
    /// The token ids of the encoded text.
    pub tokens: Vec<u32>,
    /// `[tokens, hidden]`.
    pub last_hidden_state: Vec<Vec<f32>>,
    /// The embedding, if the model has a pooling.
    #[serde(default)]
    pub embedding: Vec<f32>,
}

/// Returns a checkpoint's directory; prints a note and returns `None` if it belongs to the shared data and
/// that is missing.
pub fn directory(name: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/goldens");
    match own.join(name) {
        own if own.exists() => Some(own),
        _ => shared_data(&format!("goldens/{name}")),
    }
}

/// Returns a checkpoint's directory and its results; prints a note and returns `None` without shared data.
///
/// # Panics
///
/// If the results cannot be read.
pub fn golden<T: for<'de> Deserialize<'de>>(name: &str) -> Option<(PathBuf, T)> {
    let directory = directory(name)?;
    let text = std::fs::read(directory.join("golden.json")).expect("the results");
    let golden = serde_json::from_slice(&text).expect("results of this kind");
    Some((directory, golden))
}

/// Runs a check on each of the named checkpoints that is available.
pub fn for_each<T: for<'de> Deserialize<'de>>(names: &[&str], check: impl Fn(&str, &Path, &T)) {
    for name in names {
        if let Some((directory, golden)) = golden(name) {
            check(name, &directory, &golden);
        }
    }
}
