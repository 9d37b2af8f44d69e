//! Standard output and standard error. Everything that the program prints goes through this module, so that
//! no write panics and no control character of a file or a model reaches a terminal.
//!
//! A failed write to standard output is an error with the context [`StdoutFailed`]. A failed write to standard
//! error is ignored, because there is nowhere left to report it.

use std::{
    fmt::{self, Arguments},
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result};

use crate::escape;

/// Writes a line of text to standard output.
macro_rules! print_line {
    ($($arg:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Writes a line to standard error.
macro_rules! message {
    ($($arg:tt)*) => { $crate::output::write_message(format_args!($($arg)*)) };
}

pub(crate) use {message, print_line};

/// The context of an error of standard output.
#[derive(Debug)]
pub struct StdoutFailed;

impl fmt::Display for StdoutFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write to standard output")
    }
}

/// Whether the last character on standard output is not a line break.
static MID_LINE: AtomicBool = AtomicBool::new(false);

/// Writes text for people, with control characters escaped.
pub fn print(text: Arguments<'_>) -> Result<()> {
    write_raw(escape::text(&text.to_string()).as_bytes())
}

/// Writes a piece of generated text at once: as it is to a file or a pipe, escaped to a terminal.
pub fn print_generated(text: &str) -> Result<()> {
    match io::stdout().is_terminal() {
        true => write_raw(escape::text(text).as_bytes())?,
        false => write_raw(text.as_bytes())?,
    }
    flush()
}

/// Writes bytes as they are.
pub fn write_raw(bytes: &[u8]) -> Result<()> {
    if let Some(last) = bytes.last() {
        MID_LINE.store(*last != b'\n', Ordering::Relaxed);
    }
    io::stdout().write_all(bytes).context(StdoutFailed)
}

/// Writes one JSON object.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let object = serde_json::to_string(value)?;
    write_raw(escape::json(&object).as_bytes())?;
    write_raw(b"\n")
}

/// Writes what standard output has buffered.
pub fn flush() -> Result<()> {
    io::stdout().flush().context(StdoutFailed)
}

/// Ends an unfinished line of standard output, so that an error begins on a line of its own.
pub fn end_line() {
    if MID_LINE.swap(false, Ordering::Relaxed) {
        let mut out = io::stdout();
        let _ = out.write_all(b"\n").and_then(|()| out.flush());
    }
}

/// Writes a line to standard error, with control characters escaped. Below unfinished text on a terminal it
/// begins a line of its own.
pub fn write_message(line: Arguments<'_>) {
    let mut text = String::new();
    if io::stdout().is_terminal() && MID_LINE.swap(false, Ordering::Relaxed) {
        text.push('\n');
    }
    text += &escape::text(&line.to_string());
    text.push('\n');
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Returns whether an error means that the reader of standard output closed it, as `head` does.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    error.is::<StdoutFailed>() && kind == Some(io::ErrorKind::BrokenPipe)
}

/// Returns a number with its noun.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The writer of log messages.
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let _ = io::stderr().write_all(escape::text(&text).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_are_in_the_plural_unless_there_is_one() {
        for (count, expected) in [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens")] {
            assert_eq!(counted(count, "token"), expected);
        }
    }
}
