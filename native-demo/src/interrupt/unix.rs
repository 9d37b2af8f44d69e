//! Signals of Unix, which a thread waits for.

use std::{
    io::stdin,
    sync::{Mutex, PoisonError},
    thread,
};

use nix::{
    libc,
    sys::{
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
    },
};

/// The signals that end a program unless it handles them, other than those of defects.
const ENDING: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGXCPU,
];

/// How the terminal was when [`keep_terminal`] was called.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

/// Blocks the signals in this thread and those that it starts, and receives them on a thread of their own.
/// It must be called before any other thread starts.
///
/// # Errors
///
/// If the system refuses.
pub fn listen() -> std::io::Result<()> {
    let mut set = SigSet::empty();
    // Background jobs of scripts start with Ctrl-C ignored, but `kill -INT` should end them.
    let caught = |signal: &Signal| *signal == Signal::SIGINT || !is_ignored(*signal);
    set.extend(ENDING.into_iter().filter(caught));
    set.thread_block()?;
    // A file that exceeds the limit of its size is an error of the write.
    SigSet::from(Signal::SIGXFSZ).thread_block()?;
    let receive = move || {
        while let Ok(signal) = set.wait() {
            // All of them are below 32.
            super::receive(signal as u8);
        }
    };
    let thread = thread::Builder::new().name("signals".into());
    thread.spawn(receive).map(|_| ())
}

/// Returns whether a signal was ignored when the program started, as SIGHUP is under `nohup`.
fn is_ignored(signal: Signal) -> bool {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the action runs no code, and no thread that could depend on the previous one has started.
    let previous = unsafe { sigaction(signal, &default) };
    let Some(previous) = previous
        .ok()
        .filter(|old| matches!(old.handler(), SigHandler::SigIgn))
    else {
        return false;
    };
    // SAFETY: as above.
    let _ = unsafe { sigaction(signal, &previous) };
    true
}

/// Remembers the state of the terminal, for an exit while a line editor has changed it.
pub fn keep_terminal() {
    *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(stdin()).ok();
}

/// Restores the state that [`keep_terminal`] found.
pub(super) fn restore_terminal() {
    if let Some(state) = &*TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) {
        // Without a terminal there is nothing to restore.
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, state);
    }
}

/// Exits without running destructors, which other threads may still need.
pub(super) fn exit(status: u8) -> ! {
    // SAFETY: it only ends the process.
    unsafe { libc::_exit(status.into()) }
}
