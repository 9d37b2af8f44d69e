//! Ctrl-C: the first ends the generation, the second the program.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static ALL: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C asks for an end instead of ending the program at once.
pub fn catch() {
    // A second handler is refused, which is no harm: the first stays.
    let _ = ctrlc::set_handler(|| {
        if COUNT.fetch_add(1, Ordering::SeqCst) > 0 && !ALL.load(Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
}

/// The same, and no further one ends the program: it will end soon, and has something to tidy up first.
pub fn catch_all() {
    ALL.store(true, Ordering::SeqCst);
    catch();
}

/// True if Ctrl-C was pressed.
pub fn happened() -> bool {
    COUNT.load(Ordering::SeqCst) > 0
}

/// Forgets it: the program goes on.
pub fn forget() {
    COUNT.store(0, Ordering::SeqCst);
}
