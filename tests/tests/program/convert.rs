//! `wisp convert`: converted models give the same results, within the error of their encoding.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use safetensors::{Dtype, SafeTensors};
use serde_json::json;
use wisp_engine::weights::{Checkpoint, gguf::Value};
use wisp_tests::{
    encoder,
    goldens::{CAUSAL, ENCODERS, EncoderGolden, Golden, NOT_IN_GGUF, RECURRENT, golden},
    program::{LOGITS_WITHIN, TestDevice, command, generate, ids, logits, run},
    sample,
    shared::shared_data,
    slow_model,
};

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

/// By how much more a model's results may be off than those of models whose layers keep no state.
fn factor(name: &str) -> f64 {
    match RECURRENT.contains(&name) {
        true => 3.0,
        false => 1.0,
    }
}

/// Each matrix product adds an error of the encoding's relative size. The errors are independent, so
/// their squares add up: over the few dozen products of these models to less than ten times the error
/// of one. F16's is at most 2^-11 / √3 = 2.8e-4. Q8_0's is 0.5 / 127 / √3 of the block's extreme, which
/// is less than four times its root mean square: 0.9%. (Few rows of these models are whole blocks, so
/// most of their matrices stay F16.)
#[test]
fn decoders_in_gguf_stay_within_the_error_of_their_encoding() {
    // For those that GGUF cannot express, see the refusals below.
    for name in CAUSAL.iter().filter(|name| !NOT_IN_GGUF.contains(name)) {
        let Some((directory, golden)) = golden::<Golden>(name) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let f16 = 2.8e-3 * factor(name);
        let encodings = [("f32", 1e-4), ("f16", f16), ("q8_0", 0.09)];
        for (i, (encoding, bound)) in encodings.into_iter().enumerate() {
            // One of the others, in each turn another.
            if i > 0 && !sample::has(name, i, 2) {
                continue;
            }
            let out = folder.path().join(format!("{encoding}.gguf"));
            convert(&directory, &out, encoding);
            let got = logits(Some(&out), TestDevice::Host, &golden.tokens, &[]);
            let (largest, relative) = off(&got, &golden.logits);
            println!("{name} in {encoding}: within {largest:.1e}, relative {relative:.1e}");
            assert!(relative <= bound, "{name} in {encoding}: {relative}");
            if encoding == "f32" {
                assert!(largest <= LOGITS_WITHIN, "{name}: {largest}");
                let count = golden.greedy.len();
                let got = generate(Some(&out), TestDevice::Host, &golden.tokens, count, &[]);
                assert_eq!(got.tokens, golden.greedy, "{name}");
            }
        }
    }
}

#[test]
fn gguf_is_encoded_anew_with_its_metadata() {
    let Some(model) = shared_data("models/stories260K/stories260K.gguf") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("q8.gguf");
    let report = convert(&model, &out, "q8_0");
    let total = &report["report"]["total"];
    assert!(total["relative_error"].as_f64().unwrap() < 0.01, "{report}");
    assert!(
        report["report"]["notes"]
            .to_string()
            .contains("needs rows of a multiple of 32"),
        "{report}"
    );
    let (before, after) = (
        Checkpoint::open(&model).unwrap(),
        Checkpoint::open(&out).unwrap(),
    );
    let key = "tokenizer.ggml.tokens";
    let [before, after] = [&before, &after].map(|file| file.gguf().unwrap().metadata[key].clone());
    assert_eq!(before, after);
    // The columns are not whole super-blocks, so every matrix falls back to another encoding.
    let out = folder.path().join("q6.gguf");
    let report = convert(&model, &out, "q6_k");
    let encodings = &report["report"]["total"]["encodings"];
    assert_eq!(
        *encodings,
        serde_json::json!(["q8_0", "f32", "f16"]),
        "{report}"
    );
    assert_eq!(
        generate(Some(&out), TestDevice::Host, &[1], 20, &[]).tokens,
        generate(Some(&model), TestDevice::Host, &[1], 20, &[]).tokens
    );
}

/// GGUF has one epsilon for all norms; transformers has another for those of latent attention.
#[test]
fn small_changes_of_an_epsilon_are_noted_and_large_ones_refused() {
    let Some((directory, golden)) = golden::<Golden>("deepseek-v3") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let config = std::fs::read(directory.join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    let mut with_eps = |eps: f64| {
        let model = at(&format!("{eps:e}"));
        std::fs::create_dir(&model).unwrap();
        config["rms_norm_eps"] = eps.into();
        std::fs::write(model.join("config.json"), config.to_string()).unwrap();
        let weights = "model.safetensors";
        std::fs::copy(directory.join(weights), model.join(weights)).unwrap();
        model
    };
    let notes = |model: &Path, out: &str| {
        let report = convert(model, &at(out), "f32");
        report["report"]["notes"].to_string()
    };
    let said = "get 1e-5 in place of 1e-6";
    let unchanged = notes(&directory, "unchanged.gguf");
    assert!(!unchanged.contains("epsilon"), "{unchanged}");
    let model = with_eps(1e-5);
    let changed = notes(&model, "changed.gguf");
    assert!(changed.contains(said), "{changed}");
    let [before, after] = [model, at("changed.gguf")]
        .map(|model| logits(Some(&model), TestDevice::Host, &golden.tokens, &[]));
    let (_, relative) = off(&after, &before);
    // 1.3e-5 was measured.
    assert!(relative > 1e-6 && relative <= 1e-4, "{relative}");
    let [model, out] = [with_eps(1e-3), at("refused.gguf")];
    let [model, out] = [&model, &out].map(|path| path.to_str().unwrap());
    let line = run(["convert", "--model", model, "--out", out]).failed("another epsilon");
    assert!(line.contains("epsilon of the norms in latent"), "{line}");
}

#[test]
fn impossible_conversions_are_refused_and_leave_no_files() {
    let Some((directory, _)) = golden::<Golden>("llama") else {
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
    // GGUF cannot express which layers do not rotate; readers take every fourth.
    let (other, _) = golden::<Golden>("smollm3").unwrap();
    let args = ["convert", "--model", other.to_str().unwrap(), "--out"];
    let line = run([&args[..], &[&at("y.gguf")]].concat()).failed("odd layers");
    assert!(
        line.contains("cannot express this model's layers without rotation"),
        "{line}"
    );
    let line = to(&at("no/folder.gguf"), &[]).failed("no folder");
    assert!(line.contains("cannot write"), "{line}");
    for name in ["model.bin", "model.safetensors"] {
        let line = to(&at(name), &[]).failed("another ending");
        assert!(line.contains(".gguf"), "{line}");
    }
    let line = to(&at("turned.gguf"), &["--rope-type", "neox"]).failed("another rotation");
    assert!(line.contains("--rope-type"), "{line}");
    let line = to(&at("blocks"), &["--encoding", "q8_0"]).failed("blocks in safetensors");
    assert!(line.contains("safetensors cannot hold Q8_0"), "{line}");
    let args = [
        "convert",
        "--model",
        &at("there.gguf"),
        "--out",
        &at("back"),
    ];
    let line = run(args).failed("GGUF to safetensors");
    assert!(line.contains("lacks much of what"), "{line}");
    let line = run([
        "convert",
        "--model",
        model,
        "--out",
        folder.path().to_str().unwrap(),
    ])
    .failed("a full directory");
    assert!(line.contains("not empty"), "{line}");
    assert_eq!(to(&at("x.gguf"), &["--encoding", "q3_k"]).status, Some(2));
    // No incomplete file is left.
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

fn hidden(model: &Path, tokens: &[u32]) -> Vec<Vec<f32>> {
    let (model, ids) = (model.to_str().unwrap(), ids(tokens));
    let args = ["encode", "--json", "--device", "host", "--model", model];
    let json = run([&args[..], &["--tokens", &ids, "--pooling", "none"]].concat()).json();
    serde_json::from_value(json["hidden"][0].clone()).unwrap()
}

/// The bounds equal those of decoders.
#[test]
fn encoders_in_gguf_stay_within_the_error_of_their_encoding() {
    for name in ENCODERS {
        let Some((directory, golden)) = golden::<EncoderGolden>(name) else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        for (encoding, bound) in [("f32", 1e-4), ("f16", 2.8e-3), ("q8_0", 0.09)] {
            let out = folder.path().join(format!("{encoding}.gguf"));
            convert(&directory, &out, encoding);
            let (largest, relative) = off(&hidden(&out, &golden.tokens), &golden.last_hidden_state);
            println!("{name} in {encoding}: within {largest:.1e}, relative {relative:.1e}");
            assert!(relative <= bound, "{name} in {encoding}: {relative}");
            assert!(
                encoding != "f32" || largest <= LOGITS_WITHIN,
                "{name}: {largest}"
            );
        }
    }
}

/// bfloat16's error is 2^-8 / √3 at most, eight times float16's.
#[test]
fn decoders_in_safetensors_stay_within_the_error_of_their_encoding() {
    let packed = "gpt-oss-mxfp4";
    for name in CAUSAL.iter().filter(|name| **name != packed) {
        let Some((directory, golden)) = golden::<Golden>(name) else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let factor = factor(name);
        let encodings = [
            ("f32", "float32", 0.0),
            ("f16", "float16", 2.8e-3 * factor),
            ("bf16", "bfloat16", 2.3e-2 * factor),
        ];
        for (i, (encoding, dtype, bound)) in encodings.into_iter().enumerate() {
            if i > 0 && !sample::has(name, i, 2) {
                continue;
            }
            let out = folder.path().join(encoding);
            convert(&directory, &out, encoding);
            let config = std::fs::read(out.join("config.json")).unwrap();
            let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
            assert_eq!(config["dtype"], dtype);
            if encoding == "f32" {
                let read = |folder: &Path| encoder::read(folder);
                assert!(read(&out) == read(&directory), "{name}");
                continue;
            }
            let got = logits(Some(&out), TestDevice::Host, &golden.tokens, &[]);
            let (_, relative) = off(&got, &golden.logits);
            println!("{name} in {encoding}: relative {relative:.1e}");
            assert!(relative <= bound, "{name} in {encoding}: {relative}");
        }
    }
    // The experts' bytes are no integers that can be left out.
    if let Some((directory, _)) = golden::<Golden>(packed) {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let [model, out] = [&directory, &out].map(|path| path.to_str().unwrap());
        let line = run(["convert", "--model", model, "--out", out]).failed("packed experts");
        assert!(line.contains("safetensors cannot hold MXFP4"), "{line}");
    }
}

#[test]
fn tokenizers_are_converted_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("model")).unwrap();
    encoder::bert(&at("model"));
    let tokens = |model: &Path| {
        let args = ["tokenize", "--json", "--model", model.to_str().unwrap()];
        run([&args[..], &["--text", "The kitten sleeps. Cat runs?"]].concat()).json()["tokens"]
            .clone()
    };
    let expected = tokens(&at("model"));
    for out in ["new", "new.gguf"] {
        let report = convert(&at("model"), &at(out), "f16");
        assert_eq!(report["report"]["notes"], json!([]), "{out}");
        assert_eq!(tokens(&at(out)), expected, "{out}");
    }
    let file = std::fs::read(at("new/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    assert!(file.iter().all(|(_, tensor)| tensor.dtype() == Dtype::F16));
    // A file without a tokenizer says so, because llama.cpp refuses it otherwise.
    std::fs::remove_file(at("model/tokenizer.json")).unwrap();
    std::fs::write(at("model/tokenizer.model"), "pieces").unwrap();
    let report = convert(&at("model"), &at("none.gguf"), "f16");
    let notes = report["report"]["notes"].to_string();
    assert!(notes.contains("tokenizer.model is not read"), "{notes}");
    let written = Checkpoint::open(at("none.gguf")).unwrap();
    let kind = &written.gguf().unwrap().metadata["tokenizer.ggml.model"];
    assert_eq!(kind, &Value::String("none".into()));
    let args = ["tokenize", "--text", "cat", "--model"];
    let line =
        run([&args[..], &[at("none.gguf").to_str().unwrap()]].concat()).failed("no tokenizer");
    assert!(line.contains("tokenizer"), "{line}");
}

#[cfg(unix)]
#[test]
fn empty_directories_behind_links_and_dots_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["model", "empty", "current"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    encoder::bert(&at("model"));
    std::os::unix::fs::symlink("empty", at("link")).unwrap();
    convert(&at("model"), &at("link"), "f16");
    assert!(at("link").is_symlink() && at("empty/model.safetensors").is_file());
    let model = at("model");
    let args = ["convert", "--out", ".", "--model", model.to_str().unwrap()];
    let output = command(args).current_dir(at("current")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(at("current/model.safetensors").is_file());
}

#[cfg(unix)]
#[test]
fn interrupted_conversions_leave_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    slow_model::write(&model);
    for (out, encoding) in [("new.gguf", "q4_k"), ("new", "f16")] {
        for presses in [1, 2, 5] {
            let out = folder.path().join(out);
            let [model, out] = [&model, &out].map(|path| path.to_str().unwrap());
            let args = [
                "convert",
                "--model",
                model,
                "--out",
                out,
                "--encoding",
                encoding,
            ];
            let child = command(args).spawn().unwrap();
            let entries = || {
                let entries = std::fs::read_dir(folder.path()).unwrap().flatten();
                let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
                names.sort();
                names
            };
            let start = Instant::now();
            while entries().len() == 1 {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "nothing is written"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            for _ in 0..presses {
                let kill = Command::new("kill")
                    .args(["-INT", &child.id().to_string()])
                    .status();
                assert!(kill.unwrap().success());
            }
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(130), "{stderr}");
            // The second signal exits at once.
            let explained = stderr.contains("interrupted; nothing was written");
            assert!(explained || presses > 1, "{stderr}");
            assert_eq!(entries(), ["model"], "{presses} times");
        }
    }
}

#[test]
fn extension_of_the_output_may_be_in_upper_case() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("MODEL.GGUF");
    run(["convert", "--out", out.to_str().unwrap()]).succeeded();
    assert!(std::fs::read(&out).unwrap().starts_with(b"GGUF"));
}
