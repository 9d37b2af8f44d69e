//! Standard output and standard error that are closed or full, and files that commands write.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use wisp_tests::{
    encoder,
    program::{Run, command, run_command},
    sample,
};

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

/// The commands that a test runs: in an ordinary run half of them, which the tests numbered 0 and 1 share out.
fn commands(test: usize) -> impl Iterator<Item = &'static [&'static str]> {
    let all = COMMANDS.iter().copied();
    all.filter(move |args| sample::has(&args.concat(), test, 2))
}

#[test]
fn closed_pipe_ends_every_command_in_silence() {
    for args in commands(0) {
        let mut child = command(args).spawn().expect("wisp starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("an end");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("error"), "{args:?}: {stderr}");
    }
}

#[test]
fn closed_pipe_of_errors_changes_no_result() {
    for args in commands(0) {
        let mut child = command(args).spawn().expect("wisp starts");
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
    for args in commands(1) {
        let mut command = command(args);
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
    for args in commands(1) {
        let mut command = command(args);
        command.stderr(Stdio::from(File::create("/dev/full").expect("a device")));
        command.env("WISP_LOG", "debug").env("WISP_DEBUG", "op-log");
        assert_eq!(
            command.output().expect("an end").status.code(),
            Some(0),
            "{args:?}"
        );
    }
}

/// The model inside the program, as a file in a new folder.
fn model() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native-demo/model/wisp-tiny.gguf");
    std::fs::copy(tiny, &path).expect("a model");
    (folder, path)
}

/// The commands that write a file, without its path.
const WRITERS: &[&[&str]] = &[
    &["logits", "--device", "host", "--tokens", "1,2", "--out"],
    &[
        "bench",
        "--device",
        "host",
        "-p",
        "4",
        "-n",
        "2",
        "-r",
        "1",
        "--profiling",
        "on",
        "--trace",
    ],
    &["warm-cache", "--device", "host", "--out"],
    &["warm-cache", "--target", "vulkan", "--out"],
    &["convert", "--force", "--out"],
    &[
        "generate",
        "a",
        "-n",
        "1",
        "--device",
        "host",
        "--save-to-serialized-model-path",
    ],
];

/// Runs a command that writes `out`.
fn write(args: &[&str], out: &Path, more: &[&OsStr]) -> Run {
    let mut command = command(args);
    command.arg(out).args(more);
    run_command(command, "")
}

#[cfg(unix)]
#[test]
fn model_is_never_replaced_by_an_output() {
    let (folder, model) = model();
    let path = |name: &str| folder.path().join(name);
    std::fs::hard_link(&model, path("hard.gguf")).expect("a link");
    std::os::unix::fs::symlink(&model, path("soft.gguf")).expect("a link");
    std::os::unix::fs::symlink("soft.gguf", path("chain.gguf")).expect("a link");
    std::fs::create_dir(path("sub")).expect("a folder");
    let before = std::fs::read(&model).expect("a model");
    for args in WRITERS {
        for out in [
            "model.gguf",
            "hard.gguf",
            "soft.gguf",
            "chain.gguf",
            "sub/../model.gguf",
        ] {
            let run = write(args, &path(out), &["--model".as_ref(), model.as_os_str()]);
            let message = run.failed("an output that is the model");
            assert!(message.contains(out), "{message}");
            assert!(
                std::fs::read(&model).expect("a model") == before,
                "{args:?} {out}"
            );
        }
        let run = write(
            args,
            &model,
            &["--model".as_ref(), path("soft.gguf").as_os_str()],
        );
        run.failed("the target of a linked model");
        assert!(
            std::fs::read(&model).expect("a model") == before,
            "{args:?}"
        );
    }
}

#[test]
fn files_of_a_folder_and_of_adapters_are_never_replaced() {
    let (folder, model) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let model = model.expect("a folder");
    encoder::bert(model.path());
    let weights = model.path().join("model.safetensors");
    let config = model.path().join("config.json");
    let adapter = folder.path().join("adapter");
    std::fs::create_dir(&adapter).expect("a folder");
    std::fs::write(adapter.join("adapter_config.json"), "{}").expect("a file");
    for args in WRITERS {
        for file in [&weights, &config] {
            let before = std::fs::read(file).expect("a file");
            write(args, file, &["--model".as_ref(), model.path().as_os_str()])
                .failed("a file of the model");
            assert!(std::fs::read(file).expect("a file") == before, "{args:?}");
        }
        if args[0] != "convert" && args[0] != "bench" {
            let file = adapter.join("adapter_config.json");
            write(args, &file, &["--lora".as_ref(), adapter.as_os_str()])
                .failed("a file of an adapter");
            assert_eq!(std::fs::read(&file).expect("a file"), b"{}", "{args:?}");
        }
    }
}

#[test]
fn other_files_are_kept_and_own_ones_are_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    for (i, args) in WRITERS
        .iter()
        .enumerate()
        .filter(|(_, args)| args[0] != "convert")
    {
        let other = folder.path().join("notes.txt");
        std::fs::write(&other, "two years of work").expect("a file");
        write(args, &other, &[]).failed("a file that is something else");
        assert_eq!(
            std::fs::read(&other).expect("a file"),
            b"two years of work",
            "{args:?}"
        );

        let own = folder.path().join(i.to_string());
        std::fs::write(&own, "").expect("a file");
        let first = || std::fs::read(&own).expect("a file").len();
        write(args, &own, &[]).succeeded();
        let length = first();
        assert!(length > 0, "{args:?}");
        write(args, &own, &[]).succeeded();
        assert!(first() > 0, "{args:?}");
    }
    assert!(
        std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .all(|entry| { !entry.file_name().to_string_lossy().starts_with('.') })
    );
}

#[test]
fn folder_and_missing_folder_are_refused_as_outputs() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in WRITERS.iter().filter(|args| args[0] != "convert") {
        for out in [folder.path(), &folder.path().join("missing/file")] {
            let message = write(args, out, &[]).failed("no file");
            assert!(message.contains("folder"), "{message}");
        }
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0
    );
}

#[cfg(target_os = "linux")]
#[test]
fn full_device_is_an_error_of_every_output() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in WRITERS.iter().filter(|args| args[0] != "convert") {
        // Through a link, so that a fault replaces the link and not the device.
        let link = folder.path().join("full");
        std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
        let run = write(args, &link, &[]);
        assert_eq!(run.status, Some(1), "{run:?}");
        assert!(run.stderr.contains("No space left"), "{run:?}");
        assert!(link.is_symlink(), "{args:?}");
        std::fs::remove_file(link).expect("the link");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn standard_output_and_pipes_are_outputs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("redirected");
    // As /dev/stdout leads to.
    let mut command = command([WRITERS[0], &["/proc/self/fd/1"]].concat());
    command.stdout(Stdio::from(File::create(&path).expect("a file")));
    assert!(command.output().expect("an end").status.success());
    assert!(std::fs::read(&path).expect("logits").len() > 1024);

    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).expect("logits").len()
    });
    write(WRITERS[0], &pipe, &[]).succeeded();
    assert!(!pipe.is_file());
    assert!(reader.join().expect("a length") > 1024);
}

/// Not every system has such names.
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_unicode_are_written_and_told() {
    use std::os::unix::ffi::OsStrExt;
    let (folder, model) = model();
    let path = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    let (out, compiled, cache) = (path(b"\xff.gguf"), path(b"\xff.wisp"), path(b"\xff"));
    let shown = |path: &Path| path.display().to_string();
    let more = ["--model".as_ref(), model.as_os_str()];
    let json = write(&["convert", "--json", "--out"], &out, &more).json();
    assert_eq!(json["out"], shown(&out));
    assert!(std::fs::read(&out).expect("a model").starts_with(b"GGUF"));

    let mut warm = command(["warm-cache", "--json", "--device", "host", "--out"]);
    warm.arg(&compiled).env("WISP_CACHE_DIR", &cache);
    let json = run_command(warm, "").json();
    assert_eq!(json["out"], shown(&compiled));
    assert_eq!(json["cache"], shown(&cache));

    let mut list = command(["list", "--json"]);
    list.env("HOME", &cache).env_remove("XDG_CACHE_HOME");
    let json = run_command(list, "").json();
    assert_eq!(json["cache"], shown(&cache.join(".cache/huggingface/hub")));
}

#[test]
fn standard_output_is_refused_as_an_output() {
    let tune: &[&str] = &["tune", "--device", "host", "--out"];
    for args in WRITERS.iter().copied().chain([tune]) {
        let message = write(args, Path::new("-"), &[]).failed("no file");
        assert!(message.contains("name a file instead of -"), "{message}");
    }
    assert!(!Path::new("-").exists());
}

#[test]
fn failed_conversion_leaves_the_previous_output() {
    let (folder, model) = model();
    let out = folder.path().join("out.gguf");
    std::fs::write(&out, "previous").expect("a file");
    let mut bytes = std::fs::read(&model).expect("a model");
    bytes.truncate(bytes.len() - 1000);
    std::fs::write(&model, bytes).expect("a file");
    write(
        &["convert", "--force", "--out"],
        &out,
        &["--model".as_ref(), model.as_os_str()],
    )
    .failed("a short file");
    assert_eq!(std::fs::read(&out).expect("a file"), b"previous");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        2
    );
}

#[test]
fn force_of_a_conversion_says_what_it_does_not_force() {
    let (folder, model) = model();
    let out = folder.path().join("folder");
    std::fs::create_dir(&out).expect("a folder");
    std::fs::write(out.join("notes.txt"), "work").expect("a file");
    let source = folder.path().join("model");
    std::fs::create_dir(&source).expect("a folder");
    encoder::bert(&source);
    let run = write(
        &["convert", "--force", "--out"],
        &out,
        &["--model".as_ref(), source.as_os_str()],
    );
    let message = run.failed("a folder with files");
    assert!(
        message.contains("--force does not replace directories"),
        "{message}"
    );
    assert!(out.join("notes.txt").exists() && model.exists());
}

#[test]
fn man_pages_replace_only_man_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&["man", "--out"], folder.path(), &[]).succeeded();
    write(&["man", "--out"], folder.path(), &[]).succeeded();
    let page = folder.path().join("wisp-info.1");
    std::fs::write(&page, "my own notes").expect("a file");
    let message = write(&["man", "--out"], folder.path(), &[]).failed("another file");
    assert!(message.contains("wisp-info.1"), "{message}");
    assert_eq!(std::fs::read(&page).expect("a file"), b"my own notes");
}

#[test]
fn two_outputs_of_a_command_are_two_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("both");
    let more = ["--save-to-serialized-model-path".as_ref(), out.as_os_str()];
    for args in &WRITERS[..2] {
        let message = write(args, &out, &more).failed("one file for two outputs");
        assert!(message.contains("both"), "{message}");
        assert!(!out.exists());
    }
}
