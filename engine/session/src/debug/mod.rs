//! Debugging of runs: checks of what ops write, values that graphs print, and the log.
//!
//! With everything off, a run costs one more look at a flag.

mod asserts;
mod config;
mod debugger;
mod error;
mod log;
mod print;
pub(crate) mod run;
mod session;
mod steps;

pub use config::{AssertLevel, DebugConfig, LogLevel, PrintOptions, PrintStyle};
pub(crate) use debugger::Debugger;
pub use error::DebugError;
pub(crate) use log::Subject;
