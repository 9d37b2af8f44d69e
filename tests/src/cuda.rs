//! The emulated CUDA device of `tests/cuda-emulator`, for programs that a test starts.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::program::{Run, command, run_command};

/// Returns the folder of the emulator's libraries, which is built when the first test asks for it. Prints that the test
/// is skipped if it cannot be built here.
pub fn emulator() -> Option<&'static Path> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = FOLDER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/cuda-emulator.sh");
        let output = Command::new("bash").arg(script).output();
        let output = output.map_err(|error| format!("skipped: no bash ({error})"))?;
        assert!(output.status.success(), "the CUDA emulator does not build");
        let text = String::from_utf8(output.stdout).expect("a path");
        let line = text.lines().last().unwrap_or_default();
        match line.starts_with("skipped: ") {
            true => Err(line.to_string()),
            false => Ok(PathBuf::from(line)),
        }
    });
    match built {
        Ok(folder) => Some(folder),
        Err(why) => {
            println!("{why}");
            None
        }
    }
}

/// Runs the program with libraries of a folder and these variables.
pub fn run_in(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = command(args);
    find_in(&mut command, folder, variables);
    run_command(command, "")
}

/// Lets a program find the libraries of a folder, and sets these variables.
pub fn find_in(command: &mut Command, folder: &Path, variables: &[(&str, &str)]) {
    command.env("LD_LIBRARY_PATH", folder);
    command.envs(variables.iter().copied());
}
