//! The debugging state that a session's models share: settings, and where messages go.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use wisp_compiler::Program;

use super::{
    config::{self, DebugConfig, LogLevel},
    error::DebugError,
};

/// Who is told.
type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// What a session's models look at while they run.
pub(crate) struct Debugger {
    /// The settings, or what is wrong with the variable.
    config: Mutex<Result<DebugConfig, DebugError>>,
    /// Something is to be done in every run.
    on: AtomicBool,
    sink: Mutex<Sink>,
    /// Runs so far, for the names of files.
    runs: AtomicU64,
}

impl fmt::Debug for Debugger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debugger")
            .field("config", &self.config())
            .finish_non_exhaustive()
    }
}

impl Default for Debugger {
    /// As `WISP_DEBUG` says.
    fn default() -> Debugger {
        Debugger::of(&std::env::var(config::VARIABLE).unwrap_or_default())
    }
}

impl Debugger {
    /// One with these settings, which are told to be the variable's if they are wrong.
    fn of(variable: &str) -> Debugger {
        let config = variable.parse();
        let debugger = Debugger {
            config: Mutex::new(Ok(DebugConfig::default())),
            on: AtomicBool::new(false),
            sink: Mutex::new(Arc::new(|line| eprintln!("{line}"))),
            runs: AtomicU64::new(0),
        };
        debugger.set(config.map_err(|error| DebugError::Variable(Box::new(error))));
        debugger
    }

    pub(super) fn set(&self, config: Result<DebugConfig, DebugError>) {
        let on = config.as_ref().map_or(true, |c| c.steps() || c.tells_ops());
        *locked(&self.config) = config;
        self.on.store(on, Ordering::Relaxed);
    }

    /// Changes a part of settings that are right.
    pub(super) fn change(&self, change: impl FnOnce(&mut DebugConfig)) {
        let config = self.config();
        self.set(config.map(|mut config| {
            change(&mut config);
            config
        }));
    }

    pub fn config(&self) -> Result<DebugConfig, DebugError> {
        locked(&self.config).clone()
    }

    /// Tells of something, if that is wanted.
    pub fn log(&self, level: LogLevel, text: impl FnOnce() -> String) {
        let least = self
            .config()
            .map_or(LogLevel::default(), |config| config.log);
        if level >= least {
            self.tell(&format!("{}: {}", level.name(), text()));
        }
    }

    pub(super) fn tell(&self, line: &str) {
        let sink = locked(&self.sink).clone();
        sink(line);
    }

    /// The number of this run, for the names of the files that it writes.
    pub(super) fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends messages elsewhere than to standard error.
    pub(super) fn set_sink(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        *locked(&self.sink) = Arc::new(sink);
    }

    /// True if runs of this program are to be watched.
    pub fn is_on(&self, program: &Program) -> bool {
        self.on.load(Ordering::Relaxed) || !program.prints.is_empty()
    }
}

/// Poisoning is harmless: settings and sinks are replaced whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_wins_over_the_variable() {
        let debugger = Debugger::of("nan-check=7,print-style=full");
        debugger.change(|config| config.log = LogLevel::Info);
        let config = debugger.config().unwrap();
        assert_eq!((config.nan_check, config.log), (7, LogLevel::Info));
        debugger.set(Ok(DebugConfig::default()));
        assert_eq!(debugger.config(), Ok(DebugConfig::default()));

        let debugger = Debugger::of("bogus");
        // A part of settings that are wrong leaves the others wrong; all of them do not.
        debugger.change(|config| config.log = LogLevel::Info);
        let error = debugger.config().unwrap_err().to_string();
        assert!(
            error.starts_with("WISP_DEBUG: the debug setting \"bogus\": there are nan-check"),
            "{error}"
        );
        debugger.set(Ok(DebugConfig::default()));
        assert!(debugger.config().is_ok() && !debugger.on.load(Ordering::Relaxed));
    }
}
