//! Progress of transfers.

use std::ops::ControlFlow;

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The file's path in its repository; the repository's name while its list of files is read.
    pub file: &'a str,
    /// Bytes received so far, including those of earlier attempts.
    pub done: u64,
    /// The file's size in bytes; 0 if it is not known.
    pub total: u64,
}

/// A callback that is called several times a second during a transfer. `Break` cancels the
/// transfer; the bytes received so far are kept, and the next attempt continues from there.
pub type OnTransfer<'a> = &'a dyn Fn(Transfer<'_>) -> ControlFlow<()>;

/// The callback that ignores progress and never cancels.
pub fn ignore_progress(_: Transfer<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
