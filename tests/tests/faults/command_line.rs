//! Closed pipes, full disks and wrong arguments.

use wisp_tests::{
    encoder, fault,
    program::{Run, command, run, run_with_input},
};

#[test]
fn missing_model_file_is_named() {
    let run = fault::run_limited(["info", "/nowhere/model.gguf"]);
    let message = run.failed("a model that does not exist");
    assert!(message.contains("/nowhere/model.gguf"), "{message}");
}

const HOST: [&str; 2] = ["--device", "host"];

fn generate(args: &[&str]) -> Run {
    run([&["generate"], args, &HOST].concat()).succeeded()
}

#[test]
fn echo_decides_for_every_form_of_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prompt");
    std::fs::write(&file, "Once upon a time").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let ids = run(["tokenize", "--json", "Once upon a time"]).json()["tokens"].to_string();
    let ids = ids.trim_matches(['[', ']']);
    for prompt in [
        &["Once upon a time"][..],
        &["--prompt", "Once upon a time"],
        &["--prompt-file", file],
        &["--tokens", ids],
    ] {
        let with = |flags: &[&str]| generate(&[prompt, &["-n", "4"], flags].concat());
        let (plain, echoed) = (with(&[]).stdout, with(&["--echo"]).stdout);
        assert!(!plain.contains("Once"), "{prompt:?}: {plain}");
        assert_eq!(echoed, format!("Once upon a time{plain}"), "{prompt:?}");
        let text = |flags: &[&str]| {
            let json = with(&[&["--json"], flags].concat()).json();
            json["text"].as_str().expect("a text").to_string() + "\n"
        };
        assert_eq!(
            (text(&[]), text(&["--echo"])),
            (plain, echoed),
            "{prompt:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn error_after_an_echo_begins_its_own_line() {
    // Both streams are one file, and the context is too short for the prompt.
    let both = tempfile::NamedTempFile::new().expect("a file");
    let mut command = command([
        "generate",
        "Once upon a time",
        "--echo",
        "--max-length",
        "2",
    ]);
    let append = std::fs::OpenOptions::new()
        .append(true)
        .open(both.path())
        .expect("a file");
    command
        .stdout(append.try_clone().expect("a file"))
        .stderr(append);
    assert_eq!(command.output().expect("an end").status.code(), Some(1));
    let shown = std::fs::read_to_string(both.path()).expect("a text");
    let error = shown
        .lines()
        .find(|line| line.contains("error: "))
        .expect("an error");
    assert!(error.starts_with("error: "), "{shown}");
}

#[test]
fn random_seed_is_drawn_printed_and_reproduces_the_tokens() {
    let flags = [
        "Once",
        "-n",
        "24",
        "--ignore-eos",
        "--temperature",
        "2",
        "--json",
    ];
    let draw = |seed: &[&str]| generate(&[&flags, seed].concat()).json();
    let (first, second) = (draw(&[]), draw(&[]));
    assert_ne!(first["seed"], second["seed"]);
    assert_ne!(first["tokens"], second["tokens"]);
    let seed = first["seed"].to_string();
    assert_eq!(draw(&["--seed", &seed])["tokens"], first["tokens"]);
    let plain = generate(&["Once", "-n", "4", "--temperature", "2", "--seed", "7"]);
    assert!(plain.stderr.contains("seed 7\n"), "{}", plain.stderr);
    // Greedy sampling needs no seed.
    let greedy = || generate(&["Once", "-n", "24", "--json"]).json();
    assert_eq!(greedy()["tokens"], greedy()["tokens"]);
    assert!(greedy().get("seed").is_none());
}

#[test]
fn text_without_a_flag_is_taken_by_every_command_of_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("text");
    std::fs::write(&file, "a small fox").expect("a file");
    let path = file.to_str().expect("UTF-8");
    let tokenize = |args: &[&str]| run([&["tokenize", "--json"], args].concat()).json();
    let expected = tokenize(&["--text", "a small fox"]);
    for args in [
        &["a small fox"][..],
        &["--prompt", "a small fox"],
        &["--file", path],
        &["--prompt-file", path],
    ] {
        assert_eq!(tokenize(args), expected, "{args:?}");
    }
    for args in [&["--prompt-file", "-"][..], &["-"], &["--text", "-"]] {
        let piped = run_with_input([&["tokenize", "--json"], args].concat(), "a small fox");
        assert_eq!(piped.json(), expected, "{args:?}");
    }
    // The line break at the end is a part of the text.
    let lines = run_with_input(["tokenize", "--json", "-"], "a small fox\n").json();
    assert_eq!(lines, tokenize(&["a small fox\n"]));
    assert_eq!(run(["tokenize"]).status, Some(2));
    assert_eq!(run(["tokenize", "a", "--file", path]).status, Some(2));

    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    encoder::bert(&model);
    let model = model.to_str().expect("UTF-8");
    let encode =
        |args: &[&str]| run([&["encode", "--json", "--model", model], args, &HOST].concat());
    let expected = encode(&["--text", "a small fox", "cat"]).json();
    assert_eq!(encode(&["a small fox", "cat"]).json(), expected);
    std::fs::write(&file, "cat").expect("a file");
    let one = encode(&["cat"]).json();
    assert_eq!(encode(&["--prompt-file", path]).json(), one);
    assert_eq!(encode(&["--file", path]).json(), one);
    for input in [&["--prompt-file", "-"][..], &["-"], &["--text", "-"]] {
        let args = [&["encode", "--json", "--model", model], input, &HOST].concat();
        assert_eq!(run_with_input(args, "cat").json(), one, "{input:?}");
    }
    assert_eq!(encode(&[]).status, Some(2));
    assert_eq!(encode(&["cat", "--tokens", "1"]).status, Some(2));
}

#[test]
fn encoders_take_no_adapters() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    encoder::bert(folder.path());
    let model = folder.path().to_str().expect("UTF-8");
    let args = ["serve", "--model", model, "--lora", "x=/nonexistent"];
    let told = run(args.into_iter().chain(HOST));
    assert_eq!(told.status, Some(1), "{told:?}");
    assert!(
        told.stderr.contains("encoders take no adapters"),
        "{told:?}"
    );
}

fn chat(flags: &[&str], input: &str) -> Run {
    run_with_input([&["chat"], flags, &HOST].concat(), input)
}

#[test]
fn unknown_commands_of_chat_are_errors_with_the_list() {
    let unknown = chat(&["-n", "2"], "/save it\n/Exit\n/\n");
    assert_eq!(unknown.status, Some(1), "{unknown:?}");
    let told = unknown.stderr;
    assert_eq!(
        told.matches("error: there is no command /").count(),
        3,
        "{told}"
    );
    for command in ["/help", "/clear", "/exit", "//"] {
        assert!(told.contains(command), "{command}: {told}");
    }
    let help = chat(&["-n", "2"], "/help\n").succeeded();
    assert!(
        help.stderr.contains("/clear ") && !help.stderr.contains("error"),
        "{help:?}"
    );
    // Two slashes send a text that begins with one.
    let sent = chat(&["-n", "8"], "//hello\n").succeeded();
    assert!(!sent.stderr.contains("error"), "{sent:?}");
    let expected = run(["generate", "/hello", "--chat", "-n", "8", HOST[0], HOST[1]]).succeeded();
    assert!(sent.stdout.contains(expected.stdout.trim()), "{sent:?}");
}

#[test]
fn chat_says_that_the_context_is_full_and_how_many_messages_it_drops() {
    let question = "Tell me a story about a fox and a bear.\n";
    let told = chat(&["--max-length", "100"], &question.repeat(4));
    let told = told.succeeded().stderr;
    for words in [
        "context of 100 tokens is full",
        "--max-length",
        "at most 512",
        "/clear",
        "the 2 oldest messages were left out",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let told = chat(
        &["--max-length", "10"],
        "A question that is longer than the context.\n",
    )
    .stderr;
    assert!(told.contains("error: ") && told.contains("10"), "{told}");
}

#[test]
fn end_at_a_limit_of_length_is_told_with_what_to_do() {
    let told = generate(&["Once", "-n", "3", "--ignore-eos"]).stderr;
    let note = "note: stopped after 3 tokens (--max-new-tokens)";
    assert!(told.contains(note), "{told}");
    let told = generate(&["Once", "-n", "1", "--ignore-eos"]).stderr;
    for words in ["1 token on ", "stopped after 1 token (--max-new-tokens)"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let told = generate(&["Once", "--ignore-eos", "--max-length", "30"]).stderr;
    assert!(
        told.contains("30 tokens is full") && told.contains("--max-length"),
        "{told}"
    );
    let told = generate(&["Once", "--ignore-eos", "--max-length", "512"]).stderr;
    assert!(told.contains("made for no more"), "{told}");
}

#[test]
fn unavailable_devices_are_answered_with_those_of_this_machine() {
    for device in ["cuda:x", "rocm", "auto:1", "vulkan:x"] {
        let run = run(["generate", "a", "--device", device]);
        assert_eq!(run.status, Some(2), "{run:?}");
        assert!(
            run.stderr.contains("this machine has ") && run.stderr.contains("host"),
            "{run:?}"
        );
        assert!(!run.stderr.contains("device_specs"), "{run:?}");
    }
    for device in ["host:3", "cuda:63"] {
        let line = run(["generate", "a", "--device", device]).failed("a device that is not there");
        assert!(
            line.contains(device) && line.contains("available: "),
            "{line}"
        );
    }
}

/// Neither names of the library's fields nor phrases of Rust.
#[test]
fn wrong_values_are_told_in_the_terms_of_the_command_line() {
    for (flag, value) in [
        ("--page-size", "0"),
        ("--page-size", "x"),
        ("--max-length", "99999999999"),
        ("--max-new-tokens", "-2"),
        ("--gpu-memory-utilization", "nan"),
        ("--kv-cache-format", "int4"),
        ("--layer-embeddings", "gpu"),
        ("--cache-strategy", "x"),
        ("--quantization-encoding", "x"),
        ("--enable-echo=maybe", "--json"),
        ("--temperature", "x"),
        ("--temperature", "-1"),
        ("--top-p", "2"),
        ("--min-p", "x"),
        ("--repetition-penalty", "-1"),
        ("--seed", "x"),
        ("--seed", "-1"),
        ("--seed", "99999999999"),
        ("--logprobs", "21"),
        ("--top-k", "x"),
        ("--threads", "-1"),
        ("--tokens", "x"),
    ] {
        let text = if flag == "--tokens" { "--json" } else { "a" };
        let run = run(["generate", text, flag, value]);
        assert!([Some(1), Some(2)].contains(&run.status), "{run:?}");
        let name = flag.split('=').next().expect("a name");
        assert!(run.stderr.contains(name), "{run:?}");
        for foreign in [
            "_",
            "..=",
            "digit",
            "literal",
            "null",
            "Some(",
            "unexpected argument",
        ] {
            let message = run.stderr.lines().next().expect("a line");
            // Their values have underscores.
            let names = ["--quantization-encoding", "--kv-cache-format"];
            let allowed = foreign == "_" && names.contains(&flag);
            assert!(
                allowed || !message.contains(foreign),
                "{foreign}: {message}"
            );
        }
    }
    for args in [
        ["bench", "-p", "0"],
        ["bench", "-r", "x"],
        ["perplexity", "--context", "1"],
    ] {
        let run = run(args);
        assert_eq!(run.status, Some(2), "{run:?}");
        assert!(
            run.stderr.contains("must be a whole number from "),
            "{run:?}"
        );
    }
}
