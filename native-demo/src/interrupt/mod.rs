//! Ctrl-C and the signals that end programs.
//!
//! The first signal cancels the operation that [`begin`] announced; the program then ends in order, with what it
//! has so far. The second signal, or the first one outside an operation, exits at once. No exit leaves a
//! temporary file.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(not(unix), path = "console.rs")]
mod platform;

use std::{
    ops::ControlFlow,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use wisp_engine::{Canceller, files};

pub use platform::{keep_terminal, listen};

use crate::output::message;

/// The number of the signal of Ctrl-C.
const INTERRUPT: u8 = 2;

/// An operation that ends within this time after Ctrl-C needs no explanation.
const MOMENT: Duration = Duration::from_millis(700);

/// The time that an operation has to end after a signal that is not followed by another one.
const GRACE: Duration = Duration::from_millis(1500);

static STATE: Mutex<State> = Mutex::new(State {
    signal: None,
    operation: None,
    operations: 0,
});

struct State {
    /// The first signal that arrived.
    signal: Option<u8>,
    /// The current operation.
    operation: Option<Operation>,
    /// The number of operations so far.
    operations: u64,
}

/// An operation that a signal cancels.
enum Operation {
    Cancellable(Canceller),
    /// A server, which this asks to end. It says so itself, and bounds the time that this takes.
    Server(Box<dyn Fn() + Send>),
}

impl Operation {
    fn cancel(&self) {
        match self {
            Operation::Cancellable(canceller) => canceller.cancel(),
            Operation::Server(ask) => ask(),
        }
    }
}

/// Poisoning is harmless: fields are set whole.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces an operation that a signal cancels. If one has arrived already, cancels it at once.
pub fn begin(canceller: Canceller) {
    begin_operation(Operation::Cancellable(canceller));
}

/// Like [`begin`], for a server, which a signal ends by calling `ask`. The server says itself that it ends, and bounds
/// the time that this takes.
pub fn begin_server(ask: impl Fn() + Send + 'static) {
    begin_operation(Operation::Server(Box::new(ask)));
}

fn begin_operation(operation: Operation) {
    let mut state = state();
    if state.signal.is_some() {
        operation.cancel();
    }
    state.operation = Some(operation);
    state.operations += 1;
}

/// Announces the end of the operation: from now on, a signal exits.
pub fn end() {
    state().operation = None;
}

/// Forgets the signal: it asked the program to end, and the program did so in order.
pub fn handled() {
    state().signal = None;
}

/// Returns the exit status of the signal that arrived: 130 after Ctrl-C.
pub fn status() -> Option<u8> {
    state().signal.map(exit_status)
}

/// Returns whether a signal arrived.
pub fn happened() -> bool {
    state().signal.is_some()
}

/// Returns `Break` if a signal arrived.
pub fn or_continue() -> ControlFlow<()> {
    match happened() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Forgets Ctrl-C, so that the program can go on. Returns false if another signal asks it to end.
pub fn forget() -> bool {
    let mut state = state();
    state.signal = state.signal.filter(|signal| *signal != INTERRUPT);
    state.signal.is_none()
}

/// By convention, 128 and the number of the signal.
fn exit_status(signal: u8) -> u8 {
    128 + signal
}

/// Handles a signal, on the thread that receives them.
fn receive(signal: u8) {
    let mut state = state();
    let is_first = state.signal.is_none();
    state.signal.get_or_insert(signal);
    let Some(operation) = state.operation.as_ref().filter(|_| is_first) else {
        drop(state);
        exit(signal);
    };
    operation.cancel();
    let is_server = matches!(operation, Operation::Server(_));
    let operation = state.operations;
    drop(state);
    if !is_server {
        thread::spawn(move || wait_for_end(operation, signal));
    }
}

/// Explains why an operation still runs after Ctrl-C, or exits after another signal.
fn wait_for_end(operation: u64, signal: u8) {
    let runs = || {
        let state = state();
        state.operation.is_some() && state.operations == operation
    };
    thread::sleep(MOMENT);
    if runs() && signal == INTERRUPT {
        message!("stopping after the current step; press Ctrl-C again to exit at once");
    } else if runs() {
        thread::sleep(GRACE);
        if runs() {
            exit(signal);
        }
    }
}

fn exit(signal: u8) -> ! {
    files::remove_temporaries();
    platform::restore_terminal();
    platform::exit(exit_status(signal))
}
