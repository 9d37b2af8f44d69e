//! The choice of files in a repository, and the errors without a suitable one.

use super::*;

#[test]
fn one_of_several_gguf_files_is_chosen_by_encoding() {
    let (hub, home) = (Hub::start(), home());
    for name in [
        "m-Q4_K_M.gguf",
        "m-Q4_K_S.gguf",
        "m-Q8_0.gguf",
        "sub/m-F16.gguf",
    ] {
        hub.add("org/many", name, TINY);
    }
    for name in [
        "m-Q4_K_L.gguf",
        "m-Q4_K_M.gguf",
        "m-UD-Q4_K_XL.gguf",
        "m-Q4_K_S.gguf",
    ] {
        hub.add("org/kinds", name, TINY);
    }
    hub.add("org/two", "a.gguf", TINY)
        .add("org/two", "b.gguf", TINY);
    for (model, file) in [
        ("org/many", "m-Q4_K_M.gguf"),
        ("org/many:q8_0", "m-Q8_0.gguf"),
        ("org/many:Q8_0", "m-Q8_0.gguf"),
        ("org/many:m-Q4_K_S.gguf", "m-Q4_K_S.gguf"),
        ("org/kinds:Q4_K_S", "m-Q4_K_S.gguf"),
        ("org/kinds:q4_k_l", "m-Q4_K_L.gguf"),
        ("org/kinds:UD-Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("org/kinds:q4_k", "m-Q4_K_M.gguf"),
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
    // Without a file of this kind, another one is used and named.
    let run = generate(&hub, home.path(), "org/many:Q4_K_L", &[]).succeeded();
    for word in ["Q4_K_L", "m-Q4_K_M.gguf is used instead"] {
        assert!(run.stderr.contains(word), "{}", run.stderr);
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

#[test]
fn sharded_safetensors_are_downloaded_and_run() {
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
    // A damaged index is an error as in a folder.
    hub.add(
        "org/shards",
        "model.safetensors.index.json",
        r#"{"weight_map": {"x": "../x"}}"#,
    );
    generate(&hub, self::home().path(), "org/shards", &[]).failed("an index that leads away");
}

#[test]
fn refusals_of_the_hub_are_explained() {
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
    let line = run_command(wrong, "").failed("an invalid endpoint");
    assert!(line.contains("HF_ENDPOINT"), "{line}");
    let line = generate(&hub, home.path(), "tiny", &[]).failed("a name without its owner");
    assert!(line.contains("org/name"), "{line}");
}

/// The sharded model as PyTorch files with an index.
#[test]
fn pytorch_checkpoints_are_downloaded_and_run() {
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
    // An index with a path outside of the repository is refused.
    let index = index.replace("pytorch_model-00002", "../pytorch_model-00002");
    hub.add("org/evil", "pytorch_model.bin.index.json", index);
    let line = generate(&hub, home.path(), "org/evil", &[]).failed("an index that leads away");
    assert!(line.contains("../pytorch_model-00002"), "{line}");
}

#[test]
fn access_tokens_come_from_the_environment_or_a_file() {
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
fn log_never_shows_the_bytes_of_requests() {
    let (hub, home) = (tiny_hub(), home());
    for filter in [
        "ureq=trace,ureq_proto=trace",
        "ureq_proto::util=trace,ureq=trace",
    ] {
        let mut command = command(&hub, home.path(), "org/tiny", &[]);
        command.env("HF_TOKEN", "hf_secret").env("WISP_LOG", filter);
        let stderr = run_command(command, "").succeeded().stderr;
        assert!(stderr.contains("ureq"), "nothing is logged");
        for word in ["ureq_proto::util", "secret"] {
            assert!(!stderr.contains(word), "{word}: {stderr}");
        }
    }
}

#[test]
fn repositories_without_a_model_are_refused() {
    let (hub, home) = (Hub::start(), home());
    hub.add("org/none", "README.md", "nothing here");
    let line = generate(&hub, home.path(), "org/none", &[]).failed("no weights");
    assert!(line.contains("no weights"), "{line}");
    assert!(hub.requests("resolve").is_empty());
}

#[test]
fn names_may_have_the_address_of_the_hub_before_them() {
    let (hub, home) = (tiny_hub(), home());
    for name in [
        "https://huggingface.co/org/tiny",
        "hf.co/org/tiny",
        "huggingface.co/org/tiny:q8_0",
    ] {
        let run = generate(&hub, home.path(), name, &[]);
        assert_eq!(tokens(run), expected(), "{name}");
    }
}

#[test]
fn a_word_is_answered_with_the_form_of_names() {
    let (hub, home) = (tiny_hub(), home());
    let line = generate(&hub, home.path(), "llama3", &[]).failed("no such model");
    for words in ["llama3", "org/name", "https://huggingface.co/models"] {
        assert!(line.contains(words), "{words}: {line}");
    }
}

#[test]
fn a_hub_that_cannot_be_reached_is_told_with_what_to_check() {
    let (hub, home) = (tiny_hub(), home());
    let mut command = command(&hub, home.path(), "org/tiny", &[]);
    command.env("HF_ENDPOINT", "http://127.0.0.1:9");
    let line = run_command(command, "").failed("no hub");
    for words in ["cannot be reached", "HTTPS_PROXY", "HF_ENDPOINT", ".gguf"] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert!(!line.contains("io: "), "{line}");
}
