//! The time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in seconds of Unix time.
pub fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}
