//! The bytes that a device has allocated, now and at most so far.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts the bytes of a device's buffers.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Ledger {
    /// Counts an allocation until the returned entry is dropped.
    pub fn enter(self: &Arc<Ledger>, bytes: u64) -> Entry {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
        Entry {
            ledger: self.clone(),
            bytes,
        }
    }

    /// Bytes allocated now, and at most so far.
    pub fn bytes(&self) -> (u64, u64) {
        let count = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        (count(&self.now), count(&self.peak))
    }
}

/// One buffer in a ledger.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.now.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_outlives_dropped_entries() {
        let ledger = Arc::new(Ledger::default());
        let first = ledger.enter(100);
        drop(ledger.enter(50));
        let _second = ledger.enter(20);
        assert_eq!(ledger.bytes(), (120, 150));
        drop(first);
        assert_eq!(ledger.bytes(), (20, 150));
    }
}
