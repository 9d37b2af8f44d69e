//! The debugging state that a session's models share: settings, and where messages go.

use std::{
    fmt,
    io::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use wisp_compiler::Program;

use super::{
    config::{self, DebugConfig, LogLevel},
    error::DebugError,
    log::{self, Subject},
};

/// Where lines go instead of standard error.
type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// The debug settings and the sink of a session's models.
pub(crate) struct Debugger {
    /// The settings, or the error of the variable.
    config: Mutex<Result<DebugConfig, DebugError>>,
    /// True if the settings affect every run.
    on: AtomicBool,
    /// `None`: standard error.
    sink: Mutex<Option<Sink>>,
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
    /// The settings in `WISP_DEBUG`.
    fn default() -> Debugger {
        Debugger::of(&std::env::var(config::VARIABLE).unwrap_or_default())
    }
}

impl Debugger {
    /// The settings in this text; an error names the variable.
    fn of(variable: &str) -> Debugger {
        let config = variable.parse();
        let debugger = Debugger {
            config: Mutex::new(Ok(DebugConfig::default())),
            on: AtomicBool::new(false),
            sink: Mutex::default(),
            runs: AtomicU64::new(0),
        };
        debugger.set(config.map_err(|error| DebugError::Variable(Box::new(error))));
        debugger
    }

    pub(super) fn set(&self, config: Result<DebugConfig, DebugError>) {
        let on = config.as_ref().map_or(true, |c| c.steps() || c.logs_ops());
        *locked(&self.config) = config;
        self.on.store(on, Ordering::Relaxed);
    }

    /// Changes some settings, unless the variable is wrong.
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

    /// Logs a message to the sink, if the session's level includes it, and to the `tracing` subscriber,
    /// if that takes it. A session's level above the default silences both.
    pub fn log(&self, level: LogLevel, subject: Subject<'_>, text: impl FnOnce() -> String) {
        let config = self.config();
        let least = config.map_or(LogLevel::default(), |config| config.log);
        let to_sink = level >= least;
        let traced = log::is_enabled(level) && (to_sink || least <= LogLevel::default());
        if to_sink || traced {
            self.send(
                level,
                subject,
                to_sink.then_some(level.name()),
                traced,
                &text(),
            );
        }
    }

    /// Logs a kernel call of a run: to the sink if the settings ask for it, and to the `tracing`
    /// subscriber at the level `TRACE`.
    pub(super) fn log_op(&self, to_sink: bool, subject: Subject<'_>, text: &str) {
        let traced = log::is_enabled(LogLevel::Trace);
        self.send(
            LogLevel::Trace,
            subject,
            to_sink.then_some("op"),
            traced,
            text,
        );
    }

    /// Sends a message to the sink with a prefix, to the subscriber, or to both. Standard error is left
    /// to a subscriber that takes the message, so that it is not there twice.
    fn send(
        &self,
        level: LogLevel,
        subject: Subject<'_>,
        prefix: Option<&str>,
        traced: bool,
        text: &str,
    ) {
        if traced {
            log::emit(level, subject, text);
        }
        if let Some(prefix) = prefix
            && !(traced && locked(&self.sink).is_none())
        {
            self.write_line(&format!("{prefix}: {text}"));
        }
    }

    /// Writes a line to the sink.
    pub(super) fn write_line(&self, line: &str) {
        let sink = locked(&self.sink).clone();
        match sink {
            Some(sink) => sink(line),
            // A closed standard error is no reason to stop.
            None => _ = writeln!(std::io::stderr(), "{line}"),
        }
    }

    /// The number of this run, for the names of the files that it writes.
    pub(super) fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends messages elsewhere than to standard error.
    pub(super) fn set_sink(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        *locked(&self.sink) = Some(Arc::new(sink));
    }

    /// True if runs of this program need checks, the op log or prints.
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
    fn calls_override_the_variable() {
        let debugger = Debugger::of("nan-check=7,print-style=full");
        debugger.change(|config| config.log = LogLevel::Info);
        let config = debugger.config().unwrap();
        assert_eq!((config.nan_check, config.log), (7, LogLevel::Info));
        debugger.set(Ok(DebugConfig::default()));
        assert_eq!(debugger.config(), Ok(DebugConfig::default()));

        let debugger = Debugger::of("bogus");
        // A change of one setting keeps the error; setting all of them clears it.
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
