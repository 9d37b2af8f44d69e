//! Files of caches that something has damaged or replaced.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use wisp_tests::{
    hub::{Fault, Hub},
    parallel, program,
};

use crate::{
    hub::{TINY, below, command, tiny_hub},
    storage::{cached, expected, run, tokens},
};

/// Returns a download that waits for a busy machine.
fn download(hub: &Hub, home: &Path) -> Command {
    let mut command = command(hub, home);
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "10");
    command
}

/// A way to damage a file, and its name.
type Damage = (&'static str, fn(&Path));

fn damages() -> Vec<Damage> {
    let mut all: Vec<Damage> = vec![
        ("empty", |path| std::fs::write(path, "").expect("a file")),
        ("cut", |path| {
            let bytes = std::fs::read(path).expect("a file");
            std::fs::write(path, &bytes[..bytes.len() / 2]).expect("a file");
        }),
        ("longer", |path| {
            let bytes = std::fs::read(path).expect("a file");
            std::fs::write(path, [&bytes[..], &[0; 999]].concat()).expect("a file");
        }),
        ("garbled", |path| {
            let mut bytes = std::fs::read(path).expect("a file");
            bytes.iter_mut().step_by(97).for_each(|byte| *byte ^= 0x55);
            std::fs::write(path, bytes).expect("a file");
        }),
        ("a folder", |path| {
            std::fs::remove_file(path).expect("a file");
            std::fs::create_dir(path).expect("a folder");
        }),
        ("huge", |path| {
            let file = File::create(path).expect("a file");
            file.set_len(14 << 30).expect("a sparse file");
        }),
    ];
    #[cfg(unix)]
    all.extend([
        ("a pipe", pipe as fn(&Path)),
        ("a device", device),
        ("a link to nothing", |path| link(path, "/nowhere/at/all")),
        ("a link to itself", |path| {
            link(path, path.to_str().expect("text"))
        }),
    ]);
    all
}

#[cfg(unix)]
fn link(path: &Path, target: &str) {
    std::fs::remove_file(path).expect("a file");
    std::os::unix::fs::symlink(target, path).expect("a link");
}

#[cfg(unix)]
fn device(path: &Path) {
    link(path, "/dev/zero");
}

#[cfg(unix)]
fn pipe(path: &Path) {
    std::fs::remove_file(path).expect("a file");
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

#[test]
fn torn_files_of_the_compiler_are_replaced() {
    let expected = expected();
    parallel::for_each(damages(), |(what, damage)| {
        let cache = tempfile::tempdir().expect("a folder");
        assert_eq!(tokens(run(cached(cache.path()))), expected);
        let files = below(cache.path());
        assert!(!files.is_empty(), "nothing is kept");
        for file in &files {
            damage(file);
        }
        for _ in 0..2 {
            assert_eq!(tokens(run(cached(cache.path()))), expected, "{what}");
        }
        let temporary = |path: &&PathBuf| path.to_string_lossy().contains(".wisp-part-");
        let found = below(cache.path());
        assert_eq!(found.iter().find(temporary), None, "{what}");
    });
}

#[test]
fn torn_files_of_a_driver_are_replaced() {
    if !program::TestDevice::Vulkan.is_available() {
        return;
    }
    let args = [
        "generate", "--device", "vulkan", "--json", "--tokens", "1,2,3", "-n", "2",
    ];
    let command = |cache: &Path| {
        let mut command = program::command(args);
        command.env("WISP_CACHE_DIR", cache);
        command
    };
    let cache = tempfile::tempdir().expect("a folder");
    let expected = tokens(program::run_command(command(cache.path()), ""));
    for (what, damage) in damages() {
        for file in below(cache.path()) {
            if file.is_file() {
                damage(&file);
            }
        }
        // The address space of a driver is not limited here.
        assert_eq!(
            tokens(program::run_command(command(cache.path()), "")),
            expected,
            "{what}"
        );
    }
}

#[test]
fn torn_files_of_the_hub_are_loaded_again() {
    let expected = expected();
    let snapshot = format!("snapshots/{}/tiny-Q8_0.gguf", wisp_tests::hub::COMMIT);
    let blob = format!("blobs/{}", wisp_tests::hub::sha256(TINY));
    parallel::for_each(damages(), |(what, damage)| {
        for file in ["refs/main", &snapshot, &blob] {
            // The contents of a file of the right length are trusted, as all of Hugging Face's tools do.
            if (what, file) == ("garbled", &blob) || (what, file) == ("garbled", &snapshot) {
                continue;
            }
            let (hub, home) = tiny_hub();
            assert_eq!(tokens(run(download(&hub, home.path()))), expected);
            damage(&home.path().join("hub/models--org--tiny").join(file));
            let online = run(download(&hub, home.path()));
            if online.status != Some(0) {
                // Nothing of the user's is deleted to make room: what is in the way is named.
                let message = online.failed(what);
                assert!(
                    message.contains("models--org--tiny"),
                    "{what} {file}: {message}"
                );
            }
            let mut offline = download(&hub, home.path());
            offline.env("HF_HUB_OFFLINE", "1");
            let offline = run(offline);
            if offline.status != Some(0) {
                let message = offline.failed(what);
                assert!(message.contains("tiny"), "{what} {file}: {message}");
            }
            run({
                let mut list = hub.command(home.path(), &["list"]);
                list.env("HF_HUB_OFFLINE", "1");
                list
            })
            .succeeded();
        }
    });
}

#[test]
fn torn_partial_downloads_never_become_models() {
    let partial = |home: &Path| {
        let blobs = home.join("hub/models--org--tiny/blobs");
        below(&blobs)
            .into_iter()
            .find(|path| path.to_string_lossy().ends_with(".incomplete"))
    };
    parallel::for_each(damages(), |(what, damage)| {
        let (hub, home) = tiny_hub();
        hub.inject("GET /org", Fault::Disconnect(100_000), 1);
        hub.inject("GET /org", Fault::Disconnect(0), usize::MAX);
        let mut broken = download(&hub, home.path());
        broken.env("HF_HUB_DOWNLOAD_TIMEOUT", "0.2");
        run(broken).failed("a broken download");
        damage(&partial(home.path()).expect("a partial file"));
        hub.clear_faults();
        let first = run(download(&hub, home.path()));
        if first.status == Some(0) {
            assert_eq!(tokens(first), expected(), "{what}");
        } else {
            let message = first.failed(what);
            assert!(message.contains("tiny"), "{what}: {message}");
        }
        // What cannot be continued was deleted or is in the way, which the message said.
        if let Some(left) = partial(home.path()) {
            match left.is_dir() {
                true => std::fs::remove_dir(&left).expect("a folder"),
                false => std::fs::remove_file(&left).expect("a file"),
            }
        }
        let folder = home.path().join("hub/models--org--tiny/blobs");
        for entry in std::fs::read_dir(folder).expect("blobs").flatten() {
            if entry.path().is_dir() {
                std::fs::remove_dir(entry.path()).expect("a folder");
            }
        }
        assert_eq!(
            tokens(run(download(&hub, home.path()))),
            expected(),
            "{what}"
        );
    });
}
