//! Every signal that ends programs: the right status at once, no temporary file, nothing half-written.

use std::{
    path::Path,
    process::{Child, Command, Output},
    time::{Duration, Instant},
};

use wisp_tests::{
    hub::{Fault, Hub},
    program::{command, run},
    slow_model,
    terminal::OnTerminal,
};

/// Signals with the exit status of a program that they end.
const SIGNALS: [(&str, i32); 8] = [
    ("HUP", 129),
    ("INT", 130),
    ("QUIT", 131),
    ("USR1", 138),
    ("USR2", 140),
    ("ALRM", 142),
    ("TERM", 143),
    ("XCPU", 152),
];

fn send(signal: &str, child: &Child) {
    let mut kill = Command::new("kill");
    let sent = kill
        .args([&format!("-{signal}"), &child.id().to_string()])
        .status();
    assert!(sent.expect("kill").success());
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for the end of a program, which must come soon.
#[track_caller]
fn end(child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    let Output { status, stderr, .. } = child.wait_with_output().expect("an end");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn every_signal_ends_a_conversion_without_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model");
    slow_model::write(&model);
    for (out, encoding) in [("new.gguf", "q4_k"), ("new", "f16")] {
        for (signal, status) in SIGNALS {
            let child = command(["convert", "--encoding", encoding])
                .args(["--model".as_ref(), model.as_os_str()])
                .args(["--out".as_ref(), folder.path().join(out).as_os_str()])
                .spawn()
                .expect("wisp starts");
            wait_for("a temporary file", || entries(folder.path()).len() > 1);
            send(signal, &child);
            let (ended, stderr) = end(child);
            assert_eq!(ended, Some(status), "{signal}: {stderr}");
            assert_eq!(entries(folder.path()), ["model"], "{signal}");
        }
    }
}

#[test]
fn ignored_hangup_stays_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model");
    slow_model::write(&model);
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    let wisp = command(["convert", "--encoding", "f16"]);
    nohup.arg(wisp.get_program()).args(wisp.get_args());
    let child = nohup
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--out".as_ref(), folder.path().join("new").as_os_str()])
        .env("WISP_CONFIG", "")
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("wisp starts");
    wait_for("a temporary file", || entries(folder.path()).len() > 1);
    send("HUP", &child);
    assert_eq!(
        child.wait_with_output().expect("an end").status.code(),
        Some(0)
    );
    assert_eq!(entries(folder.path()), ["model", "new"]);
}

/// The command waits for standard input, which is no operation that could be cancelled.
#[test]
fn every_signal_ends_a_command_that_waits() {
    for (signal, status) in SIGNALS {
        let mut waiting = command(["tokenize", "--file", "-"]);
        let mut child = waiting
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("wisp starts");
        let input = child.stdin.take();
        std::thread::sleep(Duration::from_millis(300));
        send(signal, &child);
        assert_eq!(end(child).0, Some(status), "{signal}");
        drop(input);
    }
}

#[test]
fn every_signal_ends_a_download_that_continues_later() {
    let tiny: &[u8] = include_bytes!("../../../native-demo/model/wisp-tiny.gguf");
    for (signal, status) in SIGNALS {
        let (hub, home) = (Hub::start(), tempfile::tempdir().expect("a folder"));
        hub.add("org/tiny", "tiny-Q8_0.gguf", tiny);
        hub.inject("GET /org", Fault::Slow(Duration::from_millis(50)), 1);
        let args = [
            "generate", "a", "-n", "1", "--device", "host", "--model", "org/tiny",
        ];
        let child = hub
            .command(home.path(), &args)
            .spawn()
            .expect("wisp starts");
        let blobs = home.path().join("hub/models--org--tiny/blobs");
        let sizes = || {
            let files = std::fs::read_dir(&blobs).into_iter().flatten().flatten();
            files
                .map(|file| file.metadata().map_or(0, |data| data.len()))
                .sum::<u64>()
        };
        wait_for("a partial file", || sizes() > 0);
        send(signal, &child);
        let (ended, stderr) = end(child);
        assert_eq!(ended, Some(status), "{signal}: {stderr}");
        assert!(
            entries(&blobs)
                .iter()
                .all(|name| name.ends_with(".incomplete")),
            "{signal}"
        );
        let again = hub.command(home.path(), &args).output().expect("an end");
        assert!(
            again.status.success(),
            "{}",
            String::from_utf8_lossy(&again.stderr)
        );
    }
}

#[test]
fn file_that_exceeds_the_limit_of_its_size_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let wisp = command([
        "logits",
        "--device",
        "host",
        "--tokens",
        "1,2,3,4,5,6,7,8",
        "--out",
        "l.safetensors",
    ]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]);
    limited
        .arg(wisp.get_program())
        .args(wisp.get_args())
        .env("WISP_CONFIG", "")
        .env("WISP_CACHE_DIR", "");
    let output = limited.current_dir(folder.path()).output().expect("an end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot write l.safetensors: File too large"),
        "{stderr}"
    );
    assert!(entries(folder.path()).is_empty());
}

#[test]
fn second_interrupt_exits_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model");
    slow_model::write(&model);
    let child = command(["convert", "--encoding", "q4_k"])
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--out".as_ref(), folder.path().join("new.gguf").as_os_str()])
        .spawn()
        .expect("wisp starts");
    wait_for("a temporary file", || entries(folder.path()).len() > 1);
    send("INT", &child);
    send("INT", &child);
    assert_eq!(end(child).0, Some(130));
    assert_eq!(entries(folder.path()), ["model"]);
}

#[test]
fn interrupt_in_chat_stops_the_answer_and_not_the_chat() {
    let args = [
        "chat",
        "--device",
        "host",
        "--logit-bias",
        "65=1000",
        "--max-num-steps",
        "1",
    ];
    let mut chat = OnTerminal::start(command(args));
    chat.read_until("lists all.\n");
    chat.send("Hello\r");
    chat.read_until("____");
    send("INT", &chat.child);
    let rest = chat.read_until("\n");
    chat.read_until("> ");
    assert!(rest.len() < 450, "{rest:?}");
    chat.send("/exit\r");
    assert_eq!(chat.finish().1, Some(0));
}

#[test]
fn termination_at_the_prompt_of_chat_restores_the_terminal() {
    use nix::sys::termios::{LocalFlags, tcgetattr};
    let mut chat = OnTerminal::start(command(["chat", "--device", "host"]));
    let echoes = |chat: &OnTerminal| {
        let state = tcgetattr(&chat.person).expect("a state");
        state.local_flags.contains(LocalFlags::ECHO)
    };
    chat.read_until("lists all.\n");
    wait_for("the line editor", || !echoes(&chat));
    send("TERM", &chat.child);
    assert_eq!(chat.child.wait().expect("an end").code(), Some(143));
    assert!(echoes(&chat));
}

#[test]
fn interrupted_text_ends_with_its_line() {
    let args = [
        "generate",
        "Once",
        "--device",
        "host",
        "--ignore-eos",
        "--max-num-steps",
        "1",
    ];
    let whole = run(args).succeeded().stdout;
    for (signal, status) in SIGNALS {
        let mut child = command(args).spawn().expect("wisp starts");
        let mut out = child.stdout.take().expect("a pipe");
        let mut text = vec![0; 2];
        std::io::Read::read_exact(&mut out, &mut text).expect("a text");
        send(signal, &child);
        std::io::Read::read_to_end(&mut out, &mut text).expect("a text");
        assert_eq!(end(child).0, Some(status), "{signal}");
        let text = String::from_utf8(text).expect("a text");
        assert!(whole.starts_with(text.trim_end()), "{text}");
    }
}
