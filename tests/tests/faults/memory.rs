//! Commands with hostile models, under limits of memory and time: an error or a result, never an abort.

use wisp_engine::weights::gguf::Value;
use wisp_tests::{bundled, fault};

/// The commands that read a model, without the model.
const COMMANDS: &[&[&str]] = &[
    &["info"],
    &["tokenize", "--text", "Hello"],
    &["generate", "Hello", "-n", "2", "--device", "host"],
    &["generate", "--chat", "Hello", "-n", "2", "--device", "host"],
    &[
        "logits", "--tokens", "1,2", "--device", "host", "--out", "OUT",
    ],
    &["perplexity", "--file", "TEXT", "--device", "host"],
    &["convert", "--encoding", "q8_0", "--out", "OUT"],
    &["encode", "--text", "Hello", "--device", "host"],
    &["bench", "-p", "4", "-n", "2", "-r", "1", "--device", "host"],
    &["tune", "--device", "host", "--out", "OUT"],
    &["warm-cache", "--device", "host", "--out", "OUT"],
];

/// Runs every command with a file as its model. Each must end within the limits; returns the error messages.
#[track_caller]
fn run_every_command(file: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model.gguf");
    std::fs::write(&model, file).expect("a file");
    let text = folder.path().join("text.txt");
    std::fs::write(&text, "Once upon a time there was a cat.").expect("a file");
    let mut messages = Vec::new();
    for (index, command) in COMMANDS.iter().enumerate() {
        let out = folder.path().join(format!("out{index}.gguf"));
        let path = |arg: &&str| match *arg {
            "OUT" => out.display().to_string(),
            "TEXT" => text.display().to_string(),
            arg => arg.to_string(),
        };
        let mut args: Vec<String> = command.iter().map(path).collect();
        args.extend(["--model".into(), model.display().to_string()]);
        let run = fault::run_limited(&args);
        if run.status != Some(0) {
            messages.push(run.failed(command[0]));
            assert!(!out.exists(), "{command:?} leaves a file");
        }
    }
    messages
}

/// Runs every command with the built-in model after changes of its metadata, and asserts that `generate` and all others
/// that fail say what is wrong with the words.
#[track_caller]
fn assert_refused(changes: &[(&str, Value)], words: &[&str]) {
    let changes: Vec<_> = changes
        .iter()
        .map(|(key, value)| (*key, Some(value.clone())))
        .collect();
    let messages = run_every_command(&bundled::with_metadata(&changes));
    assert!(messages.len() >= 4, "{changes:?} is accepted: {messages:?}");
    for message in messages
        .iter()
        .filter(|message| !message.contains("encode"))
    {
        assert!(
            words.iter().any(|word| message.contains(word)),
            "{changes:?}: {message}"
        );
    }
}

#[test]
fn four_billion_layers_are_refused() {
    assert_refused(
        &[("llama.block_count", Value::U32(u32::MAX))],
        &["4294967295"],
    );
}

#[test]
fn four_billion_columns_are_refused() {
    assert_refused(
        &[("llama.embedding_length", Value::U32(u32::MAX))],
        &["4294967295"],
    );
}

#[test]
fn four_billion_heads_are_refused() {
    assert_refused(
        &[("llama.attention.head_count", Value::U32(u32::MAX))],
        &["4294967295", "head"],
    );
}

#[test]
fn four_billion_rows_of_the_feed_forward_network_are_refused() {
    assert_refused(
        &[("llama.feed_forward_length", Value::U32(u32::MAX))],
        &["4294967295"],
    );
}

#[test]
fn longest_context_takes_no_memory_before_it_is_used() {
    let changes = [("llama.context_length", Some(Value::U32(1 << 28)))];
    let messages = run_every_command(&bundled::with_metadata(&changes));
    // The model is no encoder.
    assert!(
        messages.iter().all(|message| message.contains("encoder")),
        "{messages:?}"
    );
}

#[test]
fn context_of_four_billion_tokens_is_refused() {
    assert_refused(
        &[("llama.context_length", Value::U32(u32::MAX))],
        &["4294967295"],
    );
}

#[test]
fn rotation_of_four_billion_dimensions_is_refused() {
    assert_refused(
        &[("llama.rope.dimension_count", Value::U32(u32::MAX))],
        &["4294967295", "dimension"],
    );
}

#[test]
fn random_bytes_are_refused() {
    let mut state = 7u32;
    let noise = (0..100_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    let messages = run_every_command(&noise.collect::<Vec<u8>>());
    assert_eq!(messages.len(), COMMANDS.len());
}

#[test]
fn lengths_beyond_the_file_are_refused() {
    let file = bundled::with_metadata(&[]);
    // The numbers of tensors and of keys, behind the magic and the version.
    for at in [8, 16] {
        let mut forged = file.clone();
        forged[at..at + 8].copy_from_slice(&(1u64 << 60).to_le_bytes());
        assert_eq!(
            run_every_command(&forged).len(),
            COMMANDS.len(),
            "the number at {at}"
        );
    }
    // The length of the first key.
    let mut forged = file;
    forged[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(
        run_every_command(&forged).len(),
        COMMANDS.len(),
        "the length of a key"
    );
}
