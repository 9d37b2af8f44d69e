//! Standard input, output and error: pipes that close, interrupts, conversations, logging.

use super::*;

#[test]
fn a_reader_that_closes_the_pipe_ends_the_program_quietly() {
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
fn an_interrupt_keeps_the_text_printed_so_far() {
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
    // The first letters: now it generates.
    let mut text = vec![0; 2];
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
fn chat_reads_a_conversation_from_standard_input() {
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
fn chat_fails_if_a_line_of_standard_input_does() {
    for (input, expected) in [
        (
            &b"/exit now\nHello\n"[..],
            &["/exit takes no argument", "error: 1 line failed"][..],
        ),
        (
            b"/nonsense\n/clear all\n/exit\n",
            &["no command /nonsense", "error: 2 lines failed"],
        ),
        (
            b"Hello\n\xff\n",
            &["standard input is not text in UTF-8: line 2 is invalid"],
        ),
    ] {
        let mut child = command(["chat", "--max-new-tokens", "2", "--device", "host"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        for words in expected {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
    }
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
