//! The files of answers, which grow line by line.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions, TryLockError},
    io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, de::IgnoredAny};
use wisp_engine::files;

/// The beginning of the ids of answers.
pub const ID: &str = "batch_req_";

/// The time after which lines are on the disk even if the machine loses power.
const SYNC_TIME: Duration = Duration::from_secs(1);

/// The longest line of answers in bytes that is read again.
const MAX_LINE: u64 = 1 << 30;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered with a status of success.
    Answered,
    /// Its line is no request, or it was answered with an error.
    Failed,
}

/// The requests that have a line of earlier runs.
#[derive(Debug, Default)]
pub struct Earlier {
    ids: HashMap<String, Outcome>,
    /// Lines of the input that have no id, or that of another line.
    lines: HashMap<u64, Outcome>,
}

/// A line of answers, as far as it is read again.
#[derive(Deserialize)]
struct Entry {
    id: String,
    custom_id: Option<String>,
    response: Option<EntryResponse>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct EntryResponse {
    status_code: u16,
}

impl Entry {
    fn outcome(&self) -> Outcome {
        let status = self.response.as_ref().map(|response| response.status_code);
        let has_succeeded = status.is_none_or(|status| (200..300).contains(&status));
        match has_succeeded && self.error.is_none() {
            true => Outcome::Answered,
            false => Outcome::Failed,
        }
    }
}

impl Earlier {
    /// Returns what became of the request with this id; `None` if it has no line.
    pub fn of_id(&self, id: &str) -> Option<Outcome> {
        self.ids.get(id).copied()
    }

    /// Returns what became of a line of the input that has no id of its own; `None` if no answer says that it has none.
    pub fn of_line(&self, number: u64) -> Option<Outcome> {
        self.lines.get(&number).copied()
    }

    /// Forgets the requests that failed, so that they are answered again.
    pub fn forget_failed(&mut self) {
        self.ids.retain(|_, outcome| *outcome == Outcome::Answered);
        self.lines
            .retain(|_, outcome| *outcome == Outcome::Answered);
    }

    /// Takes note of a line of answers, and returns what became of its request.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn add(&mut self, line: &[u8]) -> Result<Outcome> {
        let entry: Entry = serde_json::from_slice(line)?;
        let outcome = entry.outcome();
        let number = entry.id.strip_prefix(ID).and_then(|line| line.parse().ok());
        let number = number.with_context(|| format!("{:?} is no id of an answer", entry.id))?;
        let known = match entry.custom_id {
            Some(id) => self.ids.entry(id).or_insert(outcome),
            None => self.lines.entry(number).or_insert(outcome),
        };
        // It may have failed in one file and have an answer in the other.
        if outcome == Outcome::Answered {
            *known = outcome;
        }
        Ok(outcome)
    }
}

/// A file of answers that is open for this run alone.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
    /// Whether it has lines of requests that failed in earlier runs.
    has_failed: bool,
    /// When the first line was written that may not be on the disk.
    unsynced: Option<Instant>,
}

impl Output {
    /// Opens or creates a file, drops a last line that was cut off, and takes note of all others.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, another run writes it, or it has a line that is no answer.
    pub fn open(path: &Path, earlier: &mut Earlier) -> Result<Output> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path);
        let mut file = file.with_context(|| format!("cannot write {shown}"))?;
        let mut has_failed = false;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => bail!("another `wisp batch` writes {shown}"),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let continued = || format!("cannot continue {shown}");
        let end = read(&file, |line| {
            has_failed |= earlier.add(line)? == Outcome::Failed;
            Ok(())
        });
        let end = end.with_context(continued)?;
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.with_context(continued)?;
        Ok(Output {
            file,
            path: path.into(),
            has_failed,
            unsynced: None,
        })
    }

    /// Replaces the file, in one step, by one without the lines of requests that failed, if it has any.
    ///
    /// # Errors
    ///
    /// If the new file cannot be written; the old one then stays.
    pub fn without_failed(self) -> Result<Output> {
        if !self.has_failed {
            return Ok(self);
        }
        let file = without_failed(self.file, &self.path);
        Ok(Output {
            file: file.with_context(|| format!("cannot continue {}", self.path.display()))?,
            has_failed: false,
            ..self
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

fn without_failed(file: File, path: &Path) -> Result<File> {
    let path = path.canonicalize()?;
    // A signal removes it.
    let kept = files::temporary_file(&path, 0o666)?;
    let mut out = BufWriter::new(kept.as_file());
    let mut earlier = Earlier::default();
    read(&file, |line| {
        if earlier.add(line)? == Outcome::Answered {
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    out.flush()?;
    drop(out);
    kept.as_file()
        .set_permissions(file.metadata()?.permissions())?;
    kept.as_file().sync_all()?;
    // Some file systems have no locks, and on others it has one already.
    let _ = kept.as_file().try_lock();
    drop(file);
    Ok(kept.persist(path)?)
}

/// Passes on the whole lines of a file of answers, without their line breaks, and returns the end of the last one.
fn read(mut file: &File, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    file.rewind()?;
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
        take(&line).with_context(|| format!("line {number} is no answer of this command"))?;
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
            let mut earlier = Earlier::default();
            let mut output = Output::open(&path, &mut earlier).unwrap();
            assert_eq!(earlier.of_id("a"), Some(Outcome::Answered), "{cut}");
            assert_eq!(earlier.of_line(2), None, "{cut}");
            output.write(last).unwrap();
            drop(output);
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                format!("{whole}{last}")
            );
        }
        let mut earlier = Earlier::default();
        let first = Output::open(&path, &mut earlier).unwrap();
        assert!(earlier.of_line(2).is_some());
        let second = Output::open(&path, &mut earlier).unwrap_err();
        assert!(second.to_string().contains("another"), "{second}");
        drop(first);
        for wrong in [
            "{}\n",
            "\n",
            "{\"id\":\"x\",\"custom_id\":\"a\"}\n",
            "\0\0\0\n",
        ] {
            std::fs::write(&path, format!("{whole}{wrong}")).unwrap();
            let error = Output::open(&path, &mut earlier).unwrap_err();
            assert!(format!("{error:#}").contains("line 2"), "{error:#}");
            // The file stays as it is.
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                format!("{whole}{wrong}")
            );
        }
    }

    #[test]
    fn lines_of_failed_requests_are_known_and_left_out_for_a_retry() {
        let line = |number: u64, status: u16, error: &str| {
            format!(
                "{{\"id\":\"batch_req_{number}\",\"custom_id\":\"r{number}\",\
                 \"response\":{{\"status_code\":{status},\"body\":{{}}}},\"error\":{error}}}\n"
            )
        };
        let bad = "{\"id\":\"batch_req_4\",\"custom_id\":null,\"response\":null,\"error\":{}}\n";
        let good = [line(1, 200, "null"), line(3, 201, "null")];
        let failed = line(2, 400, "null");
        let text = [&*good[0], &failed, &good[1], bad];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        std::fs::write(&path, text.concat() + "{\"id\"").unwrap();
        let mut earlier = Earlier::default();
        let output = Output::open(&path, &mut earlier).unwrap();
        assert_eq!(earlier.of_id("r1"), Some(Outcome::Answered));
        assert_eq!(earlier.of_id("r2"), Some(Outcome::Failed));
        assert_eq!(earlier.of_line(4), Some(Outcome::Failed));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text.concat());
        earlier.forget_failed();
        let mut output = output.without_failed().unwrap();
        assert_eq!(earlier.of_id("r3"), Some(Outcome::Answered));
        assert_eq!((earlier.of_id("r2"), earlier.of_line(4)), (None, None));
        let new = line(2, 200, "null");
        output.write(&new).unwrap();
        let expected = good.concat() + &new;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        // It has a lock too, and no copy is left.
        let second = Output::open(&path, &mut Earlier::default()).unwrap_err();
        assert!(second.to_string().contains("another"), "{second}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
