//! Bytes on their way from the program to the device.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Bytes on their way to the device after which an upload waits, so that staging memory stays small.
const UPLOAD_WINDOW: u64 = 8 << 20;

/// Counts the bytes that were written to a device's memory and those that have arrived. Cloning shares the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Uploads(Arc<Counts>);

/// Both only grow, so that one waiter's late news takes nothing back.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    arrived: AtomicU64,
}

impl Uploads {
    /// Counts bytes that were handed to the queue. Returns true if the caller should wait for their arrival.
    pub fn add(&self, bytes: u64) -> bool {
        let written = self.0.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let arrived = self.0.arrived.load(Ordering::Relaxed);
        written.saturating_sub(arrived) >= UPLOAD_WINDOW
    }

    /// Returns the bytes written so far. The next submission takes them all to the device.
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Notes that a submission has run which came after the first `written` bytes.
    pub fn note_arrival(&self, written: u64) {
        self.0.arrived.fetch_max(written, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_wait_after_each_window() {
        let uploads = Uploads::default();
        let mut waits = Vec::new();
        for chunk in 1..=24 {
            if uploads.add(1 << 20) {
                waits.push(chunk);
                uploads.note_arrival(uploads.written());
            }
        }
        assert_eq!(waits, [8, 16, 24]);
    }

    #[test]
    fn small_writes_between_reads_never_wait() {
        let uploads = Uploads::default();
        let mut in_flight = 0;
        for _ in 0..1000 {
            assert!(!uploads.add(100 << 10));
            let submitted = uploads.written();
            // The read of the step before, while this one runs.
            uploads.note_arrival(in_flight);
            in_flight = submitted;
        }
    }

    #[test]
    fn late_news_of_an_arrival_takes_nothing_back() {
        let uploads = Uploads::default();
        uploads.add(UPLOAD_WINDOW / 2);
        let early = uploads.written();
        assert!(uploads.add(UPLOAD_WINDOW / 2));
        uploads.note_arrival(uploads.written());
        uploads.note_arrival(early);
        assert!(!uploads.add(UPLOAD_WINDOW - 1));
        assert!(uploads.add(1));
    }
}
