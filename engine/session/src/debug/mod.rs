//! Looking into runs: checks of what ops make, values that graphs print, and what is told of it.
//!
//! With everything off, a run costs one look at a flag more.

mod asserts;
mod config;
mod print;
mod steps;

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub use config::{AssertLevel, DebugConfig, LogLevel, PrintOptions, PrintStyle};

use super::{Dims, InferenceSession, Model, SessionError};
use wisp_device::DeviceError;

/// What debugging finds, or what is wrong with its settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DebugError {
    /// Occurs when a setting is not known, or has another value than it can have.
    #[error("the debug setting {setting:?}: {problem}")]
    Setting {
        /// The setting.
        setting: String,
        /// What is possible.
        problem: String,
    },
    /// Occurs when `WISP_DEBUG` is wrong.
    #[error("WISP_DEBUG: {0}")]
    Variable(Box<DebugError>),
    /// Occurs when the check for them finds NaN or infinity.
    #[error(
        "{model}: {op} made {value}: element {index} of {elements} of {tensor}{}",
        if *.stride > 1 { format!(" (every {stride}th op is looked at, one between may have been the first)") } else { String::new() }
    )]
    NotFinite {
        /// The model.
        model: String,
        /// The op.
        op: String,
        /// The value that it has made.
        tensor: String,
        /// The first such element.
        index: usize,
        /// How many elements there are.
        elements: usize,
        /// `NaN`, `inf` or `-inf`.
        value: String,
        /// How many ops are looked at.
        stride: u32,
    },
    /// Occurs when an op takes a value that another one has left without some of its elements.
    #[error(
        "{model}: {op} reads {tensor}, of which {made_by} has not written element {index} of {elements}"
    )]
    Uninitialised {
        /// The model.
        model: String,
        /// The op that reads it.
        op: String,
        /// The value.
        tensor: String,
        /// The op that has made it.
        made_by: String,
        /// The first element that is not written.
        index: usize,
        /// How many elements there are.
        elements: usize,
    },
    /// Occurs when a kernel is given what it must not be.
    #[error(
        "{model}: {op} ({kernel}): {what} must be below {below}, but number {index} is {value}"
    )]
    Assertion {
        /// The model.
        model: String,
        /// The op.
        op: String,
        /// The kernel.
        kernel: String,
        /// What the numbers are.
        what: &'static str,
        /// Which of them.
        index: usize,
        /// It.
        value: u32,
        /// What it must be less than.
        below: u32,
    },
    /// Occurs when values are to be printed to files and no folder is named.
    #[error("the print style {style} writes files: name a folder for them")]
    NoDirectory {
        /// The style.
        style: &'static str,
    },
    /// Occurs when a file of a printed value cannot be written.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Occurs in a browser, which cannot wait for the device.
    #[error("a browser cannot wait: with debugging, run models by Model::execute")]
    Waits,
}

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

    fn set(&self, config: Result<DebugConfig, DebugError>) {
        let on = config.as_ref().map_or(true, |c| c.steps() || c.tells_ops());
        *locked(&self.config) = config;
        self.on.store(on, Ordering::Relaxed);
    }

    /// Changes a part of settings that are right.
    fn change(&self, change: impl FnOnce(&mut DebugConfig)) {
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

    fn tell(&self, line: &str) {
        let sink = locked(&self.sink).clone();
        sink(line);
    }

    /// True if something is to be done while this model runs.
    pub fn is_on(&self, model: &Model) -> bool {
        self.on.load(Ordering::Relaxed) || !model.program().prints.is_empty()
    }

    /// Runs a model and looks at what it does.
    pub async fn run(&self, model: &Model, dims: &Dims) -> Result<(), SessionError> {
        let config = self.config()?;
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let prepared = model.prepared(dims)?;
        let done = steps::run(self, &config, model, &prepared).await;
        if let Err(error) = &done {
            self.log(weight(error), || error.to_string());
        }
        done?;
        print::all(self, &config.print, model, dims, run).await
    }
}

#[cfg(target_arch = "wasm32")]
impl Debugger {
    /// What is to be done in a run needs answers of the device, for which nothing can wait here.
    pub fn cannot_wait(&self) -> Result<(), SessionError> {
        self.config()?;
        Err(DebugError::Waits.into())
    }
}

/// How much it matters that a run failed.
fn weight(error: &SessionError) -> LogLevel {
    let device = match error {
        SessionError::Device(device) => Some(device),
        SessionError::InOp { source, .. } => Some(&**source),
        _ => None,
    };
    match device {
        Some(DeviceError::Lost { .. }) => LogLevel::Critical,
        _ => LogLevel::Error,
    }
}

/// Whoever panicked with the lock left whole settings.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InferenceSession {
    /// What is checked, told and printed while the session's models run.
    ///
    /// # Errors
    ///
    /// If `WISP_DEBUG` is wrong and nothing else was set.
    pub fn debug_config(&self) -> Result<DebugConfig, DebugError> {
        self.debugger.config()
    }

    /// Checks, tells and prints as this says from now on, whatever `WISP_DEBUG` says. In a browser checks
    /// work through [`Model::execute`] only.
    ///
    /// ```
    /// use wisp_engine::{
    ///     device::Device,
    ///     graph::{DType, Graph, Unary},
    ///     session::{DebugConfig, InferenceSession, InitOptions, Tensor},
    ///     shape,
    ///     weights::MemoryWeights,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut graph = Graph::new("roots");
    /// let x = graph.input("x", DType::F32, shape![2u64]);
    /// let root = graph.unary(Unary::Sqrt, x)?;
    /// let shown = graph.print(root, "the roots")?;
    /// graph.output("root", shown);
    /// let session = InferenceSession::new(Device::host(1)?);
    /// session.set_debug_config(DebugConfig { nan_check: 1, ..Default::default() });
    /// let model = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
    /// let x = Tensor::f32(&[2], &[4.0, -4.0]).ok_or("two numbers")?;
    /// let error = pollster::block_on(model.execute(&[&x])).unwrap_err().to_string();
    /// assert_eq!(error, "roots: sqrt made NaN: element 1 of 2 of sqrt.0");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_debug_config(&self, config: DebugConfig) {
        self.debugger.set(Ok(config));
    }

    /// Shows what graphs print as this says from now on: how much, with how many digits after the point,
    /// and, where it goes to files, in which folder.
    ///
    /// # Errors
    ///
    /// If a style that writes files has no folder.
    pub fn set_debug_print_options(
        &self,
        style: PrintStyle,
        precision: usize,
        output_directory: Option<PathBuf>,
    ) -> Result<(), DebugError> {
        let options = PrintOptions {
            style,
            precision,
            output_directory,
        };
        print::folder(&options)?;
        self.debugger.change(|config| config.print = options);
        Ok(())
    }

    /// Checks kernels for more or less: the bounds of their memory in models that are initialised from
    /// now on, their assertions from the next run.
    pub fn set_shader_assert_level(&self, level: AssertLevel) {
        self.debugger.change(|config| config.asserts = level);
    }

    /// Tells more or less of what kernels do from now on.
    pub fn set_shader_log_level(&self, level: LogLevel) {
        self.debugger.change(|config| config.log = level);
    }

    /// Sends what is told and printed, line by line, elsewhere than to standard error.
    pub fn set_debug_sink(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        *locked(&self.debugger.sink) = Arc::new(sink);
    }
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
