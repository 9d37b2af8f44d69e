//! Files that are no files, are far too long, or change: pipes, devices, folders, sparse and cut files.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use wisp_engine::weights::{Checkpoint, Encoding, gguf::Value};
use wisp_tests::{fault, gguf_writer::GgufWriter, goldens::golden, program};

/// The small files beside weights that are read when a model is opened.
const SMALL_FILES: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
];

/// Copies a checkpoint in Hugging Face's layout to a temporary folder.
fn checkpoint() -> Option<(tempfile::TempDir, PathBuf)> {
    let (source, _) = golden::<serde_json::Value>("llama")?;
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    for entry in std::fs::read_dir(source).expect("a checkpoint").flatten() {
        std::fs::copy(entry.path(), model.join(entry.file_name())).expect("a copy");
    }
    let tokenizer = serde_json::json!({
        "version": "1.0",
        "model": { "type": "WordLevel", "vocab": { "a": 0, "b": 1 }, "unk_token": "a" },
    });
    std::fs::write(model.join("tokenizer.json"), tokenizer.to_string()).expect("a file");
    Some((folder, model))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[cfg(unix)]
fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

/// Puts something in the place of a file, and checks that `check` refuses it with a message of `expected` words.
#[cfg(unix)]
fn replaced(path: &Path, what: &str, check: impl Fn(&str)) {
    let kept = path.with_extension("kept");
    let existed = path.exists();
    if existed {
        std::fs::rename(path, &kept).expect("a file");
    }
    match what {
        "a pipe" => make_pipe(path),
        "a device" => std::os::unix::fs::symlink("/dev/zero", path).expect("a link"),
        "a folder" => std::fs::create_dir(path).expect("a folder"),
        _ => {
            let file = File::create(path).expect("a file");
            file.set_len(14 << 30).expect("a sparse file");
        }
    }
    check(what);
    match what {
        "a folder" => std::fs::remove_dir(path).expect("a folder"),
        _ => std::fs::remove_file(path).expect("a file"),
    }
    if existed {
        std::fs::rename(&kept, path).expect("a file");
    }
}

#[cfg(unix)]
const KINDS: [&str; 4] = ["a pipe", "a device", "a folder", "bytes"];

#[cfg(unix)]
#[test]
fn small_files_that_are_not_regular_or_too_long_are_refused() {
    let Some((_folder, model)) = checkpoint() else {
        return;
    };
    for name in SMALL_FILES {
        for what in KINDS {
            replaced(&model.join(name), what, |what| {
                let args = match name {
                    "config.json" | "generation_config.json" => vec!["info", text(&model)],
                    _ => vec!["tokenize", "--model", text(&model), "--text", "a"],
                };
                let run = fault::run_limited(args);
                let message = run.failed(name);
                assert!(message.contains(name), "{name}: {message}");
                assert!(message.contains(what), "{name}: {message}");
            });
        }
    }
}

#[cfg(unix)]
#[test]
fn weights_that_are_not_regular_are_refused() {
    let Some((_folder, model)) = checkpoint() else {
        return;
    };
    for what in KINDS {
        replaced(&model.join("model.safetensors"), what, |what| {
            let message = fault::run_limited(["info", text(&model)]).failed(what);
            let expected = match what {
                "bytes" => "model.safetensors",
                "a folder" => "no weights",
                what => what,
            };
            assert!(message.contains(expected), "{what}: {message}");
        });
        for name in ["x.gguf", "x.safetensors", "x.bin"] {
            replaced(&model.join(name), what, |what| {
                let message = fault::run_limited(["info", text(&model.join(name))]).failed(what);
                assert!(message.contains(name), "{what}: {message}");
            });
        }
    }
}

#[cfg(unix)]
#[test]
fn indices_of_weights_that_are_not_regular_are_refused() {
    let Some((_folder, model)) = checkpoint() else {
        return;
    };
    std::fs::rename(
        model.join("model.safetensors"),
        model.join("model-00001-of-00001.safetensors"),
    )
    .expect("a file");
    for what in KINDS {
        let index = model.join("model.safetensors.index.json");
        replaced(&index, what, |what| {
            let generate = ["generate", "--model", text(&model), "--tokens", "1"];
            let run =
                fault::run_limited([&generate[..], &["--device", "host", "-n", "1"]].concat());
            // Something else than a file is no index, and the only file of weights is the model.
            if run.status != Some(0) {
                let message = run.failed(what);
                assert!(message.contains("index.json"), "{what}: {message}");
            }
        });
    }
}

#[cfg(unix)]
#[test]
fn settings_adapters_and_prompts_that_are_not_regular_are_refused() {
    let Some((folder, model)) = checkpoint() else {
        return;
    };
    let adapter = folder.path().join("adapter");
    std::fs::create_dir(&adapter).expect("a folder");
    std::fs::write(adapter.join("adapter_model.safetensors"), "").expect("a file");
    let file = folder.path().join("file");
    let (model, adapter_flag) = (text(&model), format!("a={}", text(&adapter)));
    let generate = [
        "generate",
        "--model",
        model,
        "--device",
        "host",
        "--max-new-tokens",
        "1",
    ];
    for what in KINDS {
        replaced(&file, what, |what| {
            for flags in [
                ["--prompt-file", text(&file), "--top-k", "1"],
                ["--config", text(&file), "--prompt", "a"],
            ] {
                let run = fault::run_limited(generate.into_iter().chain(flags));
                let message = run.failed(what);
                assert!(message.contains(text(&file)), "{flags:?}: {message}");
                assert!(message.contains(what), "{flags:?}: {message}");
            }
        });
        replaced(&adapter.join("adapter_config.json"), what, |what| {
            let flags = ["--prompt", "a", "--lora", &adapter_flag];
            let message = fault::run_limited(generate.into_iter().chain(flags)).failed(what);
            assert!(message.contains("adapter_config.json"), "{message}");
            assert!(message.contains(what), "{message}");
        });
    }
}

#[cfg(unix)]
#[test]
fn standard_input_without_an_end_is_refused() {
    let command = program::command(["tokenize", "--file", "-"]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec timeout 5 \"$0\" tokenize --file - </dev/zero"]);
    shell.arg(command.get_program());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let output = shell.output().expect("a shell");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("at most"), "{message}");
}

#[cfg(unix)]
#[test]
fn open_streams_of_the_shell_are_read() {
    let program = program::wisp();
    for script in [
        "printf hello | \"$0\" tokenize --json --file /dev/stdin",
        "printf hello | \"$0\" tokenize --json --file -",
        "\"$0\" tokenize --json --file <(printf hello)",
    ] {
        let mut shell = std::process::Command::new("bash");
        let output = shell
            .args(["-c", script])
            .arg(program)
            .env("WISP_CONFIG", "")
            .output();
        let output = output.expect("bash");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            stdout.contains("\"tokens\":["),
            "{script}: {stdout} {output:?}"
        );
    }
}

/// Writes a GGUF file whose header promises a tensor of this many bytes, sparse up to `length`.
fn sparse_gguf(path: &Path, rows: u64, length: u64) {
    let writer = GgufWriter::new(3, false);
    let header = writer
        .key("general.architecture", Value::String("llama".into()))
        .raw_tensor(
            "token_embd.weight",
            Encoding::F32.ggml_type().expect("a type"),
            &[rows, 1024],
            &[],
        )
        .write();
    std::fs::write(path, header).expect("a file");
    let file = File::options().write(true).open(path).expect("the file");
    file.set_len(length).expect("a sparse file");
}

#[test]
fn sparse_weights_of_14_gb_are_refused_by_what_they_describe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sparse.gguf");
    for (rows, length) in [
        (3 << 20, 14 << 30),
        (1 << 40, 14 << 30),
        (u64::MAX >> 12, 14 << 30),
    ] {
        sparse_gguf(&path, rows, length);
        for command in ["info", "tokenize"] {
            let args = match command {
                "info" => vec!["info", text(&path)],
                _ => vec!["tokenize", "--model", text(&path), "--text", "a"],
            };
            let message = fault::run_limited(args).failed("a sparse file");
            assert!(message.contains("sparse.gguf"), "{message}");
        }
    }
}

#[test]
fn weights_that_are_cut_while_they_are_open_are_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.gguf");
    let data = vec![1; 4 << 20];
    let file = GgufWriter::new(3, false)
        .key("general.architecture", Value::String("llama".into()))
        .tensor("a", Encoding::F32, &[1 << 10, 1 << 10], &data)
        .write();
    std::fs::write(&path, file).expect("a file");
    let checkpoint = Checkpoint::open(&path).expect("a checkpoint");
    assert_eq!(checkpoint.bytes("a", 0..4).expect("bytes").len(), 4);
    let file = File::options().write(true).open(&path).expect("the file");
    file.set_len(1000).expect("a cut file");
    let error = checkpoint
        .bytes("a", 0..4)
        .expect_err("a cut file")
        .to_string();
    assert!(
        error.contains("cut.gguf") && error.contains("cut from"),
        "{error}"
    );
}

#[test]
fn replaced_weights_stay_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.gguf");
    let model = |byte| {
        GgufWriter::new(3, false)
            .key("general.architecture", Value::String("llama".into()))
            .tensor("a", Encoding::F32, &[4, 4], &[byte; 64])
            .write()
    };
    std::fs::write(&path, model(1)).expect("a file");
    let checkpoint = Checkpoint::open(&path).expect("a checkpoint");
    wisp_engine::files::write_atomic(&path, &model(2)).expect("another file");
    assert_eq!(checkpoint.bytes("a", 0..4).expect("bytes")[..], [1; 4]);
}

#[test]
fn folder_with_several_models_lists_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let tiny = wisp_tests::bundled::folder().join("wisp-tiny.gguf");
    let add = |name: &str| {
        std::fs::copy(&tiny, path(name))
            .map(|_| ())
            .expect("a copy")
    };
    for name in [
        "a-Q4_K_M.gguf",
        "b-Q8_0.gguf",
        "c.gguf",
        "mmproj-c-f16.gguf",
    ] {
        add(name);
    }
    let projector = GgufWriter::new(3, false)
        .key("general.architecture", Value::String("clip".into()))
        .write();
    std::fs::write(path("vision.gguf"), projector).expect("a file");
    let adapter = GgufWriter::new(3, false)
        .key("general.architecture", Value::String("llama".into()))
        .key("general.type", Value::String("adapter".into()))
        .write();
    std::fs::write(path("style.gguf"), adapter).expect("a file");
    let folder_name = text(folder.path());
    for model in [folder_name.to_string(), format!("{folder_name}/")] {
        let message = fault::run_limited(["info", &model]).failed("several models");
        for name in ["a-Q4_K_M.gguf", "b-Q8_0.gguf", "c.gguf"] {
            assert!(message.contains(text(&path(name))), "{message}");
        }
        for name in ["mmproj", "vision", "style"] {
            assert!(!message.contains(name), "{message}");
        }
    }
    for name in ["a-Q4_K_M.gguf", "b-Q8_0.gguf"] {
        std::fs::remove_file(path(name)).expect("a file");
    }
    // Only one model is left beside the projectors and the adapter.
    fault::run_limited(["info", folder_name]).succeeded();
    let error = wisp_engine::pipelines::ModelFiles::open(folder.path());
    assert!(error.is_ok(), "{error:?}");
}

#[test]
fn models_in_folders_below_are_named_and_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let below = folder.path().join("below");
    std::fs::create_dir(&below).expect("a folder");
    let tiny = wisp_tests::bundled::folder().join("wisp-tiny.gguf");
    std::fs::copy(&tiny, below.join("x.gguf")).expect("a copy");
    let name = text(folder.path());
    let message = fault::run_limited(["info", name]).failed("no model in the folder itself");
    assert!(message.contains(text(&below.join("x.gguf"))), "{message}");
    fault::run_limited(["info", &format!("{name}:below/x.gguf")]).succeeded();
    // A model in the folder itself is certain.
    std::fs::copy(&tiny, folder.path().join("own.gguf")).expect("a copy");
    fault::run_limited(["info", name]).succeeded();
}
