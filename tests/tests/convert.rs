//! `wisp convert`: what it writes computes the same, within the error of its encoding.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use wisp_engine::weights::Checkpoint;
use wisp_tests::{
    program::{LOGITS_WITHIN, Place, generate, logits, run},
    shared::shared_data,
};

/// Checkpoints of architectures that GGUF has.
const GOLDENS: &[&str] = &[
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
    "starcoder2",
    "gpt2",
    "gpt-neox",
];

#[derive(Deserialize)]
struct Golden {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
    greedy: Vec<u32>,
}

fn golden(name: &str) -> Option<(PathBuf, Golden)> {
    let directory = shared_data(&format!("goldens/{name}"))?;
    let text = std::fs::read_to_string(directory.join("golden.json")).unwrap();
    Some((directory, serde_json::from_str(&text).unwrap()))
}

fn convert(model: &Path, out: &Path, encoding: &str) -> serde_json::Value {
    let [model, out] = [model, out].map(|path| path.to_str().unwrap());
    let fixed = ["convert", "--json", "--model", model, "--out", out];
    run([&fixed[..], &["--encoding", encoding]].concat()).json()
}

/// The largest difference of two results, and the root-mean-square one relative to the second.
fn off(got: &[Vec<f32>], expected: &[Vec<f32>]) -> (f32, f64) {
    let (mut largest, mut error, mut norm) = (0f32, 0f64, 0f64);
    for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
        assert!(got.is_finite());
        largest = largest.max((got - expected).abs());
        error += f64::from(got - expected).powi(2);
        norm += f64::from(*expected).powi(2);
    }
    (largest, (error / norm).sqrt())
}

/// Each matrix product adds an error of the encoding's relative size, independent of the others, so
/// that errors add up as squares: over the few dozen products of these models, to less than ten
/// times the error of one. F16's is 2^-11 / √3 = 2.8e-4 at most, Q8_0's 0.5 / 127 / √3 of the
/// block's extreme, which is less than four times its root mean square: 0.9%. (Few of these models'
/// rows are whole blocks: most of their matrices stay F16.)
#[test]
fn goldens_in_gguf() {
    for name in GOLDENS {
        let Some((directory, golden)) = golden(name) else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        for (encoding, bound) in [("f32", 1e-4), ("f16", 2.8e-3), ("q8_0", 0.09)] {
            let out = folder.path().join(format!("{encoding}.gguf"));
            convert(&directory, &out, encoding);
            let got = logits(Some(&out), Place::Host, &golden.tokens, &[]);
            let (largest, relative) = off(&got, &golden.logits);
            println!("{name} in {encoding}: within {largest:.1e}, relative {relative:.1e}");
            assert!(relative <= bound, "{name} in {encoding}: {relative}");
            if encoding == "f32" {
                assert!(largest <= LOGITS_WITHIN, "{name}: {largest}");
                let count = golden.greedy.len();
                let got = generate(Some(&out), Place::Host, &golden.tokens, count, &[]);
                assert_eq!(got.tokens, golden.greedy, "{name}");
            }
        }
    }
}

#[test]
fn gguf_in_another_encoding() {
    let Some(model) = shared_data("models/stories260K/stories260K.gguf") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("q8.gguf");
    let report = convert(&model, &out, "q8_0");
    let total = &report["report"]["total"];
    assert!(total["relative_error"].as_f64().unwrap() < 0.01, "{report}");
    assert!(
        report["report"]["notes"].to_string().contains("stays F16"),
        "{report}"
    );
    let (before, after) = (
        Checkpoint::open(&model).unwrap(),
        Checkpoint::open(&out).unwrap(),
    );
    let key = "tokenizer.ggml.tokens";
    let [before, after] = [&before, &after].map(|file| file.gguf().unwrap().metadata[key].clone());
    assert_eq!(before, after);
    // 256 columns are no whole number of super-blocks here: everything falls back.
    let out = folder.path().join("q6.gguf");
    convert(&model, &out, "q6_k");
    assert_eq!(
        generate(Some(&out), Place::Host, &[1], 20, &[]).tokens,
        generate(Some(&model), Place::Host, &[1], 20, &[]).tokens
    );
}

#[test]
fn refusals() {
    let Some((directory, _)) = golden("llama") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let model = directory.to_str().unwrap();
    let to = |out: &str, more: &[&str]| {
        run([&["convert", "--model", model, "--out", out], more].concat())
    };
    std::fs::write(at("there.gguf"), "text").unwrap();
    let line = to(&at("there.gguf"), &[]).failed("an existing file");
    assert!(line.contains("--force"), "{line}");
    assert_eq!(std::fs::read(at("there.gguf")).unwrap(), b"text");
    to(&at("there.gguf"), &["--force"]).succeeded();
    Checkpoint::open(at("there.gguf")).unwrap();
    // GGUF says nowhere which layers have no positions; readers take every fourth.
    let (other, _) = golden("smollm3").unwrap();
    let args = ["convert", "--model", other.to_str().unwrap(), "--out"];
    let line = run([&args[..], &[&at("y.gguf")]].concat()).failed("odd layers");
    assert!(
        line.contains("cannot express this model's layers without positions"),
        "{line}"
    );
    let line = to(&at("no/folder.gguf"), &[]).failed("no folder");
    assert!(line.contains("cannot write"), "{line}");
    let line = to(&at("model.bin"), &[]).failed("another ending");
    assert!(line.contains(".gguf"), "{line}");
    assert_eq!(to(&at("x.gguf"), &["--encoding", "q3_k"]).status, Some(2));
    // Nothing half-written is left anywhere.
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
