//! `wisp batch`: answers equal those of `wisp serve`, and a run that was killed goes on where it stopped.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use wisp_tests::{
    encoder,
    program::{Run, command, run, run_command, run_with_input},
    server::Server,
};

/// A greedy completion as a line of a batch.
fn line(number: usize, tokens: usize) -> Value {
    let prompt = format!("Once upon a time {number}");
    let body =
        json!({ "prompt": prompt, "temperature": 0, "max_tokens": tokens, "ignore_eos": true });
    json!({ "custom_id": format!("r{number}"), "method": "POST", "url": "/v1/completions", "body": body })
}

/// The files of a batch in a folder of their own.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(lines: &[String]) -> Files {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("in.jsonl"), lines.join("\n")).expect("a file");
        Files { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn args(&self, flags: &[&str]) -> Vec<String> {
        let [input, output] = ["in.jsonl", "out.jsonl"].map(|name| self.path(name));
        let files = [input, output].map(|path| path.to_str().expect("UTF-8").to_string());
        let fixed = ["batch", "--device", "host"].iter().chain(flags);
        fixed.map(|flag| flag.to_string()).chain(files).collect()
    }

    fn run(&self, flags: &[&str]) -> Run {
        run(self.args(flags))
    }

    /// Runs a batch of which requests fail.
    #[track_caller]
    fn run_failing(&self, flags: &[&str], failed: usize) -> Run {
        let run = self.run(flags);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let line = format!("error: {failed} of the requests failed");
        assert!(run.stderr.contains(&line), "{}", run.stderr);
        run
    }

    /// Returns the answers by their ids, and checks that none has two.
    #[track_caller]
    fn answers(&self, name: &str) -> BTreeMap<String, Value> {
        answers(&self.path(name))
    }
}

#[track_caller]
fn answers(path: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(path).expect("answers");
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let mut answers = BTreeMap::new();
    for line in text.lines() {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        let id = answer["custom_id"].as_str().or(answer["id"].as_str());
        let id = id.expect("an id").to_string();
        assert!(
            answers.insert(id.clone(), answer).is_none(),
            "{id} is answered twice"
        );
    }
    answers
}

fn text_of(answer: &Value) -> &Value {
    &answer["response"]["body"]["choices"][0]["text"]
}

#[test]
fn answers_equal_those_of_the_server_and_bad_lines_do_not_stop_the_rest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    encoder::cross_encoder(folder.path());
    let ranker = format!("ranker={}", folder.path().display());
    let tiny = wisp_tests::bundled::folder().join("wisp-tiny.gguf");
    let tiny = format!("tiny={}", tiny.display());
    let models = ["--model", &tiny, "--model", &ranker];
    let request = |id: &str, url: &str, body: Value| json!({ "custom_id": id, "method": "POST", "url": url, "body": body });
    let chat = json!({ "messages": [{ "role": "user", "content": "Hello" }], "temperature": 0, "max_tokens": 5 });
    let rank = json!({ "model": "ranker", "query": "the cat", "documents": ["the kitten", "."] });
    let good = [
        line(0, 8),
        request("chat", "/v1/chat/completions", chat),
        request("rank", "/v1/rerank", rank),
    ];
    let bad = [
        "{".to_string(),
        line(0, 8).to_string(),
        request("get", "/v1/models", json!({})).to_string(),
        request(
            "hot",
            "/v1/completions",
            json!({ "prompt": "a", "temperature": "hot" }),
        )
        .to_string(),
        request(
            "stream",
            "/v1/completions",
            json!({ "prompt": "a", "stream": true }),
        )
        .to_string(),
    ];
    let lines: Vec<String> = good.iter().map(Value::to_string).chain(bad).collect();
    let files = Files::new(&lines);
    let errors = files.path("errors.jsonl");
    let flags = [&models[..], &["--errors", errors.to_str().expect("UTF-8")]].concat();
    let first = files.run_failing(&flags, 5);
    assert!(
        first
            .stderr
            .contains("3 answered, 5 failed, 0 answered before"),
        "{}",
        first.stderr
    );
    let server = Server::start(&models);
    let found = files.answers("out.jsonl");
    assert_eq!(found.len(), 3);
    for request in &good {
        let answer = &found[request["custom_id"].as_str().expect("an id")]["response"];
        assert_eq!(answer["status_code"], 200);
        assert!(answer["request_id"].is_string());
        let expected = server.json(request["url"].as_str().expect("a path"), &request["body"]);
        for part in ["choices", "results"] {
            assert_eq!(answer["body"][part], expected[part], "{request}");
        }
    }
    let failed = files.answers("errors.jsonl");
    let error = |id: &str| failed[id]["error"]["param"].clone();
    assert_eq!(error("batch_req_4"), Value::Null);
    assert_eq!(error("batch_req_5"), "custom_id");
    assert_eq!(error("get"), "url");
    assert_eq!(error("stream"), "body.stream");
    let hot = &failed["hot"]["response"];
    assert_eq!(hot["status_code"], 400);
    assert_eq!(hot["body"]["error"]["param"], "temperature");
    // Everything has an answer now.
    let again = files.run_failing(&flags, 5);
    let counts = "0 answered, 0 failed, 3 answered before, 5 failed before";
    assert!(again.stderr.contains(counts), "{}", again.stderr);
    assert_eq!(files.answers("out.jsonl").len(), 3);
    assert_eq!(files.answers("errors.jsonl").len(), 5);
}

#[test]
fn failed_requests_are_answered_again_on_demand() {
    let mut bad = line(1, 2);
    bad["body"]["temperature"] = json!("hot");
    let files = Files::new(&[line(0, 2).to_string(), bad.to_string()]);
    files.run_failing(&[], 1);
    let first = files.answers("out.jsonl");
    assert_eq!(first["r1"]["response"]["status_code"], 400);
    let mended = [line(0, 2), line(1, 2)].map(|line| line.to_string());
    std::fs::write(files.path("in.jsonl"), mended.join("\n")).expect("a file");
    files.run_failing(&[], 1);
    let without_model = files.run(&["--retry-failed", "--model", "missing.gguf"]);
    assert_eq!(without_model.status, Some(1), "{}", without_model.stderr);
    assert_eq!(files.answers("out.jsonl"), first);
    let last = files.run(&["--retry-failed"]).succeeded();
    let counts = "1 answered, 0 failed, 1 answered before";
    assert!(last.stderr.contains(counts), "{}", last.stderr);
    let answers = files.answers("out.jsonl");
    assert_eq!(answers["r0"], first["r0"]);
    assert_eq!(answers["r1"]["response"]["status_code"], 200);
}

#[test]
fn retry_removes_failed_requests_from_the_file_of_errors() {
    let mut bad = line(1, 2);
    bad["body"]["temperature"] = json!("hot");
    let files = Files::new(&[line(0, 2), bad, line(2, 2)].map(|line| line.to_string()));
    let errors = files.path("errors.jsonl");
    let flags = ["--errors", errors.to_str().expect("UTF-8")];
    files.run_failing(&flags, 1);
    assert!(files.answers("errors.jsonl").keys().eq(["r1"]));
    let first = files.answers("out.jsonl");
    // It fails again.
    let again = [&flags[..], &["--retry-failed"]].concat();
    let run = files.run_failing(&again, 1);
    let counts = "0 answered, 1 failed, 2 answered before";
    assert!(run.stderr.contains(counts), "{}", run.stderr);
    assert!(files.answers("errors.jsonl").keys().eq(["r1"]));
    let mended = [0, 1, 2].map(|number| line(number, 2).to_string());
    std::fs::write(files.path("in.jsonl"), mended.join("\n")).expect("a file");
    files.run(&again).succeeded();
    assert!(files.answers("errors.jsonl").is_empty());
    let mut answers = files.answers("out.jsonl");
    let retried = answers.remove("r1").expect("an answer");
    assert_eq!(retried["response"]["status_code"], 200);
    assert_eq!(answers, first);
}

#[cfg(unix)]
#[test]
fn input_that_stays_open_delays_neither_answers_nor_a_signal() {
    use std::{io::Write, process::Stdio};

    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    let files = Files::new(&[]);
    let out = files.path("out.jsonl");
    let args = [
        "batch",
        "--device",
        "host",
        "-",
        out.to_str().expect("UTF-8"),
    ];
    let child = command(args).stdin(Stdio::piped()).spawn();
    let mut child = child.expect("wisp starts");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "{}", line(0, 2)).expect("it reads");
    let wait_for = |done: &mut dyn FnMut() -> bool| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing happens");
            std::thread::sleep(Duration::from_millis(5));
        }
        start.elapsed()
    };
    wait_for(&mut || std::fs::read_to_string(&out).is_ok_and(|text| text.ends_with('\n')));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let mut status = None;
    let time = wait_for(&mut || {
        status = child.try_wait().expect("a status");
        status.is_some()
    });
    assert!(time < Duration::from_secs(10), "{time:?}");
    assert_eq!(status.and_then(|status| status.code()), Some(130));
    assert!(files.answers("out.jsonl").keys().eq(["r0"]));
    drop(input);
}

#[test]
fn requests_may_come_from_standard_input_with_a_byte_order_mark() {
    let files = Files::new(&[]);
    let output = files.path("out.jsonl");
    let output = output.to_str().expect("UTF-8");
    let response = json!({ "input": "Hello", "temperature": 0, "max_output_tokens": 2 });
    let response =
        json!({ "custom_id": "r1", "method": "POST", "url": "/v1/responses", "body": response });
    let input = format!("\u{feff}{}\n{response}", line(0, 2));
    let args = ["batch", "--device", "host", "-", output];
    let done = run_with_input(args, &input).succeeded();
    assert!(done.stderr.contains("2 answered"), "{}", done.stderr);
    let answers = files.answers("out.jsonl");
    assert_eq!(answers["r1"]["response"]["body"]["object"], "response");
    let message = run(["batch", "--device", "host", output, "-"]).failed("answers to a pipe");
    assert!(message.contains("name a file"), "{message}");
}

#[test]
fn files_that_the_command_did_not_write_stay_as_they_are() {
    let files = Files::new(&[line(0, 1).to_string()]);
    std::fs::write(files.path("out.jsonl"), "my notes").expect("a file");
    assert!(
        files
            .run(&[])
            .failed("a foreign file")
            .contains("was not written by this command")
    );
    let notes = std::fs::read_to_string(files.path("out.jsonl"));
    assert_eq!(notes.expect("the file"), "my notes");
    let input = files.path("in.jsonl");
    let input = input.to_str().expect("UTF-8");
    let same = run(["batch", "--device", "host", input, input]);
    assert!(
        same.failed("one file for both")
            .contains("name another one")
    );
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_because_answers_are_appended() {
    let files = Files::new(&[line(0, 1).to_string()]);
    let names = ["in.jsonl", "out.jsonl", "pipe"];
    let paths = names.map(|name| files.path(name).display().to_string());
    let [input, output, pipe] = paths.each_ref().map(String::as_str);
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.expect("mkfifo").success());
    for outputs in [&[pipe][..], &["/dev/null"], &[output, "--errors", pipe]] {
        let fixed = ["batch", "--device", "host", input];
        let message = run([&fixed[..], outputs].concat()).failed("no file");
        assert!(message.contains("so name a file"), "{message}");
    }
    assert!(!files.path("out.jsonl").exists());
}

#[cfg(unix)]
#[test]
fn killed_run_goes_on_with_no_request_lost_or_answered_twice() {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    const COUNT: usize = 80;
    let lines: Vec<String> = (0..COUNT)
        .map(|number| line(number, 40).to_string())
        .collect();
    let whole = Files::new(&lines);
    whole.run(&[]).succeeded();
    let expected = whole.answers("out.jsonl");
    assert_eq!(expected.len(), COUNT);
    let files = Files::new(&lines);
    let out = files.path("out.jsonl");
    for (signal, least) in [(Signal::SIGKILL, 10), (Signal::SIGINT, 30)] {
        let mut child = command(files.args(&[])).spawn().expect("wisp starts");
        let start = Instant::now();
        let lines = || std::fs::read_to_string(&out).map_or(0, |text| text.lines().count());
        while lines() < least {
            assert!(start.elapsed() < Duration::from_secs(60), "no answers");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
        let status = child.wait().expect("a status");
        assert!(lines() < COUNT, "it was not interrupted");
        match signal {
            Signal::SIGINT => assert_eq!(status.code(), Some(130)),
            // A line that was being written when the machine stopped.
            _ => {
                let mut text = std::fs::read_to_string(&out).expect("answers");
                text.push_str("{\"id\":\"batch_req_99\",\"custom_id\":\"r9");
                std::fs::write(&out, text).expect("a file");
            }
        }
    }
    let last = run_command(command(files.args(&[])), "").succeeded();
    assert!(
        !last.stderr.contains(" 0 answered before"),
        "{}",
        last.stderr
    );
    let found = files.answers("out.jsonl");
    assert!(found.keys().eq(expected.keys()));
    for (id, answer) in &found {
        assert_eq!(text_of(answer), text_of(&expected[id]), "{id}");
    }
}
