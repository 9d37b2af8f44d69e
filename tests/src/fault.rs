//! Runs the program under limits of time and memory, for the fault list in `tests/faults`.

use std::{
    fmt::Debug,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::program::{self, Run};

/// The longest time in which a command must end, whatever its input.
pub const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The address space of a command, as for `ulimit -v`, in KiB. It counts the stacks of threads and what the
/// allocator reserves, so that a command that works with less than 1 GB stays below it.
const ADDRESS_SPACE_KIB: u32 = 3 << 19;

/// Runs the program with hostile input: no network, 1.5 GiB of address space (on Unix), and 5 seconds.
///
/// # Panics
///
/// If the program runs for longer, is ended by a signal (an abort is one) or panics. The caller checks the rest.
#[track_caller]
pub fn run_limited<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    run_command_limited(program::command(args))
}

/// [`run_limited`] for a prepared command of [`program::command`].
///
/// # Panics
///
/// As [`run_limited`].
#[track_caller]
pub fn run_command_limited(command: Command) -> Run {
    let began = Instant::now();
    let run = program::run_command(with_limits(&command), "");
    assert_ended_well(&run, began.elapsed());
    run
}

/// Returns the command in a shell that limits its address space and ends it after [`TIME_LIMIT`] and a second.
fn with_limits(command: &Command) -> Command {
    if !cfg!(unix) {
        let mut same = Command::new(command.get_program());
        same.args(command.get_args());
        copy_settings(command, &mut same);
        return same;
    }
    let script = format!(
        "ulimit -v {ADDRESS_SPACE_KIB}; exec timeout -k 1 {} \"$0\" \"$@\"",
        TIME_LIMIT.as_secs() + 1
    );
    let mut limited = Command::new("sh");
    limited.args(["-c", &script]).arg(command.get_program());
    limited.args(command.get_args());
    copy_settings(command, &mut limited);
    // Each arena of glibc reserves 64 MiB.
    limited.env("MALLOC_ARENA_MAX", "2");
    limited
}

fn copy_settings(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
    if let Some(folder) = from.get_current_dir() {
        to.current_dir(folder);
    }
    to.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

#[track_caller]
fn assert_ended_well(run: &Run, took: Duration) {
    let shown = format!(
        "wisp {}\nstatus {:?} after {took:.1?}\nstdout: {:.2000}\nstderr: {:.2000}",
        run.args, run.status, run.stdout, run.stderr
    );
    assert!(took <= TIME_LIMIT, "too slow: {shown}");
    assert!(
        run.status.is_some_and(|status| status < 124),
        "aborted or killed: {shown}"
    );
    assert!(!run.stderr.contains("panicked at"), "panicked: {shown}");
}

/// Calls a function of the library with hostile input on a thread of its own, and returns its result.
///
/// # Panics
///
/// If it takes longer than [`TIME_LIMIT`], or panics.
#[track_caller]
pub fn call_limited<T: Send + Debug + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // The receiver is gone only if the test failed.
        let _ = send.send(call());
    });
    match receive.recv_timeout(TIME_LIMIT) {
        Ok(result) => result,
        Err(_) if thread.is_finished() => panic!("the call panicked"),
        Err(_) => panic!("the call takes more than {TIME_LIMIT:?}"),
    }
}
