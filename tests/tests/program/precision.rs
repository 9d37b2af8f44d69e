//! `--precision f16` against the exact precision, on an adapter that poses as a GPU.

use std::path::Path;

use wisp_tests::{
    bundled,
    goldens::{CAUSAL, Golden, RECURRENT, for_each},
    program::{Run, TestDevice, command, generate, ids, logits, run, run_command},
    sample,
    shared::shared_data,
};

const F16: &[&str] = &["--precision", "f16"];

/// The bound of `‖a − b‖ / ‖b‖` over the logits of a prompt: the errors of all layers add up.
const LOGITS_BOUND: f64 = 5e-3;

/// The same for models with a recurrent state, which carries errors on from token to token.
const RECURRENT_BOUND: f64 = 6e-2;

/// Returns whether there is an adapter with half precision.
fn has_half_precision() -> bool {
    let devices = run(["devices", "--json"]).json();
    let devices = devices["devices"].as_array().expect("devices");
    let mut adapters = devices.iter().map(|device| &device["info"]);
    let found = adapters.any(|info| info["api"] == "vulkan" && info["capabilities"]["f16"] == true);
    if !found {
        eprintln!("skipped: no Vulkan adapter with f16");
    }
    found
}

/// The index of the largest number.
fn argmax(row: &[f32]) -> usize {
    let largest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    largest.expect("logits").0
}

/// Asserts that the logits of a prompt at precision f16 differ from the exact ones, and by less than the bound.
/// Returns the error and the number of positions with the same most probable token.
fn compare(what: &str, model: &Path, tokens: &[u32]) -> (f64, usize) {
    let [exact, half] =
        [&[][..], F16].map(|flags| logits(Some(model), TestDevice::VulkanGpu, tokens, flags));
    let pairs = || half.iter().flatten().zip(exact.iter().flatten());
    let off: f64 = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let norm: f64 = exact.iter().flatten().map(|b| f64::from(*b).powi(2)).sum();
    let error = (off / norm).sqrt();
    // No difference would mean that the exact kernels ran.
    let bound = match RECURRENT.contains(&what) {
        true => RECURRENT_BOUND,
        false => LOGITS_BOUND,
    };
    assert!(error > 0.0 && error <= bound, "{what}: {error:e}");
    let same = half
        .iter()
        .zip(&exact)
        .filter(|(a, b)| argmax(a) == argmax(b));
    (error, same.count())
}

/// The goldens' own prompts are too short for the kernels of many tokens.
#[test]
fn logits_of_goldens_are_within_the_bound_of_exact_ones() {
    if !has_half_precision() {
        return;
    }
    for_each(CAUSAL, |name, directory, golden: &Golden| {
        if !sample::has(name, 0, 3) {
            return;
        }
        let vocab = golden.logits[0].len() as u32;
        // Half precision decides near ties between experts otherwise: each model gets a prompt where it has none.
        let factor = match name {
            "qwen3-moe" | "qwen3-next" | "nvfp4-modelopt" => 13,
            _ => 7,
        };
        let tokens: Vec<u32> = (0..96u32)
            .map(|i| (i * i * factor + 3 * i + 1) % vocab)
            .collect();
        let (error, same) = compare(name, directory, &tokens);
        println!("{name}: {error:.1e}, {same} of {} tokens", tokens.len());
        // A short prompt runs exact kernels only.
        let got = generate(
            Some(directory),
            TestDevice::VulkanGpu,
            &golden.tokens,
            golden.greedy.len(),
            F16,
        );
        assert_eq!(got.tokens, golden.greedy, "{name}");
    });
}

/// A trained model continues its own text as the exact kernels do.
#[test]
fn stories_continue_alike() {
    let Some(path) = shared_data("models/stories260K/golden.json") else {
        return;
    };
    if !has_half_precision() {
        return;
    }
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let tokens = golden["greedy_tokens"].as_array().unwrap().iter();
    let tokens: Vec<u32> = tokens.map(|token| token.as_u64().unwrap() as u32).collect();
    let (prompt, rest) = tokens.split_at(120);
    let model = path.with_file_name("stories260K.gguf");
    let (error, same) = compare("stories260K", &model, prompt);
    println!(
        "stories260K: {error:.1e}, {same} of {} tokens",
        prompt.len()
    );
    assert_eq!(same, prompt.len());
    let got = generate(Some(&model), TestDevice::VulkanGpu, prompt, 40, F16);
    assert_eq!(got.tokens, rest[..40]);
}

fn host(variable: Option<&str>, flags: &[&str]) -> Run {
    let mut command = command(
        [
            &["generate", "--tokens", "0,5", "-n", "2", "--device", "host"],
            flags,
        ]
        .concat(),
    );
    if let Some(value) = variable {
        command.env("WISP_PRECISION", value);
    }
    run_command(command, "").succeeded()
}

#[test]
fn devices_without_half_precision_say_once_that_they_stay_exact() {
    let exact = host(None, &[]);
    assert!(!exact.stderr.contains("precision"), "{}", exact.stderr);
    for half in [host(None, F16), host(Some("f16"), &[])] {
        assert_eq!(half.stdout, exact.stdout);
        let notes = half
            .stderr
            .lines()
            .filter(|line| line.contains("precision"));
        let notes: Vec<&str> = notes.collect();
        let [note] = notes[..] else {
            panic!("{}", half.stderr)
        };
        assert!(
            note.starts_with("note: ")
                && note.contains("no kernels of precision f16")
                && note.ends_with("products are exact"),
            "{note}"
        );
    }
    let error = run(["generate", "--precision", "f8"]);
    assert!(
        error.stderr.contains("exact") && error.stderr.contains("f16"),
        "{}",
        error.stderr
    );
}

#[test]
fn bench_names_the_precision_in_use() {
    let bench = |place: TestDevice| {
        let flags = ["bench", "--json", "-p", "2", "-n", "1", "-r", "1"];
        let json = run([&flags[..], &place.args(), F16].concat()).json();
        json["precision"].clone()
    };
    assert_eq!(bench(TestDevice::Host), "exact");
    if has_half_precision() {
        assert_eq!(bench(TestDevice::VulkanGpu), "f16");
    }
}

/// Precisions have programs of their own, in the cache and in files.
#[test]
fn precisions_do_not_share_programs() {
    if !has_half_precision() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let start = |precision: &str| {
        let flags = [
            "generate",
            "--json",
            "--tokens",
            "0,5",
            "-n",
            "2",
            "--precision",
            precision,
        ];
        let mut command = command([&flags[..], &TestDevice::VulkanGpu.args()].concat());
        command.env("WISP_CACHE_DIR", folder.path().join("cache"));
        let json = run_command(command, "").json();
        json["timings"]["start"]["programs_compiled"].clone()
    };
    let programs = bundled::programs(TestDevice::VulkanGpu);
    assert_eq!([start("exact"), start("f16")], [programs, programs]);
    assert_eq!([start("exact"), start("f16")], [0, 0]);

    let out = folder.path().join("model.wisp");
    let out = out.to_str().expect("a path in UTF-8");
    let warm = ["warm-cache", "--out", out];
    run([&warm[..], &TestDevice::VulkanGpu.args(), F16].concat()).succeeded();
    let tokens = ids(&[0, 5]);
    let load = [
        "generate",
        "--tokens",
        &tokens,
        "-n",
        "2",
        "--serialized-model-path",
        out,
    ];
    let load = |flags: &[&str]| run([&load[..], &TestDevice::VulkanGpu.args(), flags].concat());
    load(F16).succeeded();
    let line = load(&[]).failed("a model of another precision");
    assert!(line.contains("precision is f16, here exact"), "{line}");
}
