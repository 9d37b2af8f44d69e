//! Runs the program `wisp` and reads its output.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use safetensors::SafeTensors;
use serde::Deserialize;
use serde_json::Value;

use crate::in_process;
pub use crate::test_device::{TestDevice, adapter_under_test};

/// The maximum absolute difference of logits from their reference.
pub const LOGITS_WITHIN: f32 = 2e-3;

/// Returns the path of the program, beside the folder of the test executables. `tests/run.sh` builds it
/// first; otherwise it is built here.
pub fn wisp() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("wisp", &["build", "-p", "wisp-llm"]))
}

/// Returns the path of an example program, and builds it if necessary.
pub fn example(name: &str) -> PathBuf {
    let build = ["build", "--workspace", "--example", name];
    built(&format!("examples/{name}"), &build)
}

fn built(name: &str, build: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test
        .ancestors()
        .nth(2)
        .expect("tests lie in <target>/<profile>/deps");
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.exists() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(build).current_dir(env!("CARGO_MANIFEST_DIR"));
        let built = cargo.status().expect("cargo").success();
        assert!(built, "{name} does not build");
    }
    path
}

/// Generates a module of three tests from a function of a [`TestDevice`](crate::program::TestDevice): on the host,
/// on Vulkan and on Vulkan's baseline profile. An ordinary run takes the host's and one of the others
/// ([`sample::takes_test`](crate::sample::takes_test)); with `by case:` it takes all, and the functions share out their
/// cases ([`sample::runs_on`](crate::sample::runs_on)).
#[macro_export]
macro_rules! on_every_device {
    (by case: $($name:ident),* $(,)?) => { $(
        $crate::tests_on!($name, |_, _, _| true, host: Host, vulkan: Vulkan, vulkan_baseline: VulkanBaseline);
    )* };
    ($($name:ident),* $(,)?) => { $(
        $crate::tests_on!(
            $name, $crate::sample::takes_test,
            host: Host, vulkan: Vulkan, vulkan_baseline: VulkanBaseline
        );
    )* };
}

/// Generates tests as [`on_every_device`](crate::on_every_device) does, and one on Vulkan posing as a GPU with all features: for tests of
/// whole models, which compare all that a GPU runs with a reference.
#[macro_export]
macro_rules! on_every_device_and_class {
    (by case: $($name:ident),* $(,)?) => { $(
        $crate::tests_on!(
            $name, |_, _, _| true,
            host: Host, vulkan: Vulkan, vulkan_gpu: VulkanGpu, vulkan_baseline: VulkanBaseline
        );
    )* };
    ($($name:ident),* $(,)?) => { $(
        $crate::tests_on!(
            $name, $crate::sample::takes_test,
            host: Host, vulkan: Vulkan, vulkan_gpu: VulkanGpu, vulkan_baseline: VulkanBaseline
        );
    )* };
}

/// Generates a test of a function for each device, in a module of its name; `$takes` decides which of them run.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_on {
    ($name:ident, $takes:expr, $($test:ident: $device:ident),*) => {
        mod $name {
            use $crate::program::TestDevice;

            const PLACES: &[TestDevice] = &[$(TestDevice::$device),*];
            const TAKES: fn(&str, TestDevice, &[TestDevice]) -> bool = $takes;
            $(
                #[test]
                fn $test() {
                    let device = TestDevice::$device;
                    if TAKES(stringify!($name), device, PLACES) && device.is_available() {
                        super::$name(device);
                    }
                }
            )*
        }
    };
}

/// Returns a command that runs the program without the settings and the input of this process, and with the KV cache
/// with which every device gives the same tokens.
pub fn command<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(wisp());
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let own = |name: &str| {
        ["WISP_", "HF_", "HUGGINGFACE_"]
            .iter()
            .any(|own| name.starts_with(own))
    };
    for (setting, _) in std::env::vars_os() {
        if setting.to_str().is_some_and(own) {
            command.env_remove(setting);
        }
    }
    // Ignore the user's settings, and do not contact any hub.
    command
        .env_remove("RUST_BACKTRACE")
        .env("WISP_CONFIG", "")
        .env("WISP_CACHE_DIR", "")
        .env("WISP_KV_CACHE_FORMAT", "float32")
        .env("HF_HUB_OFFLINE", "1");
    command
}

/// The result of a run of the program.
#[derive(Clone, Debug)]
pub struct Run {
    /// The arguments, for messages.
    pub args: String,
    /// The exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs the program to its end.
pub fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    run_with_input(args, "")
}

/// Runs the program to its end with this standard input.
pub fn run_with_input<S: AsRef<std::ffi::OsStr>>(
    args: impl IntoIterator<Item = S>,
    input: &str,
) -> Run {
    run_command(command(args), input)
}

/// Runs a prepared program to its end with this standard input.
pub fn run_command(mut command: Command, input: &str) -> Run {
    let shown: Vec<_> = command
        .get_args()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let mut child = command.stdin(Stdio::piped()).spawn().expect("wisp starts");
    // The program may exit before it has read all input.
    let _ = child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes());
    let output = child.wait_with_output().expect("wisp ends");
    Run {
        args: shown.join(" "),
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text on standard output"),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Run {
    /// Asserts exit status 0.
    #[track_caller]
    pub fn succeeded(self) -> Run {
        assert_eq!(self.status, Some(0), "wisp {}\n{}", self.args, self.stderr);
        self
    }

    /// Asserts success, and returns the JSON object on standard output.
    #[track_caller]
    pub fn json(self) -> Value {
        let run = self.succeeded();
        serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("wisp {}: {error}\n{}", run.args, run.stdout))
    }

    /// Asserts that the run failed because of its input: status 1, nothing on standard output, and one line
    /// on standard error. Returns that line.
    #[track_caller]
    pub fn failed(self, what: &str) -> String {
        let shown = format!(
            "{what}: wisp {}\nstatus {:?}\nstdout: {}\nstderr: {}",
            self.args, self.status, self.stdout, self.stderr
        );
        assert_eq!(self.status, Some(1), "{shown}");
        assert_eq!(self.stdout, "", "{shown}");
        assert!(!self.stderr.contains("panicked"), "{shown}");
        assert_eq!(self.stderr.lines().count(), 1, "{shown}");
        assert!(self.stderr.starts_with("error: "), "{shown}");
        let line = self.stderr.trim_end();
        let twice = |(at, _): (usize, &str)| line[..at].ends_with(&line[at + 2..]);
        assert!(
            !line.match_indices(": ").any(twice),
            "a cause is repeated: {shown}"
        );
        self.stderr
    }
}

/// The report of `wisp generate --json`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[allow(missing_docs)]
pub struct Generated {
    pub prompt_tokens: Vec<u32>,
    pub tokens: Vec<u32>,
    pub text: String,
    pub finish_reason: String,
}

/// Formats token ids for a flag.
pub fn ids(tokens: &[u32]) -> String {
    let ids: Vec<String> = tokens.iter().map(u32::to_string).collect();
    ids.join(",")
}

fn model_args(model: Option<&Path>) -> Vec<&str> {
    model.map_or(Vec::new(), |path| {
        vec!["--model", path.to_str().expect("a path in UTF-8")]
    })
}

/// Generates exactly `new_tokens` tokens, with the built-in model if `model` is `None`. On most devices this process runs
/// the model: see [`in_process`].
#[track_caller]
pub fn generate(
    model: Option<&Path>,
    place: TestDevice,
    prompt: &[u32],
    new_tokens: usize,
    flags: &[&str],
) -> Generated {
    if let Some(completion) = in_process::generate(model, place, prompt, new_tokens, flags) {
        let reason = serde_json::to_value(completion.finish_reason).expect("JSON");
        return Generated {
            prompt_tokens: prompt.to_vec(),
            tokens: completion.tokens,
            text: completion.text,
            finish_reason: reason.as_str().expect("a name").into(),
        };
    }
    let (prompt, new_tokens) = (ids(prompt), new_tokens.to_string());
    let fixed = [
        "generate",
        "--json",
        "--ignore-eos",
        "--tokens",
        &prompt,
        "--max-new-tokens",
        &new_tokens,
    ];
    let json = run([&fixed, &*model_args(model), &place.args(), flags].concat()).json();
    serde_json::from_value(json).expect("the fields of a generation")
}

/// Returns the logits of every position, `[tokens, vocab]`, with the built-in model if `model` is `None`. On most devices
/// this process runs the model: see [`in_process`].
#[track_caller]
pub fn logits(
    model: Option<&Path>,
    place: TestDevice,
    tokens: &[u32],
    flags: &[&str],
) -> Vec<Vec<f32>> {
    if let Some(rows) = in_process::logits(model, place, tokens, flags) {
        return rows;
    }
    let flags = [&*model_args(model), &place.args(), flags].concat();
    logits_of(tokens, &flags, |args| run(args))
}

/// The same of the model and the device that flags name, with a function that runs the program.
#[track_caller]
pub fn logits_of(
    tokens: &[u32],
    flags: &[&str],
    run: impl FnOnce(&[&str]) -> Run,
) -> Vec<Vec<f32>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("logits.safetensors");
    let ids = ids(tokens);
    let fixed = [
        "logits",
        "--tokens",
        &ids,
        "--out",
        out.to_str().expect("a path in UTF-8"),
    ];
    run(&[&fixed, flags].concat()).succeeded();
    let file = std::fs::read(&out).expect("the logits");
    let file = SafeTensors::deserialize(&file).expect("a safetensors file");
    let tensor = file.tensor("logits").expect("a tensor of logits");
    assert_eq!(tensor.dtype(), safetensors::Dtype::F32);
    let [rows, vocab] = *tensor.shape() else {
        panic!("logits of shape {:?}", tensor.shape())
    };
    assert_eq!(rows, tokens.len());
    let values: Vec<f32> = tensor
        .data()
        .as_chunks::<4>()
        .0
        .iter()
        .copied()
        .map(f32::from_le_bytes)
        .collect();
    values.chunks_exact(vocab).map(<[f32]>::to_vec).collect()
}

/// Asserts that logits are within [`LOGITS_WITHIN`] of the expected ones and not NaN. Returns the largest
/// difference.
#[track_caller]
pub fn assert_close(what: &str, got: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(got.len(), expected.len(), "{what}: the number of logits");
    let mut largest = 0f32;
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (got - expected).abs();
        assert!(
            off <= LOGITS_WITHIN,
            "{what}: logit {i} is {got}, expected {expected}"
        );
        largest = largest.max(off);
    }
    largest
}

/// Applies [`assert_close`] to each row.
#[track_caller]
pub fn assert_rows_close(what: &str, got: &[Vec<f32>], expected: &[Vec<f32>]) -> f32 {
    assert_eq!(got.len(), expected.len(), "{what}: the number of rows");
    let rows = got.iter().zip(expected).enumerate();
    rows.map(|(i, (got, expected))| assert_close(&format!("{what}, row {i}"), got, expected))
        .fold(0.0, f32::max)
}
