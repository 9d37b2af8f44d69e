//! Models from a hub, through the command line, against a server of our own that misbehaves.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;
use wisp_tests::{
    hub::{COMMIT, Fault, Hub, git_blob_id, sha256},
    program::{Run, run, run_command},
    pytorch_writer,
};

const TINY: &[u8] = include_bytes!("../../native-demo/model/wisp-tiny.gguf");
const GENERATE: &[&str] = &["--device", "host", "--json", "--tokens", "1,2,3", "-n", "4"];

fn home() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn generate(hub: &Hub, home: &Path, model: &str, flags: &[&str]) -> Run {
    run_command(command(hub, home, model, flags), "")
}

fn command(hub: &Hub, home: &Path, model: &str, flags: &[&str]) -> Command {
    let args = [&["generate", "--model", model], GENERATE, flags].concat();
    hub.command(home, &args)
}

fn tokens(run: Run) -> Value {
    run.json()["tokens"].clone()
}

/// What the model inside, which is the one on the hub, gives.
fn expected() -> Value {
    tokens(run([&["generate"], GENERATE].concat()))
}

/// A hub with the model inside the program as `org/tiny`.
fn tiny_hub() -> Hub {
    let hub = Hub::start();
    hub.add("org/tiny", "tiny-Q8_0.gguf", TINY);
    hub.add("org/tiny", "README.md", "# Tiny");
    hub
}

fn snapshot(home: &Path, repo: &str) -> PathBuf {
    let folder = format!("models--{}", repo.replace('/', "--"));
    home.join("hub").join(folder).join("snapshots").join(COMMIT)
}

/// The partial files in a cache.
fn partials(home: &Path) -> Vec<u64> {
    let blobs = home.join("hub/models--org--tiny/blobs");
    let files = std::fs::read_dir(blobs).expect("blobs").flatten();
    files
        .filter(|file| file.path().extension().is_some_and(|e| e == "incomplete"))
        .map(|file| file.metadata().expect("metadata").len())
        .collect()
}

#[test]
fn a_repository_runs_and_then_without_the_hub() {
    let (hub, home) = (tiny_hub(), home());
    let first = generate(&hub, home.path(), "org/tiny", &[]).json();
    assert_eq!(first["tokens"], expected());
    assert_eq!(first["model"], "org/tiny");
    let gets = || hub.requests("GET /org/tiny/resolve").len();
    assert_eq!(gets(), 1);
    // The second run asks what there is, but downloads nothing.
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
    // A hub that is not there is no reason not to use what is.
    let mut gone = command(&hub, home.path(), "org/tiny", &[]);
    gone.env("HF_ENDPOINT", "http://127.0.0.1:9");
    assert_eq!(tokens(run_command(gone, "")), expected());
    let again = generate(&hub, home.path(), "org/tiny", &["--force-download"]);
    assert_eq!(tokens(again), expected());
    assert_eq!(gets(), 2);
}

#[test]
fn what_is_not_cached_is_not_there_offline() {
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

#[test]
fn the_cache_is_listed() {
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
fn one_of_several_files() {
    let (hub, home) = (Hub::start(), home());
    for name in [
        "m-Q4_K_M.gguf",
        "m-Q4_K_S.gguf",
        "m-Q8_0.gguf",
        "sub/m-F16.gguf",
    ] {
        hub.add("org/many", name, TINY);
    }
    hub.add("org/two", "a.gguf", TINY)
        .add("org/two", "b.gguf", TINY);
    for (model, file) in [
        ("org/many", "m-Q4_K_M.gguf"),
        ("org/many:q8_0", "m-Q8_0.gguf"),
        ("org/many:Q8_0", "m-Q8_0.gguf"),
        ("org/many:m-Q4_K_S.gguf", "m-Q4_K_S.gguf"),
        ("org/many:float16", "sub/m-F16.gguf"),
        ("org/two:b.gguf", "b.gguf"),
    ] {
        let home = self::home();
        let run = generate(&hub, home.path(), model, &[]);
        assert_eq!(tokens(run), expected(), "{model}");
        let repo = model.split(':').next().expect("a name");
        assert!(
            snapshot(home.path(), repo).join(file).exists(),
            "{model}: {file}"
        );
    }
    let flags = ["--weight-path", "m-Q8_0.gguf"];
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/many", &flags)),
        expected()
    );
    for (model, words) in [
        ("org/many:q6_k", ["q6_k", "q8_0, q4_k"]),
        ("org/many:absent.gguf", ["absent.gguf", "m-Q8_0.gguf"]),
        ("org/two", ["several models", "a.gguf, b.gguf"]),
    ] {
        let line = generate(&hub, home.path(), model, &[]).failed(model);
        for word in words {
            assert!(line.contains(word), "{model}: {line}");
        }
    }
}

/// A little model in Hugging Face's layout, in two files with an index.
fn sharded(hub: &Hub, repo: &str) {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "torch_dtype": "float32", "tie_word_embeddings": true,
    });
    hub.add(repo, "config.json", config.to_string());
    let layer = "model.layers.0.";
    let tensors: Vec<(String, Vec<usize>)> = [
        ("model.embed_tokens.weight", vec![16, 32]),
        ("model.norm.weight", vec![32]),
        ("input_layernorm.weight", vec![32]),
        ("post_attention_layernorm.weight", vec![32]),
        ("self_attn.q_proj.weight", vec![32, 32]),
        ("self_attn.k_proj.weight", vec![32, 32]),
        ("self_attn.v_proj.weight", vec![32, 32]),
        ("self_attn.o_proj.weight", vec![32, 32]),
        ("mlp.gate_proj.weight", vec![48, 32]),
        ("mlp.up_proj.weight", vec![48, 32]),
        ("mlp.down_proj.weight", vec![32, 48]),
    ]
    .into_iter()
    .map(|(name, shape)| match name.starts_with("model.") {
        true => (name.to_string(), shape),
        false => (format!("{layer}{name}"), shape),
    })
    .collect();
    let mut map = serde_json::Map::new();
    for (i, half) in tensors.chunks(6).enumerate() {
        let file = format!("model-{:05}-of-00002.safetensors", i + 1);
        let data: Vec<(String, Vec<usize>, Vec<u8>)> = half
            .iter()
            .map(|(name, shape)| {
                let count: usize = shape.iter().product();
                let value = |n: usize| (n * 2_654_435_761 % 1000) as f32 / 1000.0 - 0.5;
                let bytes = (0..count).flat_map(|n| value(n).to_le_bytes()).collect();
                (name.clone(), shape.clone(), bytes)
            })
            .collect();
        let views = data.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor");
            (name.clone(), view)
        });
        let bytes = safetensors::serialize(views, None).expect("safetensors");
        hub.add(repo, &file, bytes);
        map.extend(half.iter().map(|(name, _)| (name.clone(), json!(file))));
    }
    let index = json!({ "metadata": {}, "weight_map": map });
    hub.add(repo, "model.safetensors.index.json", index.to_string());
}

#[test]
fn safetensors_in_several_files() {
    let (hub, home) = (Hub::start(), home());
    sharded(&hub, "org/shards");
    let online = tokens(generate(&hub, home.path(), "org/shards", &[]));
    let folder = snapshot(home.path(), "org/shards");
    let local = tokens(generate(
        &hub,
        home.path(),
        folder.to_str().expect("UTF-8"),
        &[],
    ));
    assert_eq!(online, local);
    let flags = [
        "--quantization-encoding",
        "float32",
        "--architecture",
        "LlamaForCausalLM",
    ];
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/shards", &flags)),
        local
    );
    for (flags, word) in [
        (["--quantization-encoding", "bfloat16"], "float32"),
        (["--architecture", "qwen2"], "llama"),
        (["--rope-type", "yarn"], "yarn"),
    ] {
        let line = generate(&hub, home.path(), "org/shards", &flags).failed(flags[1]);
        assert!(line.contains(word) && line.contains(flags[1]), "{line}");
    }
    // A damaged index is found out as in a folder.
    hub.add(
        "org/shards",
        "model.safetensors.index.json",
        r#"{"weight_map": {"x": "../x"}}"#,
    );
    generate(&hub, self::home().path(), "org/shards", &[]).failed("an index that leads away");
}

#[test]
fn refusals_are_explained() {
    let faults: &[(&str, Fault, &[&str])] = &[
        ("GET /api", Fault::Status(401, &[]), &["401", "HF_TOKEN"]),
        ("GET /api", Fault::Status(403, &[]), &["403", "as asked"]),
        (
            "GET /api",
            Fault::Status(403, &[("X-Error-Code", "GatedRepo")]),
            &["gated", "ask for access at", "/org/tiny"],
        ),
        (
            "GET /org",
            Fault::Status(401, &[("X-Error-Code", "GatedRepo")]),
            &["gated", "HF_TOKEN"],
        ),
        (
            "GET /api",
            Fault::Status(404, &[]),
            &["no such repository", "org/tiny"],
        ),
        (
            "GET /api/models/org/tiny/tree",
            Fault::Status(404, &[]),
            &["org/tiny"],
        ),
        ("GET /org", Fault::Status(404, &[]), &["tiny-Q8_0.gguf"]),
        ("GET /org", Fault::Status(403, &[]), &["403"]),
        (
            "GET /api",
            Fault::Status(429, &[("Retry-After", "7")]),
            &["429", "in 7 s"],
        ),
        ("GET /org", Fault::Status(500, &[]), &["500"]),
        ("GET /api", Fault::Status(200, &[("X", "y")]), &["org/tiny"]),
    ];
    std::thread::scope(|scope| {
        for (text, fault, words) in faults {
            scope.spawn(move || {
                let (hub, home) = (tiny_hub(), home());
                hub.inject(text, fault.clone(), usize::MAX);
                let run = generate(&hub, home.path(), "org/tiny", &[]);
                let line = run.failed(&format!("{text}: {fault:?}"));
                for word in *words {
                    assert!(line.contains(word), "{text}: {fault:?}: {line}");
                }
                let file = snapshot(home.path(), "org/tiny").join("tiny-Q8_0.gguf");
                assert!(!file.exists(), "{fault:?} left a file");
            });
        }
    });
    let (hub, home) = (tiny_hub(), home());
    let line = generate(&hub, home.path(), "org/absent", &[]).failed("an absent repository");
    assert!(line.contains("no such repository"), "{line}");
    let flags = ["--revision", "v9"];
    let line = generate(&hub, home.path(), "org/tiny", &flags).failed("an absent revision");
    assert!(line.contains("v9"), "{line}");
    let mut gone = command(&hub, home.path(), "org/tiny", &[]);
    gone.env("HF_ENDPOINT", "http://127.0.0.1:9");
    let line = run_command(gone, "").failed("a hub that is not there");
    assert!(
        line.contains("127.0.0.1:9") && line.contains("refused"),
        "{line}"
    );
    let mut wrong = command(&hub, home.path(), "org/tiny", &[]);
    wrong.env("HF_ENDPOINT", "nonsense");
    let line = run_command(wrong, "").failed("an endpoint that is none");
    assert!(line.contains("HF_ENDPOINT"), "{line}");
    let line = generate(&hub, home.path(), "tiny", &[]).failed("a name without its owner");
    assert!(line.contains("org/name"), "{line}");
}

#[test]
fn a_busy_hub_is_asked_again() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /api", Fault::Status(429, &[]), 1);
    hub.inject("GET /org", Fault::Status(503, &[]), 1);
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
}

#[test]
fn a_broken_connection_is_continued() {
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
fn a_later_run_continues() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Disconnect(100_000), 1);
    hub.inject("GET /org", Fault::Disconnect(0), usize::MAX);
    let line = generate(&hub, home.path(), "org/tiny", &[]).failed("a connection that breaks");
    assert!(
        line.contains("tiny-Q8_0.gguf") && line.contains("100000"),
        "{line}"
    );
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

#[test]
fn a_part_that_is_none_is_thrown_away() {
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
fn too_many_bytes_are_refused() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::TrailingBytes, usize::MAX);
    let line = generate(&hub, home.path(), "org/tiny", &[]).failed("a file that is too long");
    assert!(line.contains(&TINY.len().to_string()), "{line}");
    assert!(!snapshot(home.path(), "org/tiny").exists());
}

#[test]
fn a_hub_that_falls_silent_is_given_up() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Slow(Duration::from_secs(30)), 1);
    let mut command = command(&hub, home.path(), "org/tiny", &[]);
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "0.5");
    let line = run_command(command, "").failed("silence");
    assert!(line.contains("HF_HUB_DOWNLOAD_TIMEOUT"), "{line}");
    assert_eq!(partials(home.path()), [1024]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_only_what_can_be_continued() {
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

#[test]
fn several_processes_download_once() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject("GET /org", Fault::Slow(Duration::from_micros(200)), 1);
    let run = || tokens(generate(&hub, home.path(), "org/tiny", &[]));
    std::thread::scope(|scope| {
        let all = [scope.spawn(run), scope.spawn(run), scope.spawn(run)];
        for one in all {
            assert_eq!(one.join().expect("no panic"), expected());
        }
    });
    assert_eq!(hub.requests("GET /org").len(), 1);
    assert_eq!(partials(home.path()), [0; 0]);
}

/// A content of the right size that is another; once, and then the right one.
#[test]
fn a_wrong_content_is_never_kept() {
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
    // Named as Python's huggingface_hub names it, which shares the cache.
    assert!(blobs.join(sha256(TINY)).is_file());
    // Small files have git's hash.
    let hub = Hub::start();
    sharded(&hub, "org/shards");
    hub.inject("config.json", Fault::Corrupt, usize::MAX);
    let line = generate(&hub, self::home().path(), "org/shards", &[]).failed("a wrong file");
    assert!(
        line.contains("config.json") && line.contains("damaged"),
        "{line}"
    );
}

/// As Hugging Face's hub answers for large files.
#[test]
fn contents_come_from_elsewhere() {
    let (hub, home) = (tiny_hub(), home());
    hub.inject(" /org", Fault::Redirect, usize::MAX);
    assert_eq!(
        tokens(generate(&hub, home.path(), "org/tiny", &[])),
        expected()
    );
    let blobs = home.path().join("hub/models--org--tiny/blobs");
    assert!(blobs.join(sha256(TINY)).is_file());
}

/// A hub that does not say which files are large.
#[test]
fn large_files_need_not_be_listed_as_such() {
    let (hub, home) = (tiny_hub(), home());
    let plain = |entry: &mut Value| drop(entry.as_object_mut().expect("an entry").remove("lfs"));
    hub.inject("/tree/", Fault::Entries(plain), usize::MAX);
    for _ in 0..2 {
        let run = generate(&hub, home.path(), "org/tiny", &[]);
        assert_eq!(tokens(run), expected());
    }
    assert_eq!(hub.requests("GET /org").len(), 1);
}

/// A pointer in other words does not tell the hash, and another address does not either.
#[test]
fn what_cannot_be_checked_is_kept() {
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
    // The hub's own answer has it.
    assert_eq!(tokens(run()), expected());
    let mut requests = hub.requests("GET /org");
    requests.retain(|request| request.range.as_deref() != Some("bytes=0-0"));
    assert_eq!(requests.len(), 1);
}

/// A hub that is there but does not answer is no reason not to use what is in the cache.
#[test]
fn the_cache_is_used_while_the_hub_does_not_answer() {
    let (hub, home) = (tiny_hub(), home());
    let run = || generate(&hub, home.path(), "org/tiny", &[]);
    hub.inject("GET /api", Fault::Status(503, &[]), usize::MAX);
    run().failed("nothing in the cache");
    hub.clear_faults();
    assert_eq!(tokens(run()), expected());
    for text in ["GET /api", "/tree/"] {
        for status in [429, 500, 503] {
            hub.inject(text, Fault::Status(status, &[]), usize::MAX);
            assert_eq!(tokens(run()), expected(), "{text}: {status}");
            hub.clear_faults();
        }
    }
    // Whoever may not have it any more is told so.
    hub.inject("GET /api", Fault::Status(401, &[]), usize::MAX);
    run().failed("no longer allowed");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let mut command = command(&hub, home.path(), "org/tiny", &[]);
    command.env("HF_ENDPOINT", format!("http://{address}"));
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "0.5");
    assert_eq!(tokens(run_command(command, "")), expected());
}

/// What another program has downloaded, for another commit perhaps, is not downloaded again.
#[test]
fn contents_of_other_programs_are_used() {
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

/// Files that lie deeper than one folder are found in the cache too.
#[test]
fn deep_folders_offline() {
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

/// The sharded model in PyTorch's files, as many, and an index.
#[test]
fn pytorch_checkpoints() {
    let (hub, home) = (Hub::start(), home());
    sharded(&hub, "org/shards");
    let expected = tokens(generate(&hub, home.path(), "org/shards", &[]));
    let folder = snapshot(home.path(), "org/shards");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a file of the model");
    for repo in ["org/torch", "org/evil"] {
        hub.add(repo, "config.json", read("config.json"));
        for part in ["00001-of-00002", "00002-of-00002"] {
            let file =
                pytorch_writer::from_safetensors(&read(&format!("model-{part}.safetensors")));
            hub.add(repo, &format!("pytorch_model-{part}.bin"), file);
        }
    }
    let index = String::from_utf8(read("model.safetensors.index.json")).expect("text");
    let index = index
        .replace("model-", "pytorch_model-")
        .replace(".safetensors", ".bin");
    hub.add("org/torch", "pytorch_model.bin.index.json", index.clone());
    let got = generate(&hub, home.path(), "org/torch", &[]);
    assert_eq!(tokens(got), expected);
    let args = ["info", "--json", "org/torch"];
    let info = run_command(hub.command(home.path(), &args), "").json();
    assert_eq!(info["format"], "pytorch");
    // An index that leads away is refused, whatever there is.
    let index = index.replace("pytorch_model-00002", "../pytorch_model-00002");
    hub.add("org/evil", "pytorch_model.bin.index.json", index);
    let line = generate(&hub, home.path(), "org/evil", &[]).failed("an index that leads away");
    assert!(line.contains("../pytorch_model-00002"), "{line}");
}

#[test]
fn tokens_come_from_the_variable_or_the_file() {
    let (hub, home) = (tiny_hub(), home());
    let token = |requests: &[wisp_tests::hub::Request]| requests[0].authorization.clone();
    std::fs::write(home.path().join("token"), "hf_file\n").expect("a token");
    generate(&hub, home.path(), "org/tiny", &[]).succeeded();
    assert_eq!(
        token(&hub.requests("GET /api")).as_deref(),
        Some("Bearer hf_file")
    );
    let before = hub.requests("").len();
    let mut command = command(&hub, home.path(), "org/tiny", &["--force-download"]);
    command.env("HF_TOKEN", "hf_variable");
    run_command(command, "").succeeded();
    for request in hub.requests("").split_off(before) {
        assert_eq!(
            request.authorization.as_deref(),
            Some("Bearer hf_variable"),
            "{request:?}"
        );
    }
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

#[test]
fn repositories_without_what_runs() {
    let (hub, home) = (Hub::start(), home());
    hub.add("org/none", "README.md", "nothing here");
    let line = generate(&hub, home.path(), "org/none", &[]).failed("no weights");
    assert!(line.contains("no weights"), "{line}");
    assert!(hub.requests("resolve").is_empty());
}
