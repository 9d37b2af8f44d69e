//! Ctrl-C: the first cancels what is under way, the second ends the program.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use wisp_engine::Canceller;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static ALL: AtomicBool = AtomicBool::new(false);
/// What the next Ctrl-C cancels.
static UNDER_WAY: Mutex<Option<Canceller>> = Mutex::new(None);

/// From now on Ctrl-C asks for an end instead of ending the program at once.
pub fn catch() {
    // A second handler is refused, which is no harm: the first stays.
    let _ = ctrlc::set_handler(|| {
        if COUNT.fetch_add(1, Ordering::SeqCst) > 0 && !ALL.load(Ordering::SeqCst) {
            std::process::exit(130);
        }
        let under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(canceller) = &*under_way {
            canceller.cancel();
        }
    });
}

/// The same, and no further one ends the program: it will end soon, and has something to tidy up first.
pub fn catch_all() {
    ALL.store(true, Ordering::SeqCst);
    catch();
}

/// Ctrl-C, once it is caught, cancels this from now on instead of what it cancelled before.
pub fn cancels(canceller: Canceller) {
    if happened() {
        canceller.cancel();
    }
    *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(canceller);
}

/// What Ctrl-C, once it is caught, cancels from now on.
pub fn canceller() -> Canceller {
    let canceller = Canceller::new();
    cancels(canceller.clone());
    canceller
}

/// True if Ctrl-C was pressed.
pub fn happened() -> bool {
    COUNT.load(Ordering::SeqCst) > 0
}

/// Forgets it: the program goes on.
pub fn forget() {
    COUNT.store(0, Ordering::SeqCst);
}
