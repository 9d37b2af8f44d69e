//! The cache of downloaded models: listing, sharing with other programs, and use without a hub.

use super::*;

#[test]
fn a_downloaded_model_runs_without_the_hub() {
    let (hub, home) = (tiny_hub(), home());
    let first = generate(&hub, home.path(), "org/tiny", &[]).json();
    assert_eq!(first["tokens"], expected());
    assert_eq!(first["model"], "org/tiny");
    let gets = || hub.requests("GET /org/tiny/resolve").len();
    assert_eq!(gets(), 1);
    // The second run requests the list of files, but downloads nothing.
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    assert_eq!(gets(), 1);
    let asked = hub.requests("").len();
    let mut offline = command(&hub, home.path(), "org/tiny", &[]);
    offline.env("HF_HUB_OFFLINE", "1");
    assert_eq!(tokens(run_command(offline, "")), expected());
    assert_eq!(hub.requests("").len(), asked);
    // The cache is used when the hub cannot be reached.
    let mut gone = command(&hub, home.path(), "org/tiny", &[]);
    gone.env("HF_ENDPOINT", "http://127.0.0.1:9");
    let gone = run_command(gone, "");
    let note = "org/tiny is read from the cache, because http://127.0.0.1:9 cannot be reached";
    assert!(gone.stderr.contains(note), "{}", gone.stderr);
    assert_eq!(tokens(gone), expected());
    let again = generate(&hub, home.path(), "org/tiny", &["--force-download"]);
    assert_eq!(tokens(again), expected());
    assert_eq!(gets(), 2);
}

#[test]
fn offline_runs_refuse_models_that_are_not_cached() {
    let (hub, home) = (tiny_hub(), home());
    let mut offline = command(&hub, home.path(), "org/tiny", &[]);
    offline.env("HF_HUB_OFFLINE", "1");
    let line = run_command(offline, "").failed("offline without a cache");
    assert!(
        line.contains("HF_HUB_OFFLINE") && line.contains("org/tiny"),
        "{line}"
    );
    assert!(hub.requests("").is_empty());
}

/// What the cache lacks may well be in the repository.
#[test]
fn errors_do_not_take_the_cache_for_the_repository() {
    let (hub, home) = (tiny_hub(), home());
    hub.add("org/tiny", "tiny-F16.gguf", TINY);
    let flags = ["--weight-path", "tiny-Q8_0.gguf"];
    generate(&hub, home.path(), "org/tiny", &flags).succeeded();
    let cache = home.path().join("hub").display().to_string();
    let models = [
        ("org/tiny:f16", "a model in float16"),
        ("org/tiny:tiny-F16.gguf", "the file \"tiny-F16.gguf\""),
    ];
    parallel::for_each(models, |(model, missing)| {
        let command = || command(&hub, home.path(), model, &[]);
        let mut offline = command();
        offline.env("HF_HUB_OFFLINE", "1");
        let line = run_command(offline, "").failed(model);
        let reason = "HF_HUB_OFFLINE forbids downloads; the cache has tiny-Q8_0.gguf";
        for word in [missing, "is not in the cache", &cache, reason] {
            assert!(line.contains(word), "{word}: {line}");
        }
        let mut gone = command();
        gone.env("HF_ENDPOINT", "http://127.0.0.1:9");
        let stderr = run_command(gone, "").stderr;
        for word in [
            missing,
            "is not in the cache",
            "cannot be reached",
            "refused",
        ] {
            assert!(stderr.contains(word), "{word}: {stderr}");
        }
    });
}

#[test]
fn pull_downloads_a_model_once_and_says_where_it_is() {
    let (hub, home) = (tiny_hub(), home());
    let pull = |flags: &[&str]| {
        let args = [&["pull", "org/tiny"], flags].concat();
        run_command(hub.command(home.path(), &args), "").succeeded()
    };
    let first = pull(&[]);
    let file = snapshot(home.path(), "org/tiny").join("tiny-Q8_0.gguf");
    assert_eq!(first.stdout, format!("{}\n", file.display()));
    assert_eq!(std::fs::read(&file).expect("the file"), TINY);
    let next = "org/tiny is on this machine (3.7 MiB); use it with: wisp chat --model org/tiny\n";
    assert_eq!(first.stderr, next);
    let again = pull(&["--json", "--revision", "main"]).json();
    assert_eq!(again["path"], file.display().to_string());
    assert_eq!(again["bytes"], TINY.len());
    let commit = pull(&["--revision", COMMIT]);
    assert!(
        commit.stderr.ends_with(&format!("--revision {COMMIT}\n")),
        "{}",
        commit.stderr
    );
    assert_eq!(hub.requests("GET /org/tiny/resolve").len(), 1);
    // The path is a model, and so is the name without the hub.
    for model in ["org/tiny", first.stdout.trim_end()] {
        let mut offline = hub.command(home.path(), &["pull", model]);
        offline.env("HF_HUB_OFFLINE", "1");
        let run = run_command(offline, "").succeeded();
        assert_eq!(run.stdout, first.stdout, "{model}");
    }
}

#[test]
fn pull_prints_the_folder_of_a_model_in_several_files() {
    let (hub, home) = (Hub::start(), home());
    sharded(&hub, "org/shards");
    let pull = || run_command(hub.command(home.path(), &["pull", "org/shards"]), "");
    let folder = snapshot(home.path(), "org/shards");
    let expected = format!("{}\n", folder.display());
    assert_eq!(pull().succeeded().stdout, expected);
    assert!(folder.join("config.json").is_file());
    let downloads = hub.requests("GET /org/shards/resolve").len();
    assert_eq!(pull().succeeded().stdout, expected);
    assert_eq!(hub.requests("GET /org/shards/resolve").len(), downloads);
}

/// Also where the cache is named by a relative path.
#[test]
fn downloaded_model_is_not_overwritten_by_a_command_that_reads_it() {
    let (hub, home) = (tiny_hub(), home());
    let run = |args: &[&str]| {
        let mut command = hub.command(home.path(), args);
        command.env("HF_HOME", "hf").current_dir(home.path());
        run_command(command, "")
    };
    let path = run(&["pull", "org/tiny"]).succeeded().stdout;
    let path = path.trim_end();
    assert!(Path::new(path).is_relative(), "{path}");
    let convert = ["convert", "--model", "org/tiny", "--encoding", "q8_0"];
    let refused = run(&[&convert[..], &["--force", "--out", path]].concat());
    let line = refused.failed("the file is the input");
    assert!(line.contains("is a file of the model"), "{line}");
    let file = home.path().join(path);
    assert_eq!(std::fs::read(file).expect("the file"), TINY);
}

#[test]
fn pull_needs_a_model() {
    let (hub, home) = (tiny_hub(), home());
    let run = run_command(hub.command(home.path(), &["pull"]), "");
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    let mut variable = hub.command(home.path(), &["pull"]);
    variable.env("WISP_MODEL", "org/tiny");
    run_command(variable, "").succeeded();
    let absent = run_command(hub.command(home.path(), &["pull", "org/absent"]), "");
    let line = absent.failed("no such repository");
    assert!(line.contains("org/absent"), "{line}");
}

#[test]
fn list_shows_the_cached_models() {
    let (hub, home) = (tiny_hub(), home());
    let list = |json: bool| {
        let args: &[&str] = if json { &["list", "--json"] } else { &["list"] };
        run_command(hub.command(home.path(), args), "")
    };
    assert_eq!(list(true).json()["models"], json!([]));
    generate(&hub, home.path(), "org/tiny", &[]).succeeded();
    let listed = list(true).json();
    let model = &listed["models"][0];
    assert_eq!(model["repo_id"], "org/tiny");
    assert_eq!(model["bytes"], TINY.len());
    assert_eq!(model["revisions"][0]["refs"], json!(["main"]));
    assert_eq!(model["revisions"][0]["weights"], json!(["tiny-Q8_0.gguf"]));
    let text = list(false).succeeded().stdout;
    for word in ["org/tiny", "tiny-Q8_0.gguf", "llama", "q4_k"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn concurrent_processes_download_a_file_once() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Slow(Duration::from_micros(200)), 1);
    let run = || generate(&hub, home.path(), "org/tiny", &[]);
    let runs = std::thread::scope(|scope| {
        let all = [scope.spawn(run), scope.spawn(run), scope.spawn(run)];
        all.map(|one| one.join().expect("no panic"))
    });
    let waiting = "waiting for another process that downloads tiny-Q8_0.gguf";
    assert!(runs.iter().any(|run| run.stderr.contains(waiting)));
    for run in runs {
        assert_eq!(tokens(run), expected());
    }
    assert_eq!(hub.requests("GET /org").len(), 1);
    assert_eq!(partials(home.path()), [0; 0]);
}

/// The hub accepts connections but responds with errors.
#[test]
fn the_cache_is_used_while_the_hub_is_down() {
    let (hub, home) = (tiny_hub(), home());
    let run = || generate(&hub, home.path(), "org/tiny", &[]);
    hub.inject("GET /api", Fault::Status(503, &[]), usize::MAX);
    run().failed("nothing in the cache");
    hub.clear_faults();
    assert_eq!(tokens(run()), expected());
    let faults = ["GET /api", "/tree/"].into_iter();
    let faults = faults.flat_map(|text| [429, 500, 503].map(|status| (text, status)));
    parallel::for_each(faults, |(text, status)| {
        let (hub, home) = (tiny_hub(), super::home());
        let run = || generate(&hub, home.path(), "org/tiny", &[]);
        run().succeeded();
        hub.inject(text, Fault::Status(status, &[]), usize::MAX);
        assert_eq!(tokens(run()), expected(), "{text}: {status}");
    });
    // A refused access is reported, even if the model is cached.
    hub.inject("GET /api", Fault::Status(401, &[]), usize::MAX);
    run().failed("no longer allowed");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let mut command = command(&hub, home.path(), "org/tiny", &[]);
    command.env("HF_ENDPOINT", format!("http://{address}"));
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "0.5");
    assert_eq!(tokens(run_command(command, "")), expected());
}

/// Files that another program downloaded, also for another commit, are not downloaded again.
#[test]
fn blobs_that_other_programs_downloaded_are_reused() {
    let (hub, home) = (tiny_hub(), home());
    let blobs = home.path().join("hub/models--org--tiny/blobs");
    std::fs::create_dir_all(&blobs).expect("a folder");
    std::fs::write(blobs.join(sha256(TINY)), TINY).expect("a blob");
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    assert_eq!(hub.requests("GET /org").len(), 0);
}

#[test]
fn files_in_nested_folders_are_found_offline() {
    let (hub, home) = (Hub::start(), home());
    hub.add("org/tiny", "a/b/c/tiny-Q8_0.gguf", TINY);
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    let mut offline = command(&hub, home.path(), "org/tiny", &[]);
    offline.env("HF_HUB_OFFLINE", "1");
    assert_eq!(tokens(run_command(offline, "")), expected());
}

#[test]
fn names_that_lead_out_of_the_cache_are_refused() {
    let (hub, home) = (Hub::start(), home());
    hub.add("org/evil", "../../../../evil.gguf", TINY);
    let line = generate(&hub, home.path(), "org/evil", &[]).failed("a name that leads away");
    assert!(
        line.contains("evil.gguf") && line.contains("refused"),
        "{line}"
    );
    assert!(!home.path().join("evil.gguf").exists());
}
