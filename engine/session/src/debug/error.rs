//! What debugging finds.

use std::path::PathBuf;

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
