//! The identity of a device.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the devices of a process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(u64);

impl DeviceId {
    pub fn next() -> DeviceId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        DeviceId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
