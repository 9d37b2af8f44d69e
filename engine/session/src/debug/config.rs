//! The debug settings of a session and their text form.

use std::{path::PathBuf, str::FromStr};

use wisp_types::{UnknownChoice, choices};

use super::error::DebugError;

/// The environment variable with the initial settings of sessions.
pub(super) const VARIABLE: &str = "WISP_DEBUG";

choices! {
    /// The format of values that a graph prints ([`Graph::print`](wisp_graph::Graph::print)).
    #[derive(Default)]
    PrintStyle, "print style" {
        /// Text with both ends of long dimensions.
        #[default]
        Compact = "compact",
        /// Text with every element.
        Full = "full",
        /// A binary file of the elements, little-endian, for each value.
        Binary = "binary",
        /// A safetensors file for each value, with its label, type and shape.
        BinaryCheckpoint = "binary-checkpoint",
        /// Nothing.
        None = "none",
    }
}

choices! {
    /// The checks of kernels while they run.
    #[derive(Default)]
    AssertLevel, "assert level" {
        /// None for programs that this process has compiled. Programs from files, and kernels of custom
        /// ops, always have bounds checks.
        #[default]
        None = "none",
        /// As `All`, but a violated assertion is logged as a warning and the run continues.
        Warn = "warn",
        /// Bounds checks of every memory access.
        Safe = "safe",
        /// Bounds checks, and assertions about the operands of each kernel before it runs; a violation is
        /// an error.
        All = "all",
    }
}

choices! {
    /// The least level of messages that a session writes to its sink. A level above `Warning` also hides
    /// messages from `tracing` subscribers.
    #[derive(Default)]
    LogLevel, "log level" {
        /// Each kernel that runs.
        Trace = "trace",
        /// Each pipeline that is created.
        Debug = "debug",
        /// Each model that is initialised.
        Info = "info",
        /// Violated assertions.
        #[default]
        Warning = "warning",
        /// Runs that fail.
        Error = "error",
        /// Lost devices.
        Critical = "critical",
    }
}

/// The format and destination of values that a graph prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// How values are written: as text, or as binary files.
    pub style: PrintStyle,
    /// Digits after the decimal point.
    pub precision: usize,
    /// The folder for the files of binary styles, which need one.
    pub output_directory: Option<PathBuf>,
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions {
            style: PrintStyle::default(),
            precision: 6,
            output_directory: None,
        }
    }
}

/// What a session checks, logs and prints while its models run. The default checks nothing and costs
/// nothing; any check runs ops one by one and waits for each.
///
/// `WISP_DEBUG` has the same settings as text, with commas between them:
///
/// ```
/// use wisp_session::{AssertLevel, DebugConfig, PrintStyle};
///
/// let config: DebugConfig = "nan-check=4,sync,print-style=full,assert=all".parse()?;
/// assert_eq!((config.nan_check, config.synchronous), (4, true));
/// assert_eq!((config.print.style, config.asserts), (PrintStyle::Full, AssertLevel::All));
/// let error = "nan".parse::<DebugConfig>().unwrap_err().to_string();
/// assert!(error.contains("there are nan-check[=STRIDE], uninitialised"));
/// # Ok::<(), wisp_session::DebugError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugConfig {
    /// Checks the results of every n-th op for NaN and infinity; 0 checks none.
    pub nan_check: u32,
    /// Reports ops that read a result of which an earlier op left elements unwritten.
    pub uninitialised: bool,
    /// Waits for each kernel, so that an error names its op.
    pub synchronous: bool,
    /// Logs each kernel call.
    pub op_log: bool,
    /// The format of printed values.
    pub print: PrintOptions,
    /// The checks of kernels. Bounds checks apply to models that are initialised afterwards.
    pub asserts: AssertLevel,
    /// The least level of messages.
    pub log: LogLevel,
}

/// Every setting with its value.
const SETTINGS: &str = "nan-check[=STRIDE], uninitialised, sync, op-log, print-style=STYLE, \
                        print-precision=DIGITS, print-directory=FOLDER, assert=LEVEL, log=LEVEL";

impl FromStr for DebugConfig {
    type Err = DebugError;

    fn from_str(text: &str) -> Result<DebugConfig, DebugError> {
        let mut config = DebugConfig::default();
        for setting in text.split(',').map(str::trim) {
            let (name, value) = match setting.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim())),
                None => (setting, None),
            };
            config
                .set(name, value)
                .map_err(|problem| DebugError::Setting {
                    setting: setting.into(),
                    problem,
                })?;
        }
        Ok(config)
    }
}

/// Parses a choice, in which case does not matter and `_` is as good as `-`.
fn choice<T: FromStr<Err = UnknownChoice>>(value: Option<&str>) -> Result<T, String> {
    let name = value.unwrap_or_default().to_ascii_lowercase();
    let chosen = name.replace('_', "-").parse::<T>();
    chosen.map_err(|error| error.to_string())
}

fn whole<T: FromStr>(value: &str, what: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{what} must be a whole number"))
}

impl DebugConfig {
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let flag = match value {
            None => Ok(true),
            Some(_) => Err(format!("{name} takes no value")),
        };
        match name {
            // An empty setting, as in a list that ends with a comma.
            "" if value.is_none() => {}
            "nan-check" => self.nan_check = whole(value.unwrap_or("1"), "the stride")?,
            "uninitialised" | "uninitialized" => self.uninitialised = flag?,
            "sync" => self.synchronous = flag?,
            "op-log" => self.op_log = flag?,
            "print-style" => self.print.style = choice(value)?,
            "print-precision" => {
                self.print.precision = whole(value.unwrap_or_default(), "the precision")?;
            }
            "print-directory" => match value {
                Some(folder) if !folder.is_empty() => {
                    self.print.output_directory = Some(folder.into());
                }
                _ => return Err("a folder is expected".into()),
            },
            "assert" => self.asserts = choice(value)?,
            "log" => self.log = choice(value)?,
            _ => return Err(format!("there are {SETTINGS}")),
        }
        Ok(())
    }

    /// True if ops must run one by one.
    pub(super) fn steps(&self) -> bool {
        self.nan_check > 0 || self.uninitialised || self.synchronous || self.asserts()
    }

    /// True if assertions of kernels are checked.
    pub(super) fn asserts(&self) -> bool {
        matches!(self.asserts, AssertLevel::Warn | AssertLevel::All)
    }

    /// True if every kernel call goes to the sink.
    pub(super) fn logs_ops(&self) -> bool {
        self.op_log || self.log == LogLevel::Trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_parsed() {
        let text = "nan-check=3,uninitialized, sync,op-log,print-style=Binary_Checkpoint,\
                    print-precision=2,print-directory=here,assert=warn,log=critical,";
        let expected = DebugConfig {
            nan_check: 3,
            uninitialised: true,
            synchronous: true,
            op_log: true,
            print: PrintOptions {
                style: PrintStyle::BinaryCheckpoint,
                precision: 2,
                output_directory: Some("here".into()),
            },
            asserts: AssertLevel::Warn,
            log: LogLevel::Critical,
        };
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!("".parse(), Ok(DebugConfig::default()));
        assert_eq!("nan-check".parse::<DebugConfig>().unwrap().nan_check, 1);
    }

    #[test]
    fn wrong_settings_are_refused_with_the_possible_ones() {
        for (text, expected) in [
            ("sync,fast", format!("the debug setting \"fast\": there are {SETTINGS}")),
            ("sync=1", "the debug setting \"sync=1\": sync takes no value".into()),
            ("nan-check=-1", "the debug setting \"nan-check=-1\": the stride must be a whole number".into()),
            (
                "print-style=nice",
                "the debug setting \"print-style=nice\": unknown print style \"nice\": use compact, full, binary, binary-checkpoint or none".into(),
            ),
            ("assert", "the debug setting \"assert\": unknown assert level \"\": use none, warn, safe or all".into()),
            (
                "log=loud",
                "the debug setting \"log=loud\": unknown log level \"loud\": use trace, debug, info, warning, error or critical".into(),
            ),
            ("print-directory=", "the debug setting \"print-directory=\": a folder is expected".into()),
            ("print-precision", "the debug setting \"print-precision\": the precision must be a whole number".into()),
        ] {
            assert_eq!(text.parse::<DebugConfig>().unwrap_err().to_string(), expected);
        }
    }
}
