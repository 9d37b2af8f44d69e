//! Caches that are full, read-only, shared or left by a killed process.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use serde_json::Value;
use wisp_tests::{
    fault,
    hub::{Fault, Hub},
    program::{self, Run},
};

use crate::hub::{TINY, below, command as download, tiny_hub};

const GENERATE: [&str; 8] = [
    "generate", "--device", "host", "--json", "--tokens", "1,2,3", "-n", "4",
];

/// Returns a command that generates with the built-in model and keeps what it compiled in a folder.
pub fn cached(cache: &Path) -> Command {
    let mut command = program::command(GENERATE);
    command.env("WISP_CACHE_DIR", cache);
    command
}

pub fn tokens(run: Run) -> Value {
    run.json()["tokens"].clone()
}

/// The tokens of a run without a cache.
pub fn expected() -> Value {
    static TOKENS: OnceLock<Value> = OnceLock::new();
    TOKENS
        .get_or_init(|| tokens(program::run(GENERATE)))
        .clone()
}

pub fn run(command: Command) -> Run {
    fault::run_command_limited(command)
}

/// Runs a command where files may have at most this many blocks of 512 bytes.
#[cfg(unix)]
fn with_small_files(command: &Command, blocks: u32) -> Run {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(command.get_program());
    shell.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    program::run_command(shell, "")
}

/// A small disk of its own, which is unmounted when it is dropped.
#[cfg(target_os = "linux")]
struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    /// Mounts a disk of this many KiB; prints a note and returns `None` where that is not allowed.
    fn mount(kib: u32) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a folder");
        let size = format!("size={kib}k");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path());
        let output = mount.output();
        if !output.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no disk can be mounted");
            return None;
        }
        Some(SmallDisk(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.path()).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()),
            "the disk stays mounted"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_an_error_for_downloads_and_none_for_caches() {
    let Some(disk) = SmallDisk::mount(128) else {
        return;
    };
    let (hub, _) = tiny_hub();
    let message = run(download(&hub, disk.path())).failed("a full disk");
    assert!(message.contains("No space left"), "{message}");
    assert!(message.contains("incomplete"), "{message}");
    let cache = disk.path().join("cache");
    assert_eq!(tokens(run(cached(&cache))), expected());
    // With room, the download goes on from where it ended.
    let home = tempfile::tempdir().expect("a folder");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(disk.path().join("hub"))
        .arg(home.path())
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    assert_eq!(tokens(run(download(&hub, home.path()))), expected());
    let ranges: Vec<_> = hub
        .requests("GET /org")
        .into_iter()
        .filter_map(|request| request.range)
        .collect();
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    assert_no_leftovers(home.path());
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_keeps_the_file_that_a_conversion_would_replace() {
    let Some(disk) = SmallDisk::mount(TINY.len() as u32 / 1024 + 200) else {
        return;
    };
    let model = disk.path().join("model.gguf");
    std::fs::write(&model, TINY).expect("room for the model");
    for out in ["model.gguf", "new.gguf", "new"] {
        let out = disk.path().join(out);
        let (from, to) = (model.to_str().expect("text"), out.to_str().expect("text"));
        let args = [
            "convert",
            "--force",
            "--model",
            from,
            "--encoding",
            "f32",
            "--out",
            to,
        ];
        fault::run_limited(args).failed("a full disk");
        assert_eq!(std::fs::read(&model).expect("the model"), TINY);
        assert_eq!(std::fs::read_dir(disk.path()).expect("the disk").count(), 1);
    }
}

#[cfg(unix)]
#[test]
fn files_beyond_the_limit_of_their_size_are_an_error_for_downloads_and_none_for_caches() {
    let (hub, home) = tiny_hub();
    let message = with_small_files(&download(&hub, home.path()), 64).failed("no room");
    assert!(message.contains("too large"), "{message}");
    assert_eq!(tokens(run(download(&hub, home.path()))), expected());
    assert_no_leftovers(home.path());
    let cache = tempfile::tempdir().expect("a folder");
    assert_eq!(
        tokens(with_small_files(&cached(cache.path()), 0)),
        expected()
    );
    assert_eq!(tokens(run(cached(cache.path()))), expected());
}

#[test]
fn caches_that_cannot_be_written_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let dangling = folder.path().join("dangling");
    #[cfg(unix)]
    std::os::unix::fs::symlink("/nowhere/at/all", &dangling).expect("a link");
    let expected = expected();
    for cache in [
        file.clone(),
        file.join("below"),
        dangling,
        PathBuf::from("/proc/wisp"),
        PathBuf::from("\u{0001}/\n"),
    ] {
        let mut command = cached(&cache);
        command.current_dir(folder.path());
        assert_eq!(tokens(run(command)), expected, "{}", cache.display());
    }
}

#[test]
fn hub_caches_that_cannot_be_written_are_named() {
    let (hub, folder) = tiny_hub();
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    for home in [
        file.clone(),
        file.join("below"),
        PathBuf::from("/proc/wisp"),
    ] {
        if cfg!(target_os = "linux") || !home.starts_with("/proc") {
            let message = run(download(&hub, &home)).failed("a folder that is none");
            let name = home.to_str().expect("text");
            assert!(message.contains(name), "{name}: {message}");
        }
    }
    // A file in the place of each folder of the cache.
    for part in [
        "hub",
        "hub/models--org--tiny",
        "hub/models--org--tiny/blobs",
        "hub/.locks",
    ] {
        let (hub, home) = tiny_hub();
        let path = home.path().join(part);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, "").expect("a file");
        let message = run(download(&hub, home.path())).failed(part);
        assert!(message.contains("hub"), "{part}: {message}");
    }
}

/// Asserts that a cache of the hub has no temporary and no partial files.
fn assert_no_leftovers(home: &Path) {
    let is_left = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains(".wisp-") || name.ends_with(".incomplete")
    };
    let files = below(home);
    assert_eq!(files.iter().find(is_left), None);
}

#[test]
fn concurrent_processes_share_caches() {
    let expected = expected();
    let cache = tempfile::tempdir().expect("a folder");
    let (hub, home) = tiny_hub();
    for _ in 0..3 {
        let children: Vec<_> = (0..4)
            .map(|_| {
                let mut command = download(&hub, home.path());
                command.env("WISP_CACHE_DIR", cache.path());
                command.env("HF_HUB_DOWNLOAD_TIMEOUT", "10");
                command.spawn().expect("wisp")
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().expect("an end");
            assert!(output.status.success(), "{output:?}");
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(report["tokens"], expected);
        }
        assert_no_leftovers(home.path());
        assert_no_leftovers(cache.path());
    }
}

/// Kills a command after growing pauses up to `whole`, runs `again` after each, and checks its tokens.
fn kill(start: impl Fn() -> Command, moments: u32, whole: Duration, after: impl Fn()) {
    for moment in 0..moments {
        let mut child = start().spawn().expect("wisp");
        std::thread::sleep(whole.mul_f64((f64::from(moment) + 0.5) / f64::from(moments)));
        child.kill().expect("a kill");
        child.wait().expect("an end");
        after();
    }
}

fn kill_downloads(moments: u32) {
    let expected = expected();
    let hub = Hub::start();
    hub.add("org/tiny", "tiny-Q8_0.gguf", TINY);
    let home = tempfile::tempdir().expect("a folder");
    let command = || {
        let mut command = download(&hub, home.path());
        command.env("HF_HUB_DOWNLOAD_TIMEOUT", "10");
        command
    };
    let start_slowly = || {
        let slow = Fault::Slow(Duration::from_millis(1));
        hub.inject("GET /org", slow, usize::MAX);
        command()
    };
    kill(start_slowly, moments, Duration::from_millis(900), || {
        hub.clear_faults();
        assert_eq!(tokens(program::run_command(command(), "")), expected);
        assert_no_leftovers(home.path());
        std::fs::remove_dir_all(home.path().join("hub")).expect("the cache");
    });
}

fn kill_cache_writes(moments: u32) {
    let expected = expected();
    let cache = tempfile::tempdir().expect("a folder");
    kill(
        || cached(cache.path()),
        moments,
        Duration::from_millis(120),
        || {
            for _ in 0..2 {
                assert_eq!(tokens(run(cached(cache.path()))), expected);
            }
            for file in below(cache.path()) {
                std::fs::remove_file(file).expect("a file");
            }
        },
    );
    assert_eq!(tokens(run(cached(cache.path()))), expected);
    assert_no_leftovers(cache.path());
}

#[test]
fn killed_downloads_are_continued() {
    kill_downloads(4);
}

#[test]
fn killed_writes_to_the_cache_leave_a_cache_that_works() {
    kill_cache_writes(8);
}

#[test]
#[ignore = "takes minutes"]
fn downloads_and_cache_writes_killed_at_many_moments_are_continued() {
    kill_downloads(80);
    kill_cache_writes(200);
}
