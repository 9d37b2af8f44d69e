//! The command line: its flags, its JSON, its exit status.

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;
use wisp_tests::{
    program::{TestDevice, command, logits, run, run_command, run_with_input},
    shared::shared_data,
};

const HOST: [&str; 2] = ["--device", "host"];

fn generate(flags: &[&str]) -> Value {
    run([&["generate", "--json"], flags, &HOST].concat()).json()
}

fn tokens(json: &Value) -> Vec<u32> {
    let ids = json["tokens"].as_array().expect("tokens").iter();
    ids.map(|id| id.as_u64().expect("an id") as u32).collect()
}

#[test]
fn wrong_usage() {
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
fn an_absent_device_is_named_with_those_there_are() {
    let line = run(["generate", "a", "--device", "vulkan:99"]).failed("an absent device");
    assert!(line.contains("vulkan") && line.contains("host"), "{line}");
}

#[test]
fn generate_reports_what_the_design_says() {
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
    assert_eq!(shown.stdout, format!("Once upon a time{text}\n"));
}

#[test]
fn a_prompt_from_standard_input() {
    let args = [
        "generate",
        "--json",
        "--device",
        "host",
        "--max-new-tokens",
        "4",
        "--prompt-file",
        "-",
    ];
    let (got, expected) = (
        run_with_input(args, "Once upon a time").json(),
        generate(&["Once upon a time", "--max-new-tokens", "4"]),
    );
    assert_eq!(
        (&got["prompt_tokens"], &got["tokens"]),
        (&expected["prompt_tokens"], &expected["tokens"])
    );
}

#[test]
fn stop_texts_across_the_borders_of_tokens() {
    let whole = generate(&["Once upon a time", "--max-new-tokens", "24"]);
    let text = whole["text"].as_str().expect("a text");
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    for window in places.windows(19).step_by(5) {
        // 18 characters: no token of a vocabulary of 1024 words is that long.
        let stop = &text[window[0]..window[18]];
        let got = generate(&[
            "Once upon a time",
            "--max-new-tokens",
            "24",
            "--stop",
            "not in the text",
            "--stop",
            stop,
        ]);
        assert_eq!(
            got["text"],
            text[..text.find(stop).expect("a part of it")],
            "{stop:?}"
        );
        assert_eq!(got["finish_reason"], "stop");
    }
}

#[test]
fn a_seed_draws_the_same_again() {
    let draw = |seed: &str| {
        tokens(&generate(&[
            "Once",
            "--max-new-tokens",
            "24",
            "--ignore-eos",
            "--temperature",
            "1.2",
            "--seed",
            seed,
        ]))
    };
    assert_eq!(draw("5"), draw("5"));
    assert_ne!(draw("5"), draw("6"));
}

/// `--logprobs` as OpenAI's completions have them; with `--echo`, of the prompt, too.
#[test]
fn log_probabilities_of_tokens() {
    let plain = ["Once upon a time", "--max-new-tokens", "6"];
    let with = |flags: &[&str]| generate(&[&plain[..], flags].concat());
    let (json, echoed) = (
        with(&["--logprobs", "2"]),
        with(&["--logprobs", "2", "--echo", "--max-num-steps", "1"]),
    );
    assert!(with(&[]).get("logprobs").is_none());
    let prompt = json["prompt_tokens"].as_array().expect("tokens").clone();
    let text = [
        prompt.clone(),
        json["tokens"].as_array().expect("tokens").clone(),
    ]
    .concat();
    let ids: Vec<u32> = text
        .iter()
        .map(|id| id.as_u64().expect("an id") as u32)
        .collect();
    let rows = logits(None, TestDevice::Host, &ids, &[]);
    let numbers = |json: &Value| -> Vec<Option<f64>> {
        let list = json["logprobs"]["token_logprobs"]
            .as_array()
            .expect("a list");
        list.iter().map(Value::as_f64).collect()
    };
    assert_eq!(echoed["tokens"], json["tokens"]);
    let (drawn, all) = (numbers(&json), numbers(&echoed));
    assert_eq!((drawn.len(), all.len(), all[0]), (6, ids.len(), None));
    for (at, row) in rows.iter().enumerate().take(ids.len() - 1) {
        let total: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        let expected = f64::from(row[ids[at + 1] as usize]) - total.ln();
        let close = |got: Option<f64>| (got.expect("a number") - expected).abs() < 1e-3;
        assert!(
            close(all[at + 1]),
            "{at}: {:?}, not {expected}",
            all[at + 1]
        );
        if at + 1 >= prompt.len() {
            assert!(close(drawn[at + 1 - prompt.len()]));
            // Greedy: the token is the likeliest.
            let top = &json["logprobs"]["top_logprobs"][at + 1 - prompt.len()];
            let token = json["logprobs"]["tokens"][at + 1 - prompt.len()]
                .as_str()
                .expect("a text");
            assert!(close(top[token].as_f64()), "{top}");
            assert!(top.as_object().expect("an object").len() <= 2);
        }
    }
    let words = |json: &Value| -> String {
        let list = json["logprobs"]["tokens"].as_array().expect("a list");
        list.iter().filter_map(Value::as_str).collect()
    };
    let text = json["text"].as_str().expect("a text");
    assert_eq!(words(&json), text);
    assert!(words(&echoed).ends_with(&format!("Once upon a time{text}")));
    assert_eq!(echoed["text"], format!("Once upon a time{text}"));
    assert_eq!(json["logprobs"]["text_offset"][0], 0);
}

#[test]
fn penalties_and_biases() {
    let with = |flags: &[&str]| {
        let plain = ["Once upon a time", "--max-new-tokens", "12", "--ignore-eos"];
        tokens(&generate(&[&plain[..], flags].concat()))
    };
    let plain = with(&[]);
    assert_eq!(with(&["--logit-bias", "65=100"]), [65; 12]);
    let ban = format!("{}=-100", plain[0]);
    assert!(!with(&["--logit-bias", &ban]).contains(&plain[0]));
    let flags = [
        "--logit-bias",
        "65=30",
        "--logit-bias",
        "66=30",
        "--frequency-penalty",
        "2",
    ];
    let both = with(&flags);
    assert!(both.contains(&65) && both.contains(&66), "{both:?}");
    // 100 for each of the two once, and then neither.
    let flags = [
        "--logit-bias",
        "65=100",
        "--logit-bias",
        "66=100",
        "--presence-penalty",
        "200",
    ];
    let once = with(&flags);
    assert_eq!(
        once.iter()
            .filter(|token| [65, 66].contains(*token))
            .count(),
        2,
        "{once:?}"
    );
    assert_ne!(with(&["--presence-penalty", "-1.5"]), Vec::<u32>::new());
}

#[test]
fn devices_and_info() {
    let devices = run(["devices", "--json"]).json();
    let last = devices["devices"]
        .as_array()
        .and_then(|devices| devices.last())
        .expect("a device")
        .clone();
    assert_eq!(last["device"], "host");
    assert!(run(["devices"]).succeeded().stdout.contains("host"));
    let (text, json) = (
        run(["info"]).succeeded().stdout,
        run(["info", "--json"]).json(),
    );
    assert_eq!(json["architecture"], "llama");
    for field in [
        "parameters",
        "vocab_size",
        "hidden_size",
        "layers",
        "heads",
        "kv_heads",
        "context",
    ] {
        assert!(json[field].as_u64() > Some(0), "{field}: {json}");
    }
    assert!(
        text.contains("llama") && text.contains(&json["vocab_size"].to_string()),
        "{text}"
    );
}

/// Some of llama.cpp's pairs through files: of each vocabulary every seventh, so that all vocabularies together have
/// them all. The tokenizer's own tests take all pairs of all vocabularies.
#[test]
fn tokenize_vocabularies() {
    let Some(folder) = shared_data("vocab") else {
        return;
    };
    let text = tempfile::NamedTempFile::new().unwrap();
    let (mut models, mut pairs) = (0, 0);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for model in paths {
        if model
            .extension()
            .is_none_or(|extension| extension != "gguf")
        {
            continue;
        }
        let beside = |suffix: &str| PathBuf::from(format!("{}.{suffix}", model.display()));
        let inputs = std::fs::read_to_string(beside("inp")).unwrap();
        let outputs = std::fs::read_to_string(beside("out")).unwrap();
        let all = inputs.split("\n__ggml_vocab_test__\n").zip(outputs.lines());
        for (input, output) in all.skip(models % 7).step_by(7) {
            std::fs::write(text.path(), input).unwrap();
            let files = [
                "--model",
                model.to_str().unwrap(),
                "--file",
                text.path().to_str().unwrap(),
            ];
            let got = run([&["tokenize", "--no-special", "--json"], &files[..]].concat()).json();
            let expected: Vec<u32> = output
                .split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect();
            assert_eq!(tokens(&got), expected, "{}: {input:?}", model.display());
            pairs += 1;
        }
        models += 1;
    }
    assert!(models >= 7 && pairs >= 5 * models, "only {pairs} pairs");
}

/// exp of the mean negative log-probability, from what `wisp logits` writes.
#[test]
fn perplexity_is_that_of_the_logits() {
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        text.path(),
        "Once upon a time there was a funny sailor named Leo. One day he heard a cry for help.",
    )
    .unwrap();
    let path = text.path().to_str().unwrap();
    let ids = tokens(&run(["tokenize", "--no-special", "--json", "--file", path]).json());
    let bos = tokens(&run(["tokenize", "--json", "--text", ""]).json());
    for context in [8usize, 512] {
        let (mut sum, mut count) = (0f64, 0u64);
        for window in ids.chunks(context - bos.len()) {
            let window = [&bos[..], window].concat();
            for (row, target) in logits(None, TestDevice::Host, &window, &[])
                .iter()
                .zip(&window[1..])
            {
                let total: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
                sum += total.ln() - f64::from(row[*target as usize]);
                count += 1;
            }
        }
        let got = run([
            "perplexity",
            "--json",
            "--device",
            "host",
            "--file",
            path,
            "--context",
            &context.to_string(),
        ])
        .json();
        let (value, expected) = (
            got["perplexity"].as_f64().expect("a number"),
            (sum / count as f64).exp(),
        );
        assert_eq!(got["tokens"], count);
        assert!(
            (value / expected - 1.0).abs() < 1e-4,
            "{value} with windows of {context}, expected {expected}"
        );
    }
}

#[test]
fn a_reader_that_leaves() {
    let mut child = command([
        "generate",
        "Once upon a time",
        "--max-new-tokens",
        "200",
        "--ignore-eos",
        "--device",
        "host",
    ])
    .spawn()
    .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_the_text_so_far() {
    let args = [
        "generate",
        "Once upon a time",
        "--max-new-tokens",
        "480",
        "--ignore-eos",
        "--max-num-steps",
        "1",
        "--device",
        "host",
    ];
    let whole = run(args).succeeded().stdout;
    let mut child = command(args).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // The prompt and the first letters after it: now it generates.
    let mut text = vec![0; "Once upon a time".len() + 2];
    stdout.read_exact(&mut text).unwrap();
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    stdout.read_to_end(&mut text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(130),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.len() < whole.len() && whole.starts_with(text.trim_end()),
        "{text}"
    );
}

#[test]
fn a_conversation_through_standard_input() {
    let mut child = command(["chat", "--max-new-tokens", "12", "--device", "host"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"What colour is the sky?\nTell me a story about a fox.\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let first = generate(&[
        "What colour is the sky?",
        "--chat",
        "--max-new-tokens",
        "12",
    ]);
    let first = first["text"].as_str().expect("a text");
    assert!(stdout.contains(first), "{stdout}\nhas no {first}");
    // The second answer is the one that the whole conversation has.
    let (turn, ask) = ("<|im_start|>", "assistant\n");
    let prompt = format!(
        "{turn}user\nWhat colour is the sky?<|im_end|>\n{turn}{ask}{}<|im_end|>\n{turn}user\nTell me a story about a fox.<|im_end|>\n{turn}{ask}",
        first.trim()
    );
    let second = generate(&["--prompt", &prompt, "--max-new-tokens", "12"]);
    let second = second["text"].as_str().expect("a text");
    let rest = &stdout[stdout.find(first).expect("found above") + first.len()..];
    assert!(rest.contains(second), "{rest}\nhas no {second}");
}

#[test]
fn wisp_log_writes_events_to_stderr_and_leaves_stdout_alone() {
    let args = ["generate", "--device", "host", "-n", "2", "--tokens", "1,2"];
    let quiet = run(args).succeeded();
    assert!(!quiet.stderr.contains("DEBUG"), "{}", quiet.stderr);
    let with_filter = |filter: &str| {
        let mut logged = command(args);
        logged.env("WISP_LOG", filter);
        run_command(logged, "")
    };
    let logged = with_filter("debug").succeeded();
    assert_eq!(logged.stdout, quiet.stdout);
    let is_event = |line: &str| line.contains("DEBUG wisp: ") && line.contains("kernel=");
    assert!(logged.stderr.lines().any(is_event), "{}", logged.stderr);

    let line = with_filter("wisp=loud").failed("an invalid filter");
    assert!(line.contains("WISP_LOG=wisp=loud: use a level"), "{line}");
}
