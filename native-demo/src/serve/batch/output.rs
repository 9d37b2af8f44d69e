//! The files of answers, which grow line by line.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions, TryLockError},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The beginning of the ids of answers.
pub const ID: &str = "batch_req_";

/// The time after which lines are on the disk even if the machine loses power.
const SYNC_TIME: Duration = Duration::from_secs(1);

/// The longest line of answers in bytes that is read again.
const MAX_LINE: u64 = 1 << 30;

/// The requests that earlier runs have answered.
#[derive(Debug, Default)]
pub struct Answered {
    ids: HashSet<String>,
    /// Lines of the input that have no id, or that of another line.
    lines: HashSet<u64>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    custom_id: Option<String>,
}

impl Answered {
    /// Returns whether a request with this id was answered.
    pub fn has_id(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Returns whether an answer says that this line of the input has no id of its own.
    pub fn has_line(&self, number: u64) -> bool {
        self.lines.contains(&number)
    }

    /// Takes note of a line of answers.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn add(&mut self, line: &[u8]) -> Result<()> {
        let entry: Entry = serde_json::from_slice(line)?;
        let number = entry.id.strip_prefix(ID).and_then(|line| line.parse().ok());
        let number = number.with_context(|| format!("{:?} is no id of an answer", entry.id))?;
        match entry.custom_id {
            Some(id) => _ = self.ids.insert(id),
            None => _ = self.lines.insert(number),
        }
        Ok(())
    }
}

/// A file of answers that is open for this run alone.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
    /// When the first line was written that may not be on the disk.
    unsynced: Option<Instant>,
}

impl Output {
    /// Opens or creates a file, drops a last line that was cut off, and takes note of all others.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, another run writes it, or it has a line that is no answer.
    pub fn open(path: &Path, answered: &mut Answered) -> Result<Output> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path);
        let mut file = file.with_context(|| format!("cannot write {shown}"))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => bail!("another `wisp batch` writes {shown}"),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let end = read(&file, answered).with_context(|| format!("cannot continue {shown}"))?;
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.with_context(|| format!("cannot continue {shown}"))?;
        Ok(Output {
            file,
            path: path.into(),
            unsynced: None,
        })
    }

    /// Appends a line, which ends with a line break.
    ///
    /// # Errors
    ///
    /// If it cannot be written; the next run drops the part that was.
    pub fn write(&mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(line.as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.unsynced.get_or_insert_with(Instant::now);
        self.sync_due()
    }

    /// Waits until all lines are on the disk, if the first of them was written a second ago.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn sync_due(&mut self) -> Result<()> {
        match self.unsynced {
            Some(first) if first.elapsed() >= SYNC_TIME => self.sync(),
            _ => Ok(()),
        }
    }

    /// Waits until all lines are on the disk.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn sync(&mut self) -> Result<()> {
        self.unsynced = None;
        let synced = self.file.sync_data();
        synced.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Reads the lines of answers, and returns the end of the last whole one.
fn read(file: &File, answered: &mut Answered) -> Result<u64> {
    let mut reader = BufReader::new(file);
    let (mut end, mut line) = (0, Vec::new());
    for number in 1.. {
        line.clear();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            if read as u64 >= MAX_LINE {
                bail!("line {number} is longer than {MAX_LINE} bytes");
            }
            break;
        }
        let added = answered.add(&line);
        added.with_context(|| format!("line {number} is no answer of this command"))?;
        end += read as u64;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_line_is_dropped_and_the_file_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let whole = "{\"id\":\"batch_req_1\",\"custom_id\":\"a\"}\n";
        let last = "{\"id\":\"batch_req_2\",\"custom_id\":null}\n";
        for cut in 0..last.len() {
            std::fs::write(&path, format!("{whole}{}", &last[..cut])).unwrap();
            let mut answered = Answered::default();
            let mut output = Output::open(&path, &mut answered).unwrap();
            assert!(answered.has_id("a") && !answered.has_line(2), "{cut}");
            output.write(last).unwrap();
            drop(output);
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                format!("{whole}{last}")
            );
        }
        let mut answered = Answered::default();
        let first = Output::open(&path, &mut answered).unwrap();
        assert!(answered.has_line(2));
        let second = Output::open(&path, &mut answered).unwrap_err();
        assert!(second.to_string().contains("another"), "{second}");
        drop(first);
        for wrong in [
            "{}\n",
            "\n",
            "{\"id\":\"x\",\"custom_id\":\"a\"}\n",
            "\0\0\0\n",
        ] {
            std::fs::write(&path, format!("{whole}{wrong}")).unwrap();
            let error = Output::open(&path, &mut answered).unwrap_err();
            assert!(format!("{error:#}").contains("line 2"), "{error:#}");
            // The file stays as it is.
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                format!("{whole}{wrong}")
            );
        }
    }
}
