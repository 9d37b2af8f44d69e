//! Tiny checkpoints with quantised weights in Hugging Face's layout, compared with transformers' results for the
//! weights that the methods' own packages compute.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wisp_tests::{
    goldens::{Golden, QUANTIZED, directory, for_each, golden},
    on_every_device_and_class,
    program::{TestDevice, assert_rows_close, generate, logits, run},
};

/// One checkpoint for each encoding on a device, with a gather of columns: formats differ only while they are loaded.
const ON_GPUS: &[&str] = &[
    "fp8-block",
    "gptq-act-order",
    "gptq-8bit",
    "nf4-nested",
    "nvfp4-modelopt",
];

fn quantized_weights_match_the_reference(place: TestDevice) {
    let is_host = place == TestDevice::Host;
    let names = if is_host { QUANTIZED } else { ON_GPUS };
    for_each(names, |name, directory, golden: &Golden| {
        let flags = [
            "--prefill-chunk",
            "7",
            "--cache-strategy",
            "paged",
            "--page-size",
            "3",
        ];
        let what = format!("{name} on {place:?}");
        let got = logits(Some(directory), place, &golden.tokens, &flags);
        let off = assert_rows_close(&what, &got, &golden.logits);
        println!("{what}: within {off:.1e}");
        if is_host {
            let count = golden.greedy.len();
            let got = generate(Some(directory), place, &golden.tokens, count, &flags);
            assert_eq!(got.tokens, golden.greedy, "{what}");
        }
    });
}

on_every_device_and_class!(quantized_weights_match_the_reference);

/// The golden `nvfp4-modelopt` as llama.cpp's converter writes it, with scales of matrices and of experts beside them.
fn gguf_in_nvfp4() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nvfp4-modelopt.gguf")
}

#[test]
fn nvfp4_of_gguf_matches_the_reference() {
    let (_, golden) =
        golden::<Golden>("nvfp4-modelopt").expect("the checkpoint belongs to the tests");
    let got = logits(
        Some(&gguf_in_nvfp4()),
        TestDevice::Host,
        &golden.tokens,
        &[],
    );
    assert_rows_close("GGUF", &got, &golden.logits);
}

fn info(model: &Path) -> Value {
    run(["info", "--json", model.to_str().unwrap()]).json()
}

#[test]
fn info_names_the_encoding_of_quantized_weights() {
    for_each(QUANTIZED, |name, directory, _: &Golden| {
        let expected = match name {
            name if name.starts_with("fp8") => "float8_e4m3fn",
            name if name.starts_with("nf4") => "nf4",
            name if name.starts_with("nvfp4") => "nvfp4",
            "gptq-8bit" | "w8a16" => "uint8",
            _ => "uint4",
        };
        assert_eq!(info(directory)["encoding"], expected, "{name}");
    });
    assert_eq!(info(&gguf_in_nvfp4())["encoding"], "nvfp4");
}

/// Copies a checkpoint with another description of its quantisation.
fn with_quantization(name: &str, change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let from = directory(name).expect("the checkpoint belongs to the tests");
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        from.join("model.safetensors"),
        folder.path().join("model.safetensors"),
    )
    .unwrap();
    let config = std::fs::read(from.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    change(&mut config["quantization_config"]);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn unsupported_quantizations_are_refused_by_name() {
    for (name, key, value, words) in [
        ("gptq", "bits", json!(3), "`bits` is 3, supported is 4 or 8"),
        (
            "gptq",
            "quant_method",
            json!("aqlm"),
            "the method `aqlm` is not supported",
        ),
        ("awq", "version", json!("gemv"), "`version` is gemv"),
        (
            "fp8-block",
            "weight_block_size",
            json!([128, 48]),
            "expected a scale",
        ),
        (
            "nf4",
            "bnb_4bit_quant_type",
            json!("fp4"),
            "`bnb_4bit_quant_type` is fp4",
        ),
        (
            "w4a16",
            "format",
            json!("marlin-24"),
            "`format` is marlin-24",
        ),
        // Twice as many integers fit a word as there are.
        ("gptq", "bits", json!(8), "qzeros"),
    ] {
        let folder = with_quantization(name, |settings| settings[key] = value);
        let model = folder.path().to_str().unwrap();
        let line = run(["generate", "--model", model, "--tokens", "1"]).failed(name);
        assert!(line.contains(words), "{name}: {line}");
    }
}

#[test]
fn quantized_weights_are_converted_unless_their_columns_are_reordered() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["awq", "fp8-block", "nf4", "nvfp4-modelopt"] {
        let (directory, golden) =
            golden::<Golden>(name).expect("the checkpoint belongs to the tests");
        for out in [format!("{name}.gguf"), name.to_string()] {
            let out = folder.path().join(out);
            let [from, to] = [&directory, &out].map(|path| path.to_str().unwrap());
            run(["convert", "--model", from, "--out", to, "--encoding", "f32"]).succeeded();
            let got = logits(Some(&out), TestDevice::Host, &golden.tokens, &[]);
            assert_rows_close(name, &got, &golden.logits);
        }
    }
    // What described the quantisation is not copied.
    assert!(
        !folder
            .path()
            .join("nvfp4-modelopt/hf_quant_config.json")
            .exists()
    );
    for (name, flags, words) in [
        ("gptq-act-order", &["--encoding", "f32"][..], "act-order"),
        ("awq", &[], "does not write UINT4 to GGUF"),
        ("nvfp4", &[], "does not write NVFP4 to GGUF"),
    ] {
        let directory = directory(name).expect("the checkpoint belongs to the tests");
        let out = folder.path().join("other.gguf");
        let [from, to] = [&directory, &out].map(|path| path.to_str().unwrap());
        let args = ["convert", "--model", from, "--out", to];
        let line = run(args.iter().chain(flags)).failed(name);
        assert!(line.contains(words), "{name}: {line}");
    }
}
