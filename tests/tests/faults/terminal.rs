//! Control characters on their way to a terminal, from files, names, errors and models.

use std::{os::unix::ffi::OsStrExt, path::Path};

use wisp_engine::weights::gguf::Value;
use wisp_tests::{
    fault,
    gguf_writer::GgufWriter,
    program::{command, run},
    terminal::{self, OnTerminal},
};

/// Escape sequences of 7 and 8 bits, control characters, and an override of the text's direction.
const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{7}\u{8}\r\u{7f}\u{202e}z";

const HOST: [&str; 2] = ["--device", "host"];

#[track_caller]
fn assert_harmless(what: &str, shown: &str) {
    let is_hostile = |c: char| {
        let shown = ['\n', '\t'].contains(&c);
        c.is_control() && !shown || ('\u{202a}'..='\u{202e}').contains(&c)
    };
    assert!(!shown.contains(is_hostile), "{what}: {shown:?}");
}

/// What follows the progress bars.
fn after_bars(shown: &str) -> &str {
    shown.rsplit("\u{1b}[2K").next().unwrap_or(shown)
}

/// The ids of the tokens that spell a text.
fn ids(text: &str) -> Vec<String> {
    let json = run(["tokenize", "--no-special", "--json", text]).json();
    let ids = json["tokens"].as_array().expect("tokens");
    ids.iter().map(ToString::to_string).collect()
}

#[test]
fn errors_escape_the_names_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(HOSTILE);
    for args in [
        vec!["info".as_ref(), path.as_os_str()],
        vec!["tokenize".as_ref(), "--file".as_ref(), path.as_os_str()],
        vec![
            "generate".as_ref(),
            "--prompt-file".as_ref(),
            path.as_os_str(),
        ],
        vec![
            "logits".as_ref(),
            "--tokens=1".as_ref(),
            "--out".as_ref(),
            path.join("x").as_os_str(),
        ],
        vec!["info".as_ref(), "--config".as_ref(), path.as_os_str()],
        vec![
            "generate".as_ref(),
            "a".as_ref(),
            "--lora".as_ref(),
            path.as_os_str(),
        ],
    ] {
        let message = fault::run_limited(&args).failed("a missing file");
        assert_harmless("an error", message.trim_end());
        assert!(message.contains("\\u{1b}[2J"), "{message}");
    }
}

#[test]
fn wrong_usage_escapes_its_arguments() {
    for args in [
        vec![HOSTILE],
        vec!["info", "a", HOSTILE],
        vec!["generate", "a", "--device", HOSTILE],
    ] {
        let (shown, status) = terminal::run(command(&args));
        assert_eq!(status, Some(2), "{shown}");
        assert_harmless("wrong usage", &shown);
    }
}

#[test]
fn metadata_of_a_model_is_escaped() {
    let file = GgufWriter::new(3, false)
        .key("general.architecture", Value::String(HOSTILE.into()))
        .key("tokenizer.ggml.model", Value::String(HOSTILE.into()));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(format!("{HOSTILE}.gguf"));
    std::fs::write(&path, file.write()).expect("a file");
    for args in [
        ["info"].as_slice(),
        &["generate", "a", "--model"],
        &["tokenize", "a", "--model"],
    ] {
        let mut command = command(args);
        command.arg(&path);
        let (shown, status) = terminal::run(command);
        assert_eq!(status, Some(1), "{shown}");
        assert_harmless("an error", &shown);
    }
}

#[test]
fn tables_escape_names_of_models() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(format!("{HOSTILE}\nname.gguf"));
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native-demo/model/wisp-tiny.gguf");
    std::fs::copy(model, &path).expect("a model");
    let shown = run(["info".as_ref(), path.as_os_str()]).succeeded().stdout;
    assert_harmless("info", &shown);
    assert!(
        shown.contains("\\u{1b}[2J") && shown.contains("\\u{a}name"),
        "{shown}"
    );
    let json = run(["info".as_ref(), "--json".as_ref(), path.as_os_str()]).succeeded();
    assert_harmless("JSON", json.stdout.trim_end());
    assert_eq!(json.json()["model"].as_str(), path.to_str());

    let cache = folder.path().join("hub");
    let snapshot = cache.join(format!("models--org--{HOSTILE}/snapshots/1"));
    std::fs::create_dir_all(&snapshot).expect("a folder");
    std::fs::write(snapshot.join(format!("{HOSTILE}.gguf")), "").expect("a file");
    let mut list = command(["list"]);
    list.env("HF_HUB_CACHE", &cache);
    let (shown, status) = terminal::run(list);
    assert_eq!(status, Some(0), "{shown}");
    assert_harmless("list", &shown);
}

#[test]
fn generated_text_is_escaped_on_a_terminal_and_raw_in_a_pipe() {
    for text in ["\u{1b}", "\u{7}", "\r", "\u{8}"] {
        let token = ids(text).pop().expect("a token");
        let bias = format!("--logit-bias={token}=1000");
        let args = [
            "generate",
            "Once",
            "-n",
            "4",
            "--ignore-eos",
            &bias,
            HOST[0],
            HOST[1],
        ];
        assert_eq!(run(args).succeeded().stdout, text.repeat(4) + "\n");
        let (shown, status) = terminal::run(command(args));
        assert_eq!(status, Some(0), "{shown}");
        assert_harmless("generated text", after_bars(&shown));
        let escaped = text.escape_unicode().to_string();
        assert!(shown.contains(&escaped.repeat(4)), "{shown:?}");
    }
}

/// The two bytes of U+009B in UTF-8 are two tokens.
#[test]
fn control_character_of_two_tokens_is_escaped() {
    let pair = ids("\u{9b}");
    let args = [
        "generate",
        "-n",
        "1",
        "--echo",
        "--tokens",
        &pair.join(","),
        HOST[0],
        HOST[1],
    ];
    let (shown, status) = terminal::run(command(args));
    assert_eq!(status, Some(0), "{shown}");
    assert_harmless("an echoed prompt", after_bars(&shown));
    assert!(shown.contains("\\u{9b}"), "{shown:?}");
}

#[test]
fn echoed_prompt_is_escaped_on_a_terminal() {
    let args = ["generate", HOSTILE, "-n", "1", "--echo", HOST[0], HOST[1]];
    let (shown, _) = terminal::run(command(args));
    assert_harmless("an echo", after_bars(&shown));
    assert!(run(args).succeeded().stdout.starts_with(HOSTILE));
}

#[test]
fn tokens_and_logs_are_escaped() {
    let (shown, status) = terminal::run(command(["tokenize", HOSTILE]));
    assert_eq!(status, Some(0), "{shown}");
    assert_harmless("tokenize", &shown);
    let mut logged = command(["info", HOSTILE]);
    logged.env("WISP_LOG", "trace");
    assert_harmless("a log", &terminal::run(logged).0);
    let mut logged = command(["info"]);
    logged.env("WISP_LOG", format!("{HOSTILE}=x"));
    assert_harmless("an invalid filter", &terminal::run(logged).0);
}

#[test]
fn chat_escapes_answers_and_unknown_commands() {
    let bias = format!(
        "--logit-bias={}=1000",
        ids("\u{1b}").pop().expect("a token")
    );
    let args = ["chat", "-n", "3", &bias, HOST[0], HOST[1]];
    let mut chat = OnTerminal::start(command(args));
    chat.read_until("lists all.\n");
    chat.send("Hello\r");
    let answer = chat.read_until("(--max-new-tokens)");
    assert!(answer.contains("\\u{1b}\\u{1b}\\u{1b}"), "{answer:?}");
    chat.send("/exit\r");
    assert_eq!(chat.finish().1, Some(0));
}

#[test]
fn name_that_is_not_unicode_is_harmless() {
    let name = std::ffi::OsStr::from_bytes(b"\x9b31m\xff.gguf");
    let message = fault::run_limited(["info".as_ref(), name]);
    assert_ne!(message.status, Some(0));
    assert_harmless("an error", &message.stderr);
}
