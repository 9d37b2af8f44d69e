//! Standard output and standard error that are closed or full, and files that commands write.

use std::{fs::File, io::Read, process::Stdio};

use wisp_tests::program::command;

/// A command of every kind, with more output than a pipe holds where it has that much.
const COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "generate"],
    &["info"],
    &["info", "--json"],
    &["info", "--graph"],
    &["info", "--graph-text"],
    &["list"],
    &["devices"],
    &["licenses"],
    &["man"],
    &["completions", "bash"],
    &["tokenize", "Once upon a time"],
    &["perplexity", "--device", "host", "--file", "Cargo.toml"],
    &["generate", "Once", "-n", "20", "--device", "host"],
    &["generate", "Once", "-n", "2", "--device", "host", "--json"],
    &["bench", "-p", "4", "-n", "2", "-r", "1", "--device", "host"],
    &[
        "bench", "-p", "4", "-n", "2", "-r", "1", "--device", "host", "--ops",
    ],
    &[
        "bench",
        "-p",
        "4",
        "-n",
        "2",
        "-r",
        "1",
        "--device",
        "host",
        "--profiling",
        "on",
    ],
];

#[test]
fn closed_pipe_ends_every_command_in_silence() {
    for args in COMMANDS {
        let mut child = command(*args).spawn().expect("wisp starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("an end");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("error"), "{args:?}: {stderr}");
    }
}

#[test]
fn closed_pipe_of_errors_changes_no_result() {
    for args in COMMANDS {
        let mut child = command(*args).spawn().expect("wisp starts");
        drop(child.stderr.take());
        let mut out = child.stdout.take().expect("a pipe");
        out.read_to_end(&mut Vec::new()).expect("an output");
        assert_eq!(child.wait().expect("an end").code(), Some(0), "{args:?}");
    }
    let mut child = command(["info", "/nowhere"]).spawn().expect("wisp starts");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("an end").code(), Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn full_standard_output_is_one_error_line() {
    for args in COMMANDS {
        let mut command = command(*args);
        command.stdout(Stdio::from(File::create("/dev/full").expect("a device")));
        let output = command.output().expect("an end");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        let mut errors = stderr.lines().filter(|line| line.starts_with("error: "));
        let error = errors.next().unwrap_or_default();
        assert!(
            error.contains("cannot write to standard output: No space"),
            "{args:?}: {stderr}"
        );
        assert_eq!(errors.next(), None, "{args:?}: {stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_standard_error_changes_no_result() {
    for args in COMMANDS {
        let mut command = command(*args);
        command.stderr(Stdio::from(File::create("/dev/full").expect("a device")));
        command.env("WISP_LOG", "debug").env("WISP_DEBUG", "op-log");
        assert_eq!(
            command.output().expect("an end").status.code(),
            Some(0),
            "{args:?}"
        );
    }
}
