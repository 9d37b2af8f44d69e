//! The settings of a run: flags, environment variables and configuration file, their help and effects.

use serde_json::Value;
use wisp_engine::pipelines::{PipelineConfig, config::FIELDS};
use wisp_tests::program::{Run, command, run, run_command};

/// Runs with a file of settings and some variables.
fn run_with(args: &[&str], variables: &[(&str, &str)], file: Option<&str>) -> Run {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("wisp.toml");
    let mut command = command(args);
    if let Some(text) = file {
        std::fs::write(&path, text).expect("a file");
        command.env("WISP_CONFIG", &path);
    }
    command.envs(variables.iter().copied());
    run_command(command, "")
}

fn max_length(run: Run) -> u64 {
    run.json()["memory"]["max_length"]
        .as_u64()
        .expect("a length")
}

#[test]
fn flags_override_environment_over_file_over_defaults() {
    let file = Some("max_length = 100\nmax_cache_batch_size = 3\n");
    let variable: &[(&str, &str)] = &[("WISP_MAX_LENGTH", "200")];
    let info = ["info", "--json"];
    let flags = ["info", "--json", "--max-length", "300"];
    assert_eq!(max_length(run_with(&flags, variable, file)), 300);
    assert_eq!(max_length(run_with(&info, variable, file)), 200);
    assert_eq!(max_length(run_with(&info, &[], file)), 100);
    assert_eq!(max_length(run_with(&info, &[], None)), 512);
    let json = run_with(&flags, variable, file).json();
    assert_eq!(json["memory"]["max_batch"], 3);
    // A configuration file named by a flag.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("other.toml");
    std::fs::write(&path, "max_length = 64").expect("a file");
    let flags = ["info", "--json", "--config", path.to_str().expect("UTF-8")];
    assert_eq!(max_length(run_with(&flags, &[], file)), 64);
}

#[test]
fn invalid_settings_are_reported_in_one_line() {
    // If candle is in the build, the error is about the folder.
    let huggingface = match cfg!(feature = "candle") {
        true => ["error", "."],
        false => ["engine", "--features candle"],
    };
    for (variables, file, words) in [
        (&[][..], Some("max_lenght = 1"), ["wisp.toml", "max_lenght"]),
        (&[], Some("max_length = "), ["wisp.toml", "line 1"]),
        (&[], Some("engine = \"huggingface\""), huggingface),
        (
            &[("WISP_MAX_LENGTH", "long")],
            None,
            ["WISP_MAX_LENGTH", "whole number"],
        ),
        (
            &[("WISP_DEVICE", "nonsense")],
            None,
            ["WISP_DEVICE", "vulkan"],
        ),
        (
            &[("WISP_CONFIG", "absent.toml")],
            None,
            ["cannot read", "absent.toml"],
        ),
    ] {
        let args = ["generate", "--model", ".", "--tokens", "1"];
        let line = run_with(&args, variables, file).failed(words[1]);
        for word in words {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
    for flags in [
        ["--cache-strategy", "none"],
        ["--quantization-encoding", "q9_k"],
        ["--gpu-memory-utilization", "1.5"],
        ["--max-cache-batch-size", "0"],
        ["--rope-type", "circular"],
        ["--enable-echo=maybe", "--json"],
    ] {
        let run = run([&["generate", "a"][..], &flags].concat());
        assert_eq!(run.status, Some(2), "{}: {}", run.args, run.stderr);
    }
}

#[test]
fn variable_cannot_switch_off_the_key_of_another() {
    let variables = [("WISP_NO_AUTH", "true"), ("WISP_API_KEY", "key")];
    let line = run_with(&["serve", "--port", "0"], &variables, None).failed("both");
    for word in ["WISP_NO_AUTH", "WISP_API_KEY", "exclude each other"] {
        assert!(line.contains(word), "{word}: {line}");
    }
}

/// Removes line breaks, which depend on the terminal.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn help_describes_every_field_and_names_its_flag() {
    let help = words(&run(["generate", "--help"]).succeeded().stdout);
    for (name, text) in PipelineConfig::help() {
        assert!(help.contains(&words(text)), "{name}: {text}\n{help}");
    }
    // Flags that are not simply the names of their fields.
    let flags = [
        ("huggingface_repo_id", "model"),
        ("huggingface_revision", "revision"),
        ("device_specs", "device"),
        ("prefill_chunk_size", "prefill-chunk"),
        ("kv_cache_page_size", "page-size"),
        ("lora_paths", "lora"),
    ];
    for field in FIELDS {
        let flag = flags.iter().find(|(name, _)| *name == field.name);
        let flag = flag.map_or(field.name.replace('_', "-"), |(_, flag)| flag.to_string());
        assert!(help.contains(&format!("--{flag}")), "{}", field.name);
    }
}

fn generate(flags: &[&str]) -> Value {
    let fixed = [
        "generate",
        "--json",
        "--device",
        "host",
        "--prompt",
        "Once upon a time",
    ];
    run([&fixed[..], &["-n", "12"], flags].concat()).json()
}

#[test]
fn names_of_flags_in_other_programs_are_known_but_not_shown() {
    let tokens = |flags: &[&str]| {
        let fixed = ["generate", "--json", "--device", "host", "Once upon a time"];
        let seed = ["--seed", "7"];
        run([&fixed, flags, &seed].concat()).json()["tokens"].clone()
    };
    let expected = tokens(&[
        "--max-new-tokens",
        "6",
        "--max-length",
        "64",
        "--temperature",
        "1",
        "--repetition-penalty",
        "1.1",
    ]);
    for tokens_flag in ["--max-tokens", "--n-predict"] {
        let sampling = ["--temp", "1", "--repeat-penalty", "1.1"];
        let length = [tokens_flag, "6", "--ctx-size", "64"];
        assert_eq!(tokens(&[length, sampling].concat()), expected);
        let twice = run(["generate", "a", tokens_flag, "6", "-n", "6"]);
        assert_eq!(twice.status, Some(2), "{twice:?}");
    }
    let help = run(["generate", "--help"]).succeeded().stdout;
    for hidden in [
        "--max-tokens",
        "--n-predict",
        "--ctx-size",
        "--temp ",
        "--repeat-penalty",
    ] {
        assert!(!help.contains(hidden), "{hidden}: {help}");
    }
}

#[test]
fn cache_layouts_batch_sizes_and_steps_do_not_change_tokens() {
    let expected = generate(&[])["tokens"].clone();
    for flags in [
        &["--cache-strategy", "naive"][..],
        &[
            "--cache-strategy",
            "continuous",
            "--max-cache-batch-size",
            "3",
        ],
        &["--page-size", "1", "--max-ce-batch-size", "1"],
        &["--max-num-steps", "1", "--prefill-chunk", "2"],
        &["--pad-to-multiple-of", "64", "--max-length", "100"],
        &["--top-k", "1"],
        &["--enable-prefix-caching", "--page-size", "2"],
        &[
            "--trust-remote-code",
            "--engine",
            "max",
            "--architecture",
            "llama",
        ],
    ] {
        assert_eq!(generate(flags)["tokens"], expected, "{flags:?}");
    }
    let one_of_one = generate(&["--top-k", "1", "--temperature", "2"]);
    assert_eq!(one_of_one["tokens"], expected);
}

#[test]
fn prefix_cache_hit_rate_is_reported_if_prefixes_are_cached() {
    let rate = |flags: &[&str]| generate(flags)["timings"]["prefix_cache_hit_rate"].clone();
    assert_eq!(rate(&["--enable-prefix-caching"]), 0.0);
    assert!(rate(&[]).is_null());
}

#[test]
fn echo_puts_the_prompt_before_the_text() {
    let plain = generate(&[]);
    let echoed = generate(&["--enable-echo"]);
    assert_eq!(echoed["tokens"], plain["tokens"]);
    let text = plain["text"].as_str().expect("a text");
    assert_eq!(echoed["text"], format!("Once upon a time{text}"));
}

#[test]
fn rope_type_overrides_the_checkpoint() {
    let expected = generate(&[])["tokens"].clone();
    let of = |kind| generate(&["--rope-type", kind])["tokens"].clone();
    let each = ["normal", "neox", "none"].map(of);
    assert!(each[..2].contains(&expected), "the file has one of them");
    assert!(each[0] != each[1] && each[1] != each[2] && each[2] != each[0]);
    let flags = ["generate", "--tokens", "1", "--rope-type", "longrope"];
    let line = run(flags).failed("the model has no LongRoPE factors");
    assert!(line.contains("longrope"), "{line}");
}

#[test]
fn memory_and_context_errors_say_what_to_change() {
    let flags = ["generate", "--device", "host", "--tokens", "1"];
    let tight = [&flags[..], &["--gpu-memory-utilization", "1e-7"]].concat();
    let line = run(tight).failed("no memory at all");
    for word in [
        "weights",
        "KV cache",
        "MiB",
        "--gpu-memory-utilization",
        "q4_k",
    ] {
        assert!(line.contains(word), "{word}: {line}");
    }
    let long = [&flags[..], &["--max-length", "100000"]].concat();
    let line = run(long).failed("a context longer than the model's");
    assert!(line.contains("100000") && line.contains("512"), "{line}");
}

/// `wisp info` estimates the memory that a run then takes.
#[test]
fn estimated_memory_is_within_ten_percent_of_the_peak() {
    let info = run([
        "info",
        "--json",
        "--max-length",
        "162",
        "--prefill-chunk",
        "128",
    ])
    .json();
    let flags = [
        "bench", "--json", "--device", "host", "-p", "128", "-n", "33", "-r", "1",
    ];
    let taken = run(flags).json()["device_peak_bytes"]
        .as_f64()
        .expect("bytes");
    let estimated = info["memory"]["total"].as_f64().expect("bytes");
    let ratio = estimated / taken;
    assert!(
        (0.9..1.1).contains(&ratio),
        "{estimated} estimated, {taken} taken"
    );
}

#[test]
fn info_sums_memory_and_parameters() {
    let json = run(["info", "--json"]).json();
    let memory = &json["memory"];
    let part = |name: &str| memory[name].as_u64().expect("bytes");
    assert_eq!(
        part("total"),
        part("weights") + part("kv_cache") + part("working")
    );
    let longer = run(["info", "--json", "--max-length", "256"]).json();
    assert_eq!(
        longer["memory"]["kv_cache"]
            .as_u64()
            .map(|bytes| bytes < part("kv_cache")),
        Some(true)
    );
    let counts = json["encodings"].as_object().expect("encodings").values();
    let sum: u64 = counts
        .map(|count| count["parameters"].as_u64().expect("a count"))
        .sum();
    assert_eq!(json["parameters"], sum);
    assert!(json["encoding"].is_string() && json["format"] == "gguf");
    let shown = run(["info"]).succeeded().stdout;
    assert!(
        shown.contains("memory") && shown.contains("KV cache"),
        "{shown}"
    );
    let has_spaces_at_its_end = |line: &str| line.ends_with(' ');
    assert!(!shown.lines().any(has_spaces_at_its_end), "{shown}");
}
