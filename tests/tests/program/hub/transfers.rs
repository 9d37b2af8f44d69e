//! Downloads over broken connections, and from hubs that send invalid responses.

use std::{
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::*;

#[test]
fn requests_to_a_busy_hub_are_retried() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /api", Fault::Status(429, &[]), 1);
    hub.inject("GET /org", Fault::Status(503, &[]), 1);
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
}

#[test]
fn a_download_resumes_after_the_connection_breaks() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Disconnect(100_000), 2);
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    let ranges: Vec<_> = hub
        .requests("GET /org")
        .into_iter()
        .map(|r| r.range)
        .collect();
    let from = |start: usize| Some(format!("bytes={start}-{}", TINY.len() - 1));
    assert_eq!(ranges, [None, from(100_000), from(200_000)]);
    assert_eq!(partials(home.path()), [0; 0]);
}

#[test]
fn a_later_run_resumes_a_partial_download() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", Fault::Disconnect(0), usize::MAX);
    let line = run_command(hasty(&hub, home.path()), "").failed("a connection that breaks");
    let kept = format!("100000 of {} bytes of tiny-Q8_0.gguf are kept", TINY.len());
    for word in ["the connection to", "broke", &kept, "try again"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert_eq!(partials(home.path()), [100_000]);
    assert!(!snapshot(home.path(), "org/tiny").exists());
    hub.clear_faults();
    let before = hub.requests("GET /org").len();
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    let requests = hub.requests("GET /org").split_off(before);
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0]
            .range
            .as_ref()
            .is_some_and(|range| range.starts_with("bytes=100000-"))
    );
}

/// Standard error is no terminal here, so that no bar shows the progress; the first line comes after five seconds.
#[test]
fn a_long_download_is_reported_in_lines() {
    let (hub, home) = (tiny_hub(), home());
    // After each of 3,800 kilobytes.
    hub.inject("GET /org", Fault::Slow(Duration::from_micros(1500)), 1);
    let run = generate(&hub, home.path(), "org/tiny", &[]).succeeded();
    for words in [
        "downloading tiny-Q8_0.gguf: ",
        " of 3.7 MiB",
        "downloaded tiny-Q8_0.gguf, 3.7 MiB",
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
}

#[test]
fn an_invalid_partial_file_is_discarded() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", Fault::IgnoreRange, 1);
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    let file = snapshot(home.path(), "org/tiny").join("tiny-Q8_0.gguf");
    assert_eq!(std::fs::read(file).expect("the file"), TINY);
}

#[test]
fn a_response_with_too_many_bytes_is_refused() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::TrailingBytes, usize::MAX);
    let line = generate(&hub, home.path(), "org/tiny", &[]).failed("a file that is too long");
    assert!(line.contains(&TINY.len().to_string()), "{line}");
    assert!(!snapshot(home.path(), "org/tiny").exists());
}

/// Returns a command that continues a broken transfer for two or three seconds only, and does not warn of that.
fn hasty(hub: &Hub, home: &Path) -> Command {
    let mut command = command(hub, home, "org/tiny", &[]);
    command
        .env("HF_HUB_DOWNLOAD_TIMEOUT", "0.5")
        .env("WISP_LOG", "wisp=error");
    command
}

#[test]
fn a_hub_that_falls_silent_is_asked_again() {
    let (hub, home) = (tiny_hub(), home());
    let silence = || Fault::Slow(Duration::from_secs(30));
    hub.inject("GET /org", silence(), 1);
    let run = run_command(hasty(&hub, home.path()), "");
    assert_eq!(tokens(run), expected());
    let ranges = hub.requests("GET /org").into_iter().map(|r| r.range);
    let rest = format!("bytes=1024-{}", TINY.len() - 1);
    assert_eq!(ranges.collect::<Vec<_>>(), [None, Some(rest)]);
    // It stays silent.
    let home = self::home();
    hub.inject("GET /org", silence(), usize::MAX);
    let line = run_command(hasty(&hub, home.path()), "").failed("silence");
    for word in ["HF_HUB_DOWNLOAD_TIMEOUT", "are kept", "try again"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert!(partials(home.path())[0] >= 1024);
}

/// The hub is busy or gone for a second, in the middle of a file.
#[test]
fn an_outage_within_a_file_is_sat_out() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", Fault::Disconnect(0), 4);
    let mut command = hasty(&hub, home.path());
    command.env_remove("WISP_LOG");
    let run = run_command(command, "");
    let warning = "the transfer of tiny-Q8_0.gguf";
    assert_eq!(run.stderr.matches(warning).count(), 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("is tried again for 3 s"),
        "{}",
        run.stderr
    );
    assert_eq!(tokens(run), expected());
    assert_eq!(hub.requests("GET /org").len(), 6);
}

#[test]
fn an_outage_between_two_files_is_sat_out() {
    let hub = Hub::start();
    sharded(&hub, "org/shards");
    let expected = tokens(generate(&hub, home().path(), "org/shards", &[]));
    hub.inject("model-00002", Fault::Disconnect(0), 5);
    let home = home();
    let mut command = command(&hub, home.path(), "org/shards", &[]);
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "0.5");
    assert_eq!(tokens(run_command(command, "")), expected);
}

#[test]
fn a_hub_that_asks_for_a_pause_within_a_file_gets_it() {
    let (hub, home) = (tiny_hub(), home());
    let busy = || Fault::Status(429, &[("Retry-After", "4")]);
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", busy(), 2);
    // The pause is longer than the whole patience.
    let line = run_command(hasty(&hub, home.path()), "").failed("too many requests");
    assert!(line.contains("429") && line.contains("in 4 s"), "{line}");
    assert_eq!(partials(home.path()), [100_000]);
    hub.clear_faults();
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", busy(), 1);
    let mut command = hasty(&hub, home.path());
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "1");
    assert_eq!(tokens(run_command(command, "")), expected());
}

/// Each answer ignores the range and breaks off, every other one later than the one before.
#[test]
fn a_download_that_starts_over_again_and_again_ends() {
    let (hub, home) = (tiny_hub(), home());
    let turn = AtomicUsize::new(0);
    let restart = Fault::raw(move |stream, body| {
        let sent = 100_000 * (1 + turn.fetch_add(1, Ordering::Relaxed) % 2);
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        stream.write_all(&body[..sent])
    });
    hub.inject("GET /org", restart, usize::MAX);
    let line = run_command(hasty(&hub, home.path()), "").failed("no progress");
    assert!(line.contains("broke"), "{line}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_only_a_resumable_partial_file() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Slow(Duration::from_millis(20)), 1);
    let mut child = command(&hub, home.path(), "org/tiny", &[])
        .spawn()
        .expect("wisp");
    let blobs = home.path().join("hub/models--org--tiny/blobs");
    while !blobs.exists() || partials(home.path()).iter().sum::<u64>() == 0 {
        let ended = child.try_wait().expect("a status");
        assert_eq!(ended, None, "it ended before anything was downloaded");
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill").success());
    let output = child.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(partials(home.path())[0] < TINY.len() as u64);
    assert!(!snapshot(home.path(), "org/tiny").exists());
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
}

/// A download of the right size with another content is discarded; the next one is correct.
#[test]
fn content_with_a_wrong_digest_is_never_kept() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Corrupt, 1);
    let line = generate(&hub, home.path(), "org/tiny", &[]).failed("a wrong content");
    for word in ["tiny-Q8_0.gguf", "damaged", &sha256(TINY)] {
        assert!(line.contains(word), "{word}: {line}");
    }
    let blobs = home.path().join("hub/models--org--tiny/blobs");
    assert_eq!(std::fs::read_dir(&blobs).expect("blobs").count(), 0);
    assert!(!snapshot(home.path(), "org/tiny").exists());
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    // The name that Python's huggingface_hub uses, which shares the cache.
    assert!(blobs.join(sha256(TINY)).is_file());
    // Small files have a git hash.
    let hub = Hub::start();
    sharded(&hub, "org/shards");
    hub.inject("config.json", Fault::Corrupt, usize::MAX);
    let line = generate(&hub, self::home().path(), "org/shards", &[]).failed("a wrong file");
    assert!(
        line.contains("config.json") && line.contains("damaged"),
        "{line}"
    );
}

/// Hugging Face's hub redirects requests for large files.
#[test]
fn downloads_follow_redirects_to_another_host() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject(" /org", Fault::Redirect, usize::MAX);
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    let blobs = home.path().join("hub/models--org--tiny/blobs");
    assert!(blobs.join(sha256(TINY)).is_file());
}

/// The hub does not say which files are large.
#[test]
fn large_files_download_without_lfs_metadata() {
    let (hub, home) = (tiny_hub(), home());
    let plain = |entry: &mut Value| drop(entry.as_object_mut().expect("an entry").remove("lfs"));
    hub.inject("/tree/", Fault::Entries(plain), usize::MAX);
    for _ in 0..2 {
        let run = generate(&hub, home.path(), "org/tiny", &[]);
        assert_eq!(tokens(run), expected());
    }
    assert_eq!(hub.requests("GET /org").len(), 1);
}

/// Neither a pointer in another format nor a redirected response has the hash.
#[test]
fn files_without_a_known_digest_are_kept() {
    let (hub, home) = (tiny_hub(), home());
    let other = |entry: &mut Value| entry["oid"] = git_blob_id(b"a pointer in other words").into();
    hub.inject("/tree/", Fault::Entries(other), usize::MAX);
    hub.inject(" /org", Fault::Redirect, 3);
    let run = || generate(&hub, home.path(), "org/tiny", &[]);
    let line = run().failed("an unknown hash");
    assert!(
        line.contains("does not tell its hash") && line.contains("force a new download"),
        "{line}"
    );
    assert_eq!(partials(home.path()), [TINY.len() as u64]);
    run().failed("still unknown");
    assert_eq!(partials(home.path()), [TINY.len() as u64]);
    // The hub's own response has the hash.
    assert_eq!(tokens(run()), expected());
    let mut requests = hub.requests("GET /org");
    requests.retain(|request| request.range.as_deref() != Some("bytes=0-0"));
    assert_eq!(requests.len(), 1);
}
