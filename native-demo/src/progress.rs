//! Progress: in bars on a terminal, and in lines from time to time where standard error goes elsewhere.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use wisp_engine::pipelines::format_bytes;

use crate::{escape, output::message};

/// The time before the first line. What is done sooner needs none.
const FIRST: Duration = Duration::from_secs(5);

/// The time between two lines.
const INTERVAL: Duration = Duration::from_secs(30);

/// Returns a progress bar, which is hidden without a terminal.
pub fn progress_bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

/// Says when a line about progress is due.
#[derive(Debug)]
pub struct LineTimer {
    /// When the next line is due; `None` on a terminal, which shows a bar.
    next: Option<Instant>,
    has_lines: bool,
}

impl LineTimer {
    /// Begins to wait for the first line.
    pub fn start() -> LineTimer {
        let next = Instant::now() + FIRST;
        LineTimer {
            next: (!io::stderr().is_terminal()).then_some(next),
            has_lines: false,
        }
    }

    /// Returns whether a line is due now. The next one is due some time later.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.next.is_some_and(|next| now >= next);
        if is_due {
            self.next = Some(now + INTERVAL);
            self.has_lines = true;
        }
        is_due
    }

    /// Returns whether any line was due.
    pub fn has_lines(&self) -> bool {
        self.has_lines
    }
}

/// Shows the downloads of files.
#[derive(Debug)]
pub struct Downloads {
    bar: ProgressBar,
    current: Mutex<Option<Download>>,
}

/// The file that is being downloaded.
#[derive(Debug)]
struct Download {
    file: String,
    timer: LineTimer,
    is_complete: bool,
}

impl Downloads {
    /// Creates the bar, which appears with the first download.
    pub fn new() -> Downloads {
        Downloads {
            bar: progress_bar("{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}"),
            current: Mutex::default(),
        }
    }

    /// Shows how many bytes of a file have arrived.
    pub fn show(&self, file: &str, done: u64, total: u64) {
        let name = escape::line(file).into_owned();
        self.bar.set_message(name.clone());
        self.bar.set_length(total);
        self.bar.set_position(done);
        // Poisoning is harmless: the state is only that of messages.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |known: &Download| known.file == file;
        if !current.as_ref().is_some_and(is_known) {
            *current = None;
        }
        let download = current.get_or_insert_with(|| Download {
            file: file.into(),
            timer: LineTimer::start(),
            is_complete: false,
        });
        if download.is_complete || total == 0 {
            return;
        }
        if done >= total {
            download.is_complete = true;
            if download.timer.has_lines() {
                message!("downloaded {name}, {}", format_bytes(total));
            }
        } else if download.timer.is_due() {
            let (done, total) = (format_bytes(done), format_bytes(total));
            message!("downloading {name}: {done} of {total}");
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
