//! `--device cuda`, on the emulated device of `tests/cuda-emulator`; its absence, and its failures.

use std::path::Path;

use wisp_tests::{
    cuda::{emulator, find_in, run_in},
    program::{Run, logits_of, run},
    server::Server,
};

const PROMPT: &str = "Once upon a time";

/// The tokens that most tests generate: the prompt's step and a submission of further ones.
const FEW: &str = "4";

/// Enough tokens for several submissions.
const MANY: &str = "12";

/// Generates [`FEW`] tokens with the built-in model on the emulated device.
fn generate_in(folder: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Run {
    generate_tokens_in(folder, FEW, flags, variables)
}

fn generate_tokens_in(
    folder: &Path,
    count: &str,
    flags: &[&str],
    variables: &[(&str, &str)],
) -> Run {
    let fixed = ["generate", "--json", "-n", count, "--device", "cuda"];
    run_in(folder, &[&fixed, flags, &[PROMPT]].concat(), variables)
}

fn tokens(run: Run) -> serde_json::Value {
    run.json()["tokens"].clone()
}

fn on_host(count: &str) -> serde_json::Value {
    tokens(run([
        "generate", "--json", "-n", count, "--device", "host", PROMPT,
    ]))
}

#[test]
fn without_cuda_the_error_says_what_to_install() {
    if run(["devices", "--json"])
        .json()
        .to_string()
        .contains("\"cuda\"")
    {
        return println!("skipped: this machine has CUDA");
    }
    let line = run(["generate", "--device", "cuda", PROMPT]).stderr;
    let remedy = match cfg!(feature = "cuda") {
        true => "CUDA needs an NVIDIA GPU, NVIDIA's driver for CUDA 12 or newer",
        false => "build Wisp with the feature `cuda`",
    };
    assert!(
        line.contains("no cuda device found") && line.contains(remedy),
        "{line}"
    );
}

#[cfg(feature = "cuda")]
mod emulated {
    use super::*;

    #[test]
    fn devices_list_the_card_with_memory_capability_and_driver() {
        let Some(folder) = emulator() else { return };
        let json = run_in(folder, &["devices", "--json"], &[]).json();
        let devices = json["devices"].as_array().expect("devices");
        let card = devices.iter().find(|device| device["device"] == "cuda");
        let info = &card.expect("the emulated card")["info"];
        assert_eq!(info["driver"], "CUDA 12.8, compute capability 8.0, 8.0 GiB");
        let name = info["name"].as_str().expect("a name");
        assert!(name.contains("emulated"), "{name}");
        // It is not chosen unless it is asked for.
        let table = run_in(folder, &["devices"], &[]).succeeded();
        assert!(!table.stderr.contains("auto is cuda"), "{}", table.stderr);
    }

    #[test]
    fn tokens_are_those_of_the_host_in_any_order_of_threads() {
        let Some(folder) = emulator() else { return };
        let expected = on_host(FEW);
        for order in ["forward", "backward", "random:7"] {
            let variables = [("CUDA_EMULATOR_ORDER", order), ("CUDA_EMULATOR_LAZY", "1")];
            assert_eq!(
                tokens(generate_in(folder, &[], &variables)),
                expected,
                "{order}"
            );
        }
        let flags = ["--profile", "baseline"];
        assert_eq!(
            tokens(generate_in(folder, &flags, &[])),
            expected,
            "baseline"
        );
    }

    #[test]
    fn tokens_in_8_bits_are_those_of_the_host() {
        let Some(folder) = emulator() else { return };
        let files = tempfile::tempdir().expect("a folder");
        for encoding in ["q4_0", "q6_k"] {
            let model = files.path().join(format!("{encoding}.gguf"));
            let model = model.to_str().expect("a path in UTF-8");
            run(["convert", "--encoding", encoding, "--out", model]).succeeded();
            let flags = ["--model", model, "--precision", "int8"];
            let generate = ["generate", "--json", "-n", FEW, "--device", "host"];
            let expected = tokens(run([&generate, &flags[..], &[PROMPT]].concat()));
            let run = generate_in(folder, &flags, &[]);
            // What the products read was rounded, not only asked to be.
            assert!(!run.stderr.contains("precision"), "{}", run.stderr);
            assert_eq!(tokens(run), expected, "{encoding}");
        }
    }

    /// A tuning of this build's kernels that puts attention of prompts on tensor cores.
    fn attention_on_tensor_cores() -> serde_json::Value {
        let kernels = wisp_shaders::fingerprint().iter();
        let kernels: String = kernels.map(|byte| format!("{byte:02x}")).collect();
        serde_json::json!({ "format": 1, "tuning": { "kernels": kernels, "calls": [{
            "shape": { "op": "attention_tiled.f32", "cols": 0, "width": 0 },
            "kernels": [{ "name": TENSOR_CORES, "max_rows": u32::MAX }],
        }] } })
    }

    const TENSOR_CORES: &str = "attention_tiled.f32.cooperative16_lanes32_head64";

    #[test]
    fn a_tuning_puts_attention_of_prompts_on_tensor_cores_at_half_precision() {
        let Some(folder) = emulator() else { return };
        let files = tempfile::tempdir().expect("a folder");
        let tuning = files.path().join("tuning.json");
        std::fs::write(&tuning, attention_on_tensor_cores().to_string()).expect("a file");
        let tuning = tuning.to_str().expect("a path in UTF-8");
        let cache = files.path().to_str().expect("a path in UTF-8");
        let variables = [("WISP_CACHE_DIR", cache)];
        let tokens: Vec<u32> = (0..80u32).map(|i| (i * i * 7 + 3 * i + 1) % 256).collect();
        let of = |precision: &str, tuning: &str| {
            let flags = [
                "--device",
                "cuda",
                "--precision",
                precision,
                "--tuning",
                tuning,
            ];
            let programs = run_in(
                folder,
                &[&["warm-cache", "--json"], &flags[..]].concat(),
                &variables,
            );
            let chosen = programs.json()["programs"]
                .to_string()
                .contains(TENSOR_CORES);
            let logits = logits_of(&tokens, &flags, |args| run_in(folder, args, &variables));
            (logits.concat(), chosen)
        };
        let (_, in_exact) = of("exact", tuning);
        let (untuned, in_untuned) = of("f16", "off");
        let (tuned, in_tuned) = of("f16", tuning);
        assert_eq!([in_exact, in_untuned, in_tuned], [false, false, true]);
        let pairs = tuned.iter().zip(&untuned);
        let off: f64 = pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum();
        let norm: f64 = untuned.iter().map(|b| f64::from(*b).powi(2)).sum();
        let error = (off / norm).sqrt();
        // No difference would mean that the exact kernel ran; the bound is that of the products of all layers.
        assert!(error > 0.0 && error <= 5e-3, "{error:e}");
    }

    #[test]
    fn a_second_start_compiles_nothing() {
        let Some(folder) = emulator() else { return };
        let cache = tempfile::tempdir().expect("a folder");
        let path = cache.path().to_str().expect("a path in UTF-8");
        let first = [("WISP_CACHE_DIR", path)];
        let expected = tokens(generate_in(folder, &[], &first));
        let failing = ("CUDA_EMULATOR_FAIL", "nvrtcCompileProgram:1:6");
        let second = [("WISP_CACHE_DIR", path), failing];
        assert_eq!(tokens(generate_in(folder, &[], &second)), expected);
        // Without the cache there is something to compile.
        generate_in(folder, &[], &[failing]).failed("no cache");
    }

    #[test]
    fn decode_steps_are_launched_as_graphs() {
        let Some(folder) = emulator() else { return };
        let line = generate_tokens_in(
            folder,
            MANY,
            &[],
            &[("CUDA_EMULATOR_FAIL", "cuGraphLaunch:1:LAUNCH_FAILED")],
        );
        assert!(
            line.stderr.contains("noticed at a graph of kernels"),
            "{line:?}"
        );
    }

    #[test]
    fn launches_that_block_are_not_part_of_graphs() {
        let Some(folder) = emulator() else { return };
        let variables = [
            ("CUDA_LAUNCH_BLOCKING", "1"),
            ("CUDA_EMULATOR_FAIL", "cuGraphLaunch:1:LAUNCH_FAILED"),
        ];
        let got = tokens(generate_tokens_in(folder, MANY, &[], &variables));
        assert_eq!(got, on_host(MANY));
    }

    /// A model so small that four decode steps take far less than a second on the emulated device: a slower one takes fewer
    /// in a submission.
    const SMALL: &[&str] = &[
        "generate",
        "--json",
        "--ignore-eos",
        "-n",
        "29",
        "--model",
        concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/goldens/olmo3"),
        "--tokens",
        "5,6,7",
    ];

    /// Takes 7 times 4 decode steps on the emulated device, where calls of the driver fail.
    fn many_steps(folder: &Path, failing: &str) -> Run {
        let args = [SMALL, &["--max-num-steps", "4", "--device", "cuda"]].concat();
        run_in(folder, &args, &[("CUDA_EMULATOR_FAIL", failing)])
    }

    #[test]
    fn several_decode_steps_are_one_launch() {
        let Some(folder) = emulator() else { return };
        let expected = tokens(run([SMALL, &["--device", "host"]].concat()));
        // A graph for each step and another for its sampling would be 56 launches.
        let last = "cuGraphLaunch:26:LAUNCH_FAILED";
        assert_eq!(tokens(many_steps(folder, last)), expected);
        // Where there is no memory for a graph, of a step or of several, they are launched without.
        let without = |graph| format!("cuGraphInstantiateWithFlags:{graph}:OUT_OF_MEMORY");
        for graph in 1..=5 {
            let tokens = tokens(many_steps(folder, &without(graph)));
            assert_eq!(tokens, expected, "{graph}");
        }
        // The third is one of a step that is submitted alone, the fourth one of several: without it there are more launches.
        let line = many_steps(folder, &format!("{},{last}", without(4))).failed("more launches");
        assert!(line.contains("noticed at a graph of kernels"), "{line}");
    }

    #[test]
    fn cards_that_are_newer_than_the_compiler_run_code_for_older_ones() {
        let Some(folder) = emulator() else { return };
        let expected = tokens(run([SMALL, &["--device", "host"]].concat()));
        let args = [SMALL, &["--device", "cuda"]].concat();
        // The emulated compiler knows 12.0, and nothing of 13.
        let newer = run_in(folder, &args, &[("CUDA_EMULATOR_ARCH", "121")]);
        assert_eq!(tokens(newer), expected);
        let line = run_in(folder, &args, &[("CUDA_EMULATOR_ARCH", "130")]).failed("no code");
        assert!(line.contains("sm_130"), "{line}");
    }

    #[test]
    fn what_the_driver_has_no_memory_for_is_tried_in_another_way() {
        let Some(folder) = emulator() else { return };
        let expected = tokens(run([SMALL, &["--device", "host"]].concat()));
        // An allocation succeeds after the pool gave back what was freed. A graph of several steps that cannot be launched is
        // launched in parts, and these kernel by kernel.
        for failing in [
            "cuMemAllocAsync:3:OUT_OF_MEMORY",
            "cuGraphLaunch:5:OUT_OF_MEMORY",
            "cuGraphLaunch:20:OUT_OF_MEMORY,cuGraphLaunch:21:OUT_OF_MEMORY,cuGraphLaunch:22:OUT_OF_MEMORY",
        ] {
            assert_eq!(tokens(many_steps(folder, failing)), expected, "{failing}");
        }
    }

    #[test]
    fn failures_of_the_device_are_named() {
        let Some(folder) = emulator() else { return };
        for (variable, value, words) in [
            ("CUDA_EMULATOR_FAIL", "kernel:5:ILLEGAL_ADDRESS", "was lost"),
            ("CUDA_EMULATOR_FAIL", "kernel:5:CONTAINED", "was lost"),
            (
                "CUDA_EMULATOR_FAIL",
                "kernel:5:TENSOR_MEMORY_LEAK",
                "was lost",
            ),
            (
                "CUDA_EMULATOR_FAIL",
                "cuDevicePrimaryCtxRetain:1:DEVICE_UNAVAILABLE",
                "refused the device request: another process uses the card exclusively",
            ),
            (
                "CUDA_EMULATOR_FAIL",
                "cuMemAllocAsync:3:OUT_OF_MEMORY,cuMemAllocAsync:4:OUT_OF_MEMORY",
                "is out of memory allocating",
            ),
            (
                "CUDA_EMULATOR_FAIL",
                "cuMemAllocAsync:3:OUT_OF_MEMORY,cuMemPoolTrimTo:1:OUT_OF_MEMORY",
                "is out of memory allocating",
            ),
            (
                "CUDA_EMULATOR_FAIL",
                "cuModuleLoadData:1:INVALID_IMAGE",
                "refused",
            ),
            (
                "CUDA_EMULATOR_DRIVER",
                "11080",
                "the driver is for CUDA 11.8, Wisp needs one for 12.0",
            ),
            (
                "CUDA_EMULATOR_NVRTC",
                "13000",
                "NVRTC 13.0 makes code that this driver (CUDA 12.8) cannot load",
            ),
            (
                "CUDA_EMULATOR_ARCH",
                "61",
                "compute capability 6.1, Wisp needs 7.5 or newer",
            ),
            ("CUDA_EMULATOR_DEVICES", "0", "no cuda device found"),
        ] {
            let run = generate_in(folder, &[], &[(variable, value)]);
            assert!(
                run.stderr.contains(words),
                "{variable}={value}: {}",
                run.stderr
            );
            assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
            assert_eq!(run.stdout, "", "{variable}={value}");
        }
    }

    #[test]
    fn server_tells_that_its_device_was_lost() {
        let Some(folder) = emulator() else { return };
        let failing = ("CUDA_EMULATOR_FAIL", "kernel:5:ILLEGAL_ADDRESS");
        let server = Server::start_with(&["--device", "cuda"], |command| {
            find_in(command, folder, &[failing]);
        });
        server.wait_until_ready();
        let body = serde_json::json!({ "prompt": PROMPT, "max_tokens": 8 });
        for _ in 0..2 {
            let response = server.post("/v1/completions", &body);
            assert_eq!(response.status, 503, "{}", response.body);
            assert_eq!(response.json()["error"]["code"], "model_lost");
        }
        let health = server.get("/health");
        assert_eq!(health.status, 503, "{}", health.body);
        assert_eq!(health.json()["error"]["code"], "model_lost");
        for path in ["/version", "/v1/models", "/metrics"] {
            assert_eq!(server.get(path).status, 200, "{path}");
        }
    }

    #[test]
    fn a_driver_without_nvrtc_is_one_clear_line() {
        let Some(folder) = emulator() else { return };
        let only_driver = tempfile::tempdir().expect("a folder");
        for name in ["libcuda.so", "libcuda.so.1"] {
            std::os::unix::fs::symlink(folder.join("libcuda.so.1"), only_driver.path().join(name))
                .expect("a link");
        }
        for (driver, remedy) in [
            ("12080", "the Python package nvidia-cuda-nvrtc-cu12,"),
            ("13000", "the Python package nvidia-cuda-nvrtc,"),
        ] {
            let variables = [("CUDA_EMULATOR_DRIVER", driver)];
            let line = generate_in(only_driver.path(), &[], &variables).stderr;
            assert!(line.contains("NVRTC") && line.contains(remedy), "{line}");
        }
    }

    #[test]
    fn one_of_several_cards_is_chosen_by_its_index() {
        let Some(folder) = emulator() else { return };
        let args = [
            "generate", "--json", "-n", FEW, "--device", "cuda:1", PROMPT,
        ];
        let two = [("CUDA_EMULATOR_DEVICES", "2")];
        assert_eq!(tokens(run_in(folder, &args, &two)), on_host(FEW));
        let line = run_in(folder, &args, &[]).stderr;
        assert!(line.contains("no cuda:1 device found"), "{line}");
    }

    #[test]
    fn kernels_are_timed_by_the_device() {
        let Some(folder) = emulator() else { return };
        let args = [
            "bench", "--json", "--device", "cuda", "-p", "16", "-n", "4", "-r", "1",
        ];
        let json = run_in(folder, &args, &[]).json();
        let rate = json["decode"]["median"].as_f64().expect("tokens a second");
        assert!(rate > 0.0, "{json}");
    }

    #[test]
    fn models_are_compiled_for_architectures_that_are_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        for target in ["sm_75", "sm_80", "sm_90", "sm_120"] {
            let path = folder.path().join(target);
            let path = path.to_str().expect("a path in UTF-8");
            let args = ["warm-cache", "--target", target, "--out", path, "--json"];
            assert_eq!(run(args).json()["target"], target);
        }
    }

    #[test]
    fn machine_code_is_compiled_for_a_card_that_is_not_there() {
        let Some(folder) = emulator() else { return };
        let made = tempfile::tempdir().expect("a folder");
        let path = |name| made.path().join(name).display().to_string();
        let (cache, model) = (path("cache"), path("model.wisp"));
        let cached = ("WISP_CACHE_DIR", cache.as_str());
        let compile = ["warm-cache", "--target", "sm_80", "--out", &model, "--json"];
        let no_card = ("CUDA_EMULATOR_DEVICES", "0");
        let code = run_in(folder, &compile, &[cached, no_card]).json()["machine_code"].clone();
        assert!(code["kernels"].as_u64() > Some(10), "{code}");
        assert_eq!(code["compiler"], "NVRTC 12.8");
        // The machine with the card.
        let flags = ["--serialized-model-path", &model];
        let failing = ("CUDA_EMULATOR_FAIL", "nvrtcCompileProgram:1:6");
        let there = generate_in(folder, &flags, &[cached, failing]);
        assert_eq!(tokens(there), on_host(FEW));
        // Another folder has nothing.
        let empty = path("empty");
        generate_in(folder, &flags, &[("WISP_CACHE_DIR", &empty), failing])
            .failed("no machine code");
        // A folder that cannot be made keeps nothing, which is said.
        let nowhere = path("model.wisp/cache");
        let unkept = run_in(folder, &compile[..5], &[("WISP_CACHE_DIR", &nowhere)]).stdout;
        let said = unkept.contains("no machine code") && unkept.contains("cannot be written");
        assert!(said, "{unkept}");
        // Without NVRTC, or here without a cache, the model is compiled all the same.
        let without = run(&compile[..5]).stdout;
        let reason = ["NVRTC", "WISP_CACHE_DIR"].map(|reason| without.contains(reason));
        assert!(
            without.contains("no machine code") && reason.contains(&true),
            "{without}"
        );
    }
}
