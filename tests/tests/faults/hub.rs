//! Hubs that are slow, lie or break off, and settings that lead to none.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use wisp_tests::{
    fault,
    hub::{COMMIT, Fault, Hub},
    parallel,
    program::Run,
};

pub const TINY: &[u8] = include_bytes!("../../../native-demo/model/wisp-tiny.gguf");

const GENERATE: &[&str] = &["--device", "host", "--json", "--tokens", "1,2,3", "-n", "4"];

/// A hub with the built-in model as `org/tiny`, and a folder for the cache.
pub fn tiny_hub() -> (Hub, TempDir) {
    let hub = Hub::start();
    hub.add("org/tiny", "tiny-Q8_0.gguf", TINY);
    (hub, tempfile::tempdir().expect("a folder"))
}

/// Returns a command that generates with `org/tiny` and waits for a silent server 0.4 s, for a broken transfer 2.4 s,
/// of which it does not warn.
pub fn command(hub: &Hub, home: &Path) -> Command {
    let args = [&["generate", "--model", "org/tiny"], GENERATE].concat();
    let mut command = hub.command(home, &args);
    command
        .env("HF_HUB_DOWNLOAD_TIMEOUT", "0.4")
        .env("WISP_LOG", "wisp=error");
    command
}

fn generate(hub: &Hub, home: &TempDir) -> Run {
    fault::run_command_limited(command(hub, home.path()))
}

/// Injects a fault into all requests whose line contains `pattern`, and returns the program's message.
fn refused(pattern: &str, what: &str, fault: Fault) -> String {
    let (hub, home) = tiny_hub();
    hub.inject(pattern, fault, usize::MAX);
    let message = generate(&hub, &home).failed(what);
    assert!(message.contains("org/tiny"), "{what}: {message}");
    assert_no_model(&home, what);
    message
}

/// Asserts that the cache has no file under its final name.
fn assert_no_model(home: &TempDir, what: &str) {
    let names = below(home.path());
    let is_model = |path: &&PathBuf| path.ends_with("tiny-Q8_0.gguf");
    assert_eq!(names.iter().find(is_model), None, "{what}");
}

/// Returns all files and links below a folder.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => found.extend(below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// The two requests of a download: for the list of files, and for the file.
const REQUESTS: [&str; 2] = ["GET /api", "GET /org"];

/// Each case for each of the [`REQUESTS`].
fn of_each_request<T: Clone>(
    cases: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (&'static str, T)> {
    let of_case = |case: T| REQUESTS.map(|pattern| (pattern, case.clone()));
    cases.into_iter().flat_map(of_case)
}

const OK: &str = "HTTP/1.1 200 OK\nConnection: close";

#[test]
fn silent_hub_times_out() {
    for pattern in REQUESTS {
        let silent = Fault::raw(|_, _| {
            std::thread::sleep(Duration::from_secs(20));
            Ok(())
        });
        let message = refused(pattern, "silence", silent);
        assert!(message.contains("HF_HUB_DOWNLOAD_TIMEOUT"), "{message}");
    }
}

#[test]
fn hub_that_sends_a_byte_now_and_then_times_out() {
    let drip = |head: &'static str| {
        Fault::raw(move |stream, _| {
            stream.write_all(head.as_bytes())?;
            for _ in 0..400 {
                stream.write_all(b" ")?;
                stream.flush()?;
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        })
    };
    for pattern in REQUESTS {
        let body = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
        for head in [body, "HTTP/1.1 200 OK\r\nX: ", "HTTP"] {
            let message = refused(pattern, head, drip(head));
            let expected = ["HF_HUB_DOWNLOAD_TIMEOUT", "unexpected answer"];
            assert!(
                expected.iter().any(|words| message.contains(words)),
                "{head:?}: {message}"
            );
        }
    }
}

#[test]
fn endless_answers_are_cut() {
    let endless = |head: &'static str, piece: &'static [u8]| {
        Fault::raw(move |stream, _| {
            stream.write_all(head.as_bytes())?;
            let block = piece.repeat((1 << 20) / piece.len());
            loop {
                stream.write_all(&block)?;
            }
        })
    };
    let body = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    for pattern in REQUESTS {
        refused(pattern, "an endless body", endless(body, b" "));
        refused(
            pattern,
            "endless headers",
            endless("HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        );
        refused(
            pattern,
            "an endless header",
            endless("HTTP/1.1 200 OK\r\nX: ", b"a"),
        );
        refused(pattern, "an endless status", endless("HTTP/1.1 200 ", b"a"));
    }
    let open = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[";
    let entry: &[u8] = br#"{"type":"file","path":"a"},"#;
    let message = refused(
        "GET /api/models/org/tiny/tree",
        "entries",
        endless(open, entry),
    );
    assert!(message.contains("more than"), "{message}");
}

#[test]
fn redirects_to_nowhere_are_refused() {
    let locations = [
        "/api/models/org/tiny",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "data:text/plain,x",
        "http://127.0.0.1:1/x",
        "http://",
        "\u{1}",
    ];
    parallel::for_each(of_each_request(locations), |(pattern, location)| {
        let location = match (pattern, location) {
            ("GET /org", "/api/models/org/tiny") => "/org/tiny/resolve/main/tiny-Q8_0.gguf",
            (_, location) => location,
        };
        let head = format!("HTTP/1.1 302 x\nLocation: {location}\nContent-Length: 0");
        let message = refused(pattern, location, Fault::response(head, ""));
        assert!(!message.contains("root:"), "{message}");
    });
}

#[test]
fn token_is_not_sent_to_another_host() {
    let (hub, home) = tiny_hub();
    let other = Hub::start_at("127.0.0.2");
    other.add("org/tiny", "tiny-Q8_0.gguf", TINY);
    for pattern in REQUESTS {
        let path = match pattern {
            "GET /api" => "api/models/org/tiny".into(),
            _ => format!("org/tiny/resolve/{COMMIT}/tiny-Q8_0.gguf"),
        };
        let head = format!(
            "HTTP/1.1 302 x\nLocation: {}/{path}\nContent-Length: 0",
            other.address()
        );
        hub.inject(pattern, Fault::response(head, ""), 1);
    }
    let mut command = command(&hub, home.path());
    command.env("HF_TOKEN", "hf_secret");
    fault::run_command_limited(command).succeeded();
    let own = hub.requests("GET /");
    assert!(own.iter().all(|request| request.authorization.is_some()));
    let others = other.requests("GET /");
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|request| request.authorization.is_none()));
}

#[test]
fn list_of_files_that_continues_elsewhere_is_refused() {
    let other = Hub::start_at("127.0.0.2");
    for next in [
        format!("{}/api/models/org/tiny/tree/{COMMIT}", other.address()),
        "//127.0.0.2/x".into(),
        "file:///etc/passwd".into(),
    ] {
        let head = format!("{OK}\nLink: <{next}>; rel=\"next\"");
        let message = refused("/tree/", &next, Fault::response(head, "[]"));
        assert!(message.contains("another host"), "{message}");
    }
    assert_eq!(other.requests("").len(), 0);
}

#[test]
fn list_of_files_without_an_end_is_refused() {
    let (hub, home) = tiny_hub();
    let url = format!(
        "{}/api/models/org/tiny/tree/{COMMIT}?recursive=true",
        hub.address()
    );
    let same = Fault::response(format!("{OK}\nLink: <{url}>; rel=\"next\""), "[]");
    hub.inject("/tree/", same, usize::MAX);
    let message = generate(&hub, &home).failed("a page after itself");
    assert!(message.contains("followed by itself"), "{message}");
    hub.clear_faults();
    let page = std::sync::atomic::AtomicUsize::new(0);
    let others = Fault::raw(move |stream, _| {
        let page = page.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let head =
            format!("{OK}\nLink: <{url}&page={page}>; rel=\"next\"\n\n").replace('\n', "\r\n");
        // In one piece: a second one would wait for the client to acknowledge the first.
        stream.write_all((head + "[]").as_bytes())
    });
    hub.inject("/tree/", others, usize::MAX);
    let message = generate(&hub, &home).failed("pages without an end");
    assert!(message.contains("pages"), "{message}");
}

#[test]
fn malformed_answers_are_refused() {
    let deep = "[".repeat(1 << 20);
    for (what, body) in [
        ("an empty body", ""),
        ("a page in HTML", "<html><body>Sign in</body></html>"),
        (
            "a cut list",
            r#"[{"type":"file","path":"tiny-Q8_0.gguf","si"#,
        ),
        ("another type", r#"{"a":1}"#),
        ("a number", "1"),
        ("null", "null"),
        ("a path that is a number", r#"[{"type":"file","path":1}]"#),
        (
            "a negative size",
            r#"[{"type":"file","path":"a.gguf","size":-1}]"#,
        ),
        (
            "a size in floats",
            r#"[{"type":"file","path":"a.gguf","size":1e99}]"#,
        ),
        ("a deep list", &deep),
        ("no text", "\u{0}\u{1}"),
    ] {
        let message = refused("/tree/", what, Fault::response(OK, body));
        assert!(message.contains("unexpected answer"), "{what}: {message}");
    }
    for head in [
        "HTTP/1.1 200 OK\nContent-Length: -1",
        "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6",
        "HTTP/1.1 200 OK\nContent-Length: 99999999999999999999999",
        "HTTP/9.9 200 OK",
        "HTTP/1.1 9999 OK",
        "HTTP/1.1 OK",
        "SSH-2.0-OpenSSH",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nfffffffffffffffff\n",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nnothing\n",
    ] {
        for pattern in REQUESTS {
            refused(pattern, head, Fault::response(head, "[]"));
        }
    }
}

#[test]
fn compressed_answers_do_not_grow_without_bounds() {
    // A gzip file of 64 KiB of zeros. Such files may follow each other: 4,000 of them are 256 MiB.
    let member: Vec<u8> = [
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff][..],
        &[
            0xed, 0xc1, 1, 1, 0, 0, 0, 0x80, 0x90, 0xfe, 0xaf, 0xee, 8, 0x0a,
        ],
        &[0; 63],
        &[0x6a, 0xeb, 0x8e, 0x97, 0xd7, 0, 0, 1, 0],
    ]
    .concat();
    for pattern in REQUESTS {
        let head = format!("{OK}\nContent-Encoding: gzip");
        refused(
            pattern,
            "compressed zeros",
            Fault::response(head, member.repeat(4000)),
        );
    }
}

#[test]
fn failing_hub_is_named_within_seconds() {
    let statuses = [(500, "500"), (503, "503"), (418, "418"), (100, "")];
    parallel::for_each(
        of_each_request(statuses),
        |(pattern, (status, expected))| {
            let message = refused(pattern, "a status", Fault::Status(status, &[]));
            assert!(message.contains(expected), "{status}: {message}");
        },
    );
}

#[test]
fn retry_after_is_obeyed_or_reported() {
    for pattern in REQUESTS {
        let (hub, home) = tiny_hub();
        hub.inject(
            pattern,
            Fault::Status(429, &[("Retry-After", "3600")]),
            usize::MAX,
        );
        let message = generate(&hub, &home).failed("too many requests");
        assert!(message.contains("in 3600 s"), "{message}");
        assert_eq!(
            hub.requests(pattern).len(),
            1,
            "asked again before the time"
        );
    }
    let times = [
        "1",
        "0",
        "-1",
        "18446744073709551616",
        "Wed, 21 Oct 2037 07:28:00 GMT",
        "soon",
    ];
    parallel::for_each(of_each_request(times), |(pattern, wait)| {
        let (hub, home) = tiny_hub();
        let head = format!("HTTP/1.1 429 x\nRetry-After: {wait}\nContent-Length: 0");
        hub.inject(pattern, Fault::response(head, ""), 1);
        let mut patient = command(&hub, home.path());
        // Four at a time keep a machine busy.
        patient.env("HF_HUB_DOWNLOAD_TIMEOUT", "10");
        fault::run_command_limited(patient).succeeded();
    });
}

#[test]
fn wrong_ranges_never_reach_the_cache() {
    let wrong_start = Fault::raw(|stream, body| {
        let part = &body[..1000];
        let head = format!(
            "HTTP/1.1 206 x\r\nContent-Range: bytes 0-999/{}\r\nContent-Length: 1000\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(part)
    });
    let (hub, home) = tiny_hub();
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", wrong_start, 1);
    let run = generate(&hub, &home);
    if run.status != Some(0) {
        let message = run.failed("a wrong range");
        assert!(message.contains("tiny-Q8_0.gguf"), "{message}");
        assert_no_model(&home, "a wrong range");
    }
    generate(&hub, &home).succeeded();
    let (hub, home) = tiny_hub();
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", Fault::Status(416, &[]), 1);
    let _ = generate(&hub, &home);
    generate(&hub, &home).succeeded();
}

/// Changes the entry of a file.
type Lie = fn(&mut Value);

#[test]
fn lies_about_a_file_never_reach_the_cache() {
    let lies: [(&str, Lie); 7] = [
        ("no size", |entry| entry["size"] = 0.into()),
        ("a smaller size", |entry| entry["size"] = 1000.into()),
        ("a larger size", |entry| {
            entry["size"] = (TINY.len() + 1).into()
        }),
        ("the largest size", |entry| entry["size"] = u64::MAX.into()),
        ("no hash", |entry| entry["oid"] = "".into()),
        ("a hash that is a path", |entry| {
            entry["oid"] = "../../x".into()
        }),
        ("a hash of a megabyte", |entry| {
            entry["oid"] = "a".repeat(1 << 20).into()
        }),
    ];
    for (what, lie) in lies {
        let (hub, home) = tiny_hub();
        hub.inject("/tree/", Fault::Entries(lie), usize::MAX);
        let message = generate(&hub, &home).failed(what);
        assert!(
            message.len() < 4000,
            "{what}: a message of {} bytes",
            message.len()
        );
        assert_no_model(&home, what);
    }
}

#[test]
fn names_that_leave_the_cache_are_refused() {
    let long = format!("{}.gguf", "a".repeat(5000));
    for name in [
        "../../x.gguf",
        "../../../../../../../../tmp/x.gguf",
        "/tmp/x.gguf",
        "a/../../../x.gguf",
        "a/../x.gguf",
        "./x.gguf",
        "..\\..\\x.gguf",
        "C:\\x.gguf",
        "C:x.gguf",
        "x\0.gguf",
        "\n\u{1b}[31mx.gguf",
        &long,
    ] {
        let (hub, home) = tiny_hub();
        let list = json!([{ "type": "file", "path": name, "size": TINY.len(),
            "oid": wisp_tests::hub::git_blob_id(TINY) }]);
        hub.inject("/tree/", Fault::response(OK, list.to_string()), usize::MAX);
        let message = generate(&hub, &home).failed(name);
        assert!(!message.contains('\u{1b}'), "{message:?}");
        let outside = below(home.path());
        let is_model = |path: &&PathBuf| path.extension().is_some_and(|end| end == "gguf");
        assert_eq!(outside.iter().find(is_model), None, "{name}");
        assert!(!Path::new("/tmp/x.gguf").exists(), "{name}");
    }
    for commit in ["../../x", "/tmp/x", "a\\b", "", "\0"] {
        let (hub, home) = tiny_hub();
        let info = json!({ "sha": commit, "siblings": [] }).to_string();
        hub.inject("GET /api/models/org/tiny", Fault::response(OK, info), 1);
        let list = json!([{ "type": "file", "path": "a.gguf", "size": TINY.len(),
            "oid": wisp_tests::hub::git_blob_id(TINY) }]);
        hub.inject("/tree/", Fault::response(OK, list.to_string()), usize::MAX);
        generate(&hub, &home).failed(commit);
    }
}

#[test]
fn list_of_a_million_files_is_read_or_refused() {
    let (hub, home) = tiny_hub();
    let entry = json!({ "type": "file", "path": "tiny-Q8_0.gguf", "size": TINY.len(),
        "oid": wisp_tests::hub::git_blob_id(TINY) });
    let many = (0..1_000_000).map(|i| format!(r#",{{"type":"file","path":"x/{i}"}}"#));
    let list = format!("[{entry}{}]", many.collect::<String>());
    hub.inject("/tree/", Fault::response(OK, list), usize::MAX);
    generate(&hub, &home).succeeded();
}

#[test]
fn settings_that_lead_to_no_hub_are_named() {
    let (hub, home) = tiny_hub();
    let file = home.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let file = file.to_str().expect("a path in UTF-8");
    for (name, value, expected) in [
        ("HF_ENDPOINT", "notaurl", "notaurl"),
        ("HF_ENDPOINT", "localhost:8000", "localhost:8000"),
        ("HF_ENDPOINT", "ftp://hub.example", "ftp://hub.example"),
        ("HF_ENDPOINT", "file:///etc", "file:///etc"),
        ("HF_ENDPOINT", " ", "HF_ENDPOINT"),
        ("HF_ENDPOINT", "http://user:secret@127.0.0.1", "HF_TOKEN"),
        ("HF_ENDPOINT", "http://127.0.0.1:99999", "port"),
        ("HF_ENDPOINT", "http://127.0.0.1?a=b", "query"),
        ("HF_HOME", file, file),
        ("HF_HUB_CACHE", file, file),
        ("HF_TOKEN", "hf a", "token"),
        ("HF_TOKEN", "hf_ä", "token"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "soon", "soon"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "-1", "-1"),
    ] {
        let mut command = command(&hub, home.path());
        command.env(name, value);
        let message = fault::run_command_limited(command).failed(value);
        assert!(message.contains(name), "{name}={value}: {message}");
        assert!(message.contains(expected), "{name}={value}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
    for (name, value) in [
        ("HF_ENDPOINT", format!("{}///", hub.address())),
        ("HF_ENDPOINT", format!(" {} \n", hub.address())),
        ("HF_TOKEN", "hf_a\n".into()),
        ("HF_TOKEN", "hf\r\n_a".into()),
    ] {
        let home = tempfile::tempdir().expect("a folder");
        let mut command = command(&hub, home.path());
        command.env(name, &value);
        fault::run_command_limited(command).succeeded();
    }
    let sent = hub.requests("GET /org");
    assert!(sent.iter().all(|request| {
        let token = request.authorization.as_deref();
        token.is_none() || token == Some("Bearer hf_a")
    }));
}
