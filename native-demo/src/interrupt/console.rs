//! Ctrl-C of a Windows console.

use std::io;

/// Receives Ctrl-C on a thread of its own.
///
/// # Errors
///
/// If the system refuses.
pub fn listen() -> io::Result<()> {
    ctrlc::set_handler(|| super::receive(super::INTERRUPT)).map_err(io::Error::other)
}

/// The line editor restores the console itself.
pub fn keep_terminal() {}

pub(super) fn restore_terminal() {}

pub(super) fn exit(status: u8) -> ! {
    std::process::exit(status.into())
}
