//! Wrong usage, and what the JSON of a run holds.

use super::*;

#[test]
fn wrong_usage_exits_with_status_2_and_says_what_is_wrong() {
    let wrong: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["generate"],
        &["generate", "--prompt", "a", "--tokens", "1"],
        &["generate", "--tokens", "1,x"],
        &["generate", "--tokens", "-1"],
        &["generate", "a", "--device", "nonsense"],
        &["generate", "a", "--profile", "nonsense"],
        &["generate", "a", "--max-new-tokens", "many"],
        &["generate", "a", "--prefill-chunk", "0"],
        &["generate", "a", "--page-size", "0"],
        &["generate", "a", "--max-num-steps", "0"],
        &["generate", "a", "--nonsense"],
        &["generate", "a", "--logit-bias", "1"],
        &["generate", "a", "--logit-bias", "1=nan"],
        &["generate", "a", "--logit-bias", "-1=2"],
        &["generate", "a", "--json", "--logprobs", "21"],
        &["generate", "a", "--logprobs", "1"],
        &["logits", "--tokens", "1"],
        &["perplexity"],
        &["chat", "--enable-echo"],
        &["bench", "--ops", "--trace", "trace.json"],
    ];
    for args in wrong {
        let run = run(*args);
        assert_eq!(run.status, Some(2), "wisp {}: {}", run.args, run.stderr);
        assert!(
            run.stdout.is_empty() && !run.stderr.is_empty() && !run.stderr.contains("panicked"),
            "{run:?}"
        );
    }
}

#[test]
fn a_missing_device_is_named_with_the_available_ones() {
    let line = run(["generate", "a", "--device", "vulkan:99"]).failed("an absent device");
    assert!(line.contains("vulkan") && line.contains("host"), "{line}");
    if !cfg!(target_vendor = "apple") {
        let line = run(["generate", "a", "--device", "metal"]).failed("no Metal");
        assert!(line.contains("on Apple's systems only"), "{line}");
    }
}

#[test]
fn help_of_a_command_has_all_its_paragraphs_and_groups_its_flags() {
    let help = |command: &str| {
        let help = run([command, "--help"]).succeeded().stdout;
        // Line breaks depend on the terminal.
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (command, words) in [
        ("serve", "/health answers 503 until the models are loaded."),
        ("batch", "The exit status is 1 if requests failed"),
        ("perplexity", "Perplexity is the exponential of"),
        ("rerank", "Prints the documents, the most relevant first"),
        ("encode", "All texts run as one batch."),
        ("generate", "Structured output:"),
        ("generate", "Memory and cache:"),
        ("chat", "Sampling:"),
        (
            "chat",
            "0 is all [default: 0, or as --generation-config says]",
        ),
        ("chat", "the exit status is 1 if a line failed."),
        ("warm-cache", "needs --out"),
        ("serve", "Adapters:"),
    ] {
        let help = help(command);
        assert!(help.contains(words), "{words}: {help}");
    }
}

#[test]
fn generate_reports_every_field_of_its_json() {
    let json = generate(&["--prompt", "Once upon a time", "--max-new-tokens", "8"]);
    let fields: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(
        fields,
        [
            "model",
            "device",
            "prompt_tokens",
            "tokens",
            "text",
            "finish_reason",
            "timings"
        ]
    );
    assert_eq!(tokens(&json).len(), 8);
    assert_eq!(json["finish_reason"], "length");
    assert!(
        json["timings"].is_object() && json["model"].is_string() && json["device"].is_string(),
        "{json}"
    );
    let shown = run([
        "generate",
        "Once upon a time",
        "--max-new-tokens",
        "8",
        "--device",
        "host",
    ])
    .succeeded();
    let text = json["text"].as_str().expect("a text");
    assert_eq!(shown.stdout, format!("{text}\n"));
}

#[test]
fn a_prompt_is_read_from_standard_input() {
    let fixed = ["generate", "--json", "--max-new-tokens", "4"];
    for (flags, input, prompt) in [
        (
            &["--prompt-file", "-"][..],
            "Once upon a time",
            "Once upon a time",
        ),
        (&["-"], "Once upon a time\n", "Once upon a time"),
        (
            &["--prompt", "-"],
            "Once upon a time\r\n",
            "Once upon a time",
        ),
        // Only the last line break is left out.
        (&["-"], "Once upon a time\n\n", "Once upon a time\n"),
    ] {
        let got = run_with_input([&fixed, flags, &HOST].concat(), input).json();
        let expected = generate(&[prompt, "--max-new-tokens", "4"]);
        assert_eq!(
            (&got["prompt_tokens"], &got["tokens"]),
            (&expected["prompt_tokens"], &expected["tokens"]),
            "{flags:?} {input:?}"
        );
    }
    // Without a prompt, the usage error names both ways to standard input.
    let told = run(["generate"]).stderr;
    assert!(told.contains("<TEXT|-|"), "{told}");
    assert!(told.contains("--prompt-file <F|->"), "{told}");
}

#[test]
fn standard_input_is_read_once() {
    for prompt in [&["--prompt-file", "-"][..], &["-"]] {
        let flags = [prompt, &["--json-schema", "-"]].concat();
        let both = run_with_input([&["generate"], &flags[..], &HOST].concat(), "Once upon");
        let line = both.failed("two texts from standard input");
        assert!(line.contains("standard input is read twice"), "{line}");
    }
}

#[test]
fn lengths_that_exceed_the_context_name_the_one_that_is_needed() {
    let bench = ["bench", "-p", "8", "-n", "4", "-r", "1", "--max-length"];
    let bench = |length: &str| run([&bench[..], &[length], &HOST].concat());
    let line = bench("12").failed("a context that is too short");
    assert!(
        line.contains("need 13 tokens") && line.contains("--max-length"),
        "{line}"
    );
    let shown = bench("13").succeeded().stdout;
    assert!(shown.contains(", 1 run\n"), "{shown}");
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "Once upon a time").unwrap();
    let path = text.path().to_str().unwrap();
    let flags = ["--file", path, "--max-length", "32", "--context", "64"];
    let line = run([&["perplexity"], &flags[..], &HOST].concat()).failed("a long window");
    assert!(
        line.contains("from 2 to 32; --max-length N allows more"),
        "{line}"
    );
}

#[test]
fn empty_name_of_a_model_is_told() {
    for args in [&["info"][..], &["generate", "a"], &["tokenize", "a"]] {
        let line = run([args, &["--model", ""]].concat()).failed("no name");
        assert!(line.contains("the model's name is empty"), "{line}");
    }
}
