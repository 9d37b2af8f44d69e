//! Ctrl-C: the first cancels the current operation, the second exits the program.

use std::{
    ops::ControlFlow,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use wisp_engine::Canceller;

/// How often Ctrl-C was pressed.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Whether no Ctrl-C exits the program.
static NEVER_EXIT: AtomicBool = AtomicBool::new(false);
/// Cancels the current operation.
static CURRENT: Mutex<Option<Canceller>> = Mutex::new(None);

/// Installs the handler: the first Ctrl-C cancels the current operation, the second exits the program.
pub fn catch() {
    // Installing it again fails, which is harmless: the first handler stays.
    let _ = ctrlc::set_handler(|| {
        if COUNT.fetch_add(1, Ordering::SeqCst) > 0 && !NEVER_EXIT.load(Ordering::SeqCst) {
            std::process::exit(130);
        }
        let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(canceller) = &*current {
            canceller.cancel();
        }
    });
}

/// Installs the handler so that no Ctrl-C exits the program, which ends soon and must clean up first.
pub fn catch_all() {
    NEVER_EXIT.store(true, Ordering::SeqCst);
    catch();
}

/// Makes Ctrl-C cancel this operation from now on. If Ctrl-C was pressed already, cancels it at once.
pub fn cancels(canceller: Canceller) {
    let current = canceller.clone();
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(current);
    // After it is stored, so that no signal falls in between.
    if happened() {
        canceller.cancel();
    }
}

/// Returns a new canceller that Ctrl-C triggers.
pub fn canceller() -> Canceller {
    let canceller = Canceller::new();
    cancels(canceller.clone());
    canceller
}

/// Returns whether Ctrl-C was pressed.
pub fn happened() -> bool {
    COUNT.load(Ordering::SeqCst) > 0
}

/// Returns `Break` if Ctrl-C was pressed.
pub fn or_continue() -> ControlFlow<()> {
    match happened() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Forgets earlier presses of Ctrl-C, so that the program can go on.
pub fn forget() {
    COUNT.store(0, Ordering::SeqCst);
}
