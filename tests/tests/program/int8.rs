//! `--precision int8`: the same tokens on every device, near those of the exact precision.

use std::path::{Path, PathBuf};

use wisp_tests::{
    bundled,
    goldens::{Golden, for_each},
    program::{TestDevice, command, generate, ids, logits, run, run_command},
};

const INT8: &[&str] = &["--precision", "int8"];

/// The bound of `‖a − b‖ / ‖b‖` over the logits of a prompt, between devices and between precisions: a rounding error
/// may move a number to the next step, which moves others in the layers after it.
const LOGITS_BOUND: f64 = 3e-2;

/// The tokens of "Once upon a time", and what the built-in model continues it with: more tokens than kernels for few
/// take.
fn story() -> Vec<u32> {
    let path = bundled::folder().join("golden.json");
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let case = &golden["cases"][0];
    let all = ["prompt_tokens", "tokens"].map(|key| case[key].as_array().unwrap().clone());
    let tokens = all.concat();
    tokens
        .iter()
        .take(33)
        .map(|token| token.as_u64().unwrap() as u32)
        .collect()
}

/// The normalised difference of two prompts' logits.
fn difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    let pairs = || a.iter().flatten().zip(b.iter().flatten());
    let off: f64 = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let norm: f64 = pairs().map(|(_, b)| f64::from(*b).powi(2)).sum();
    (off / norm).sqrt()
}

/// Converts the built-in model's matrices to an encoding.
fn converted(folder: &Path, encoding: &str) -> PathBuf {
    let out = folder.join(format!("{encoding}.gguf"));
    let path = out.to_str().expect("a path in UTF-8");
    run(["convert", "--encoding", encoding, "--out", path]).succeeded();
    out
}

/// The bound between precisions for checkpoints of random weights, which make rounding errors grow from layer to layer.
const RANDOM_LOGITS_BOUND: f64 = 5e-2;

/// Checks that a model's logits on the host are within a bound of the exact ones, that those of other devices are near
/// the host's, and that all have the same tokens.
fn check_tokens(name: &str, model: &Path, tokens: &[u32], bound: f64) {
    let host = logits(Some(model), TestDevice::Host, tokens, INT8);
    let exact = logits(Some(model), TestDevice::Host, tokens, &[]);
    let error = difference(&host, &exact);
    println!("{name}: {error:.1e} off the exact logits");
    assert!(error > 1e-4 && error <= bound, "{name}: {error:e}");
    let expected = generate(Some(model), TestDevice::Host, tokens, 24, INT8);
    for place in [
        TestDevice::Vulkan,
        TestDevice::VulkanGpu,
        TestDevice::VulkanBaseline,
    ] {
        if !place.is_available() {
            continue;
        }
        let what = format!("{name} on {place:?}");
        let got = logits(Some(model), place, tokens, INT8);
        let error = difference(&got, &host);
        println!("{what}: {error:.1e} off the host's logits");
        assert!(error <= LOGITS_BOUND, "{what}: {error:e}");
        let got = generate(Some(model), place, tokens, 24, INT8);
        assert_eq!(got.tokens, expected.tokens, "{what}");
    }
}

#[test]
fn tokens_are_those_of_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    for encoding in ["q4_0", "q4_k", "q6_k", "q8_0"] {
        let model = converted(folder.path(), encoding);
        check_tokens(encoding, &model, &story(), LOGITS_BOUND);
    }
}

#[test]
fn tokens_of_quantised_safetensors_are_those_of_the_host() {
    let checkpoints = ["gptq", "awq", "w8a16", "nvfp4"];
    for_each(&checkpoints, |name, directory, golden: &Golden| {
        check_tokens(name, directory, &golden.tokens, RANDOM_LOGITS_BOUND);
    });
}

/// However a prompt is cut into chunks, its rows are rounded alike.
#[test]
fn chunks_of_a_prompt_do_not_change_the_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = converted(folder.path(), "q4_0");
    let tokens = |flags: &[&str]| {
        let flags = [INT8, flags].concat();
        generate(Some(&model), TestDevice::Host, &story(), 24, &flags).tokens
    };
    let whole = tokens(&[]);
    for chunk in ["1", "3", "16"] {
        assert_eq!(tokens(&["--prefill-chunk", chunk]), whole, "{chunk}");
    }
}

#[test]
fn the_environment_selects_the_precision_and_bench_names_it() {
    let bench = [
        "bench", "--json", "-p", "2", "-n", "1", "-r", "1", "--device", "host",
    ];
    let mut command = command(bench);
    command.env("WISP_PRECISION", "int8");
    assert_eq!(run_command(command, "").json()["precision"], "int8");
}

#[test]
fn int8_without_quantised_weights_prints_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = |model: Option<&Path>, flags: &[&str]| {
        let tokens = ids(&[0, 5]);
        let mut args = vec![
            "generate", "--tokens", &tokens, "-n", "2", "--device", "host",
        ];
        if let Some(path) = model {
            args.extend(["--model", path.to_str().expect("a path in UTF-8")]);
        }
        args.extend(flags);
        let stderr = run(args).succeeded().stderr;
        let notes = stderr.lines().filter(|line| line.contains("precision"));
        notes.map(str::to_owned).collect::<Vec<_>>()
    };
    let quantised = converted(folder.path(), "q4_0");
    assert!(notes(Some(&quantised), INT8).is_empty());
    assert!(notes(None, &[]).is_empty());
    // The built-in model's weights are in F16.
    assert_eq!(
        notes(None, INT8),
        [
            "note: precision int8 has no effect: no weights of this model have an encoding that is multiplied with 8-bit activations, as Q4_0, Q4_K and Q8_0 are"
        ]
    );
}

#[test]
fn bench_compares_two_precisions() {
    let bench = |flags: &[&str]| {
        let fixed = [
            "bench",
            "--compare",
            "-p",
            "12",
            "-n",
            "2",
            "-r",
            "2",
            "--device",
            "host",
        ];
        run([&fixed, flags].concat())
    };
    let json = bench(&["--json"]).json();
    let precisions = [0, 1].map(|i| json["precisions"][i]["precision"].clone());
    assert_eq!(precisions, ["exact", "int8"]);
    for ratio in ["prefill_ratio", "decode_ratio"] {
        assert!(
            json[ratio].as_f64().is_some_and(|ratio| ratio > 0.0),
            "{json}"
        );
    }
    assert_eq!(json["precisions"][1]["prefill"]["tokens"], 12);
    assert_eq!(json["kv_cache_format"], "float32");
    let table = bench(&[]).succeeded().stdout;
    assert!(table.contains("int8 against exact: prefill"), "{table}");
    let refused = bench(&["--precision", "f16"]);
    assert_eq!(refused.status, Some(1));
    let error =
        "error: host CPU (host) has no kernels of precision f16, so there is nothing to compare";
    assert_eq!(refused.stderr.lines().last(), Some(error));
}
