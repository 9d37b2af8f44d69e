//! The lines of the input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    thread,
};

use anyhow::{Context, Result};
use tokio::sync::mpsc::{self, Receiver};

use crate::commands::STDIN;

/// Lines that wait to be answered before no more are read.
const QUEUE: usize = 8;

/// The bytes with which editors begin a file to say that it is in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line of the input.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, counted from 1.
    pub number: u64,
    /// Its bytes without the line break; `None` if they exceed the limit.
    pub bytes: Option<Vec<u8>>,
}

/// The lines of a file, each of which is read when it is asked for.
pub struct Lines<R> {
    reader: R,
    number: u64,
    /// The longest line in bytes.
    limit: usize,
}

impl Lines<Box<dyn BufRead + Send>> {
    /// Opens a file, or standard input for [`STDIN`].
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn open(path: &Path, limit: usize) -> Result<Self> {
        let reader: Box<dyn BufRead + Send> = match path == Path::new(STDIN) {
            true => Box::new(BufReader::new(io::stdin())),
            false => {
                let file = File::open(path);
                let file = file.with_context(|| format!("cannot read {}", path.display()))?;
                Box::new(BufReader::new(file))
            }
        };
        Ok(Lines::new(reader, limit))
    }

    /// Reads the lines on a thread of its own, because the next line of a pipe may take for ever. The channel ends with
    /// the file, or with an error.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub fn read_ahead(mut self) -> io::Result<Receiver<io::Result<Line>>> {
        let (sender, lines) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new().name("input".into());
        thread.spawn(move || {
            while let Some(line) = self.next().transpose() {
                let is_last = line.is_err();
                if sender.blocking_send(line).is_err() || is_last {
                    break;
                }
            }
        })?;
        Ok(lines)
    }
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R, limit: usize) -> Lines<R> {
        Lines {
            reader,
            number: 0,
            limit,
        }
    }

    /// Returns the next line that is not blank; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            self.number += 1;
            let mut bytes = Vec::new();
            let most = (self.limit as u64).saturating_add(1);
            let read = (&mut self.reader)
                .take(most)
                .read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(None);
            }
            let number = self.number;
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
            } else if bytes.len() > self.limit {
                self.skip_line()?;
                return Ok(Some(Line {
                    number,
                    bytes: None,
                }));
            }
            if number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            if !bytes.trim_ascii().is_empty() {
                let bytes = Some(bytes);
                return Ok(Some(Line { number, bytes }));
            }
        }
    }

    /// Skips the rest of a line.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let part = self.reader.fill_buf()?;
            if part.is_empty() {
                return Ok(());
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let read = end.map_or(part.len(), |end| end + 1);
            self.reader.consume(read);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

/// Returns the number of requests in a file; `None` for standard input and pipes, which can be read once only.
pub fn count(path: &Path, limit: usize) -> Option<u64> {
    if path == Path::new(STDIN) || !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut lines = Lines::open(path, limit).ok()?;
    let mut count = 0;
    while lines.next().ok()?.is_some() {
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_long_ones_are_skipped() {
        for (text, expected) in [
            ("a\nbc\n", &[(1, Some("a")), (2, Some("bc"))][..]),
            ("a\n\n \r\nbc", &[(1, Some("a")), (4, Some("bc"))]),
            (
                "abcd\nefghi\nj",
                &[(1, Some("abcd")), (2, None), (3, Some("j"))],
            ),
            ("abcdefghijklmnop", &[(1, None)]),
            ("abcd\r\n", &[(1, None)]),
            (
                "\u{feff}a\n\u{feff}",
                &[(1, Some("a")), (2, Some("\u{feff}"))],
            ),
            ("\u{feff}\nb", &[(2, Some("b"))]),
            ("", &[]),
        ] {
            let mut lines = Lines::new(BufReader::with_capacity(3, text.as_bytes()), 4);
            let mut found = Vec::new();
            while let Some(line) = lines.next().unwrap() {
                let bytes = line.bytes.map(|bytes| String::from_utf8(bytes).unwrap());
                found.push((line.number, bytes));
            }
            let expected: Vec<_> = expected
                .iter()
                .map(|(number, text)| (*number, text.map(String::from)))
                .collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
