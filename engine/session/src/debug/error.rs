//! What debugging finds.

use std::path::PathBuf;

/// A finding of a debug check, or a wrong setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DebugError {
    /// Occurs when a setting is unknown or has a wrong value.
    #[error("the debug setting {setting:?}: {problem}")]
    Setting {
        /// The text of the setting, as the user gave it.
        setting: String,
        /// The possible settings or values.
        problem: String,
    },
    /// Occurs when `WISP_DEBUG` has a wrong setting.
    #[error("WISP_DEBUG: {0}")]
    Variable(Box<DebugError>),
    /// Occurs when the NaN check finds NaN or infinity.
    #[error(
        "{model}: {op} made {value}: element {index} of {elements} of {tensor}{}",
        if *.stride > 1 { format!(" (every {stride}th op is looked at, one between may have been the first)") } else { String::new() }
    )]
    NotFinite {
        /// The name of the model's graph.
        model: String,
        /// The label of the op's kernel call: the op, and its weight if it has one.
        op: String,
        /// The result of the op.
        tensor: String,
        /// The first such element.
        index: usize,
        /// The number of elements.
        elements: usize,
        /// `NaN`, `inf` or `-inf`.
        value: String,
        /// Every how many ops a result is checked.
        stride: u32,
    },
    /// Occurs when an op reads a result of which another op left elements unwritten.
    #[error(
        "{model}: {op} reads {tensor}, of which {made_by} has not written element {index} of {elements}"
    )]
    Uninitialised {
        /// The name of the model's graph.
        model: String,
        /// The op that reads it.
        op: String,
        /// The name of the result in the graph.
        tensor: String,
        /// The op that should have written it.
        made_by: String,
        /// The first unwritten element.
        index: usize,
        /// The number of elements.
        elements: usize,
    },
    /// Occurs when an operand violates an assertion of its kernel.
    #[error(
        "{model}: {op} ({kernel}): {what} must be below {below}, but number {index} is {value}"
    )]
    Assertion {
        /// The name of the model's graph.
        model: String,
        /// The label of the op's kernel call: the op, and its weight if it has one.
        op: String,
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// What the values are.
        what: &'static str,
        /// The index of the value.
        index: usize,
        /// The operand's element that violates the assertion.
        value: u32,
        /// The bound that it must be below.
        below: u32,
    },
    /// Occurs when a print style writes files, but no folder is set.
    #[error("the print style {style} writes files: name a folder for them")]
    NoDirectory {
        /// The name of the print style, such as `binary`.
        style: &'static str,
    },
    /// Occurs when the file of a printed value cannot be written.
    #[error("{}: {problem}", path.display())]
    File {
        /// The path of the file, inside the folder for printed values.
        path: PathBuf,
        /// What prevents writing, such as the operating system's message.
        problem: String,
    },
    /// Occurs in a browser when a call would have to block until the device has finished.
    #[error("a browser cannot wait: with debugging, run models by Model::execute")]
    Waits,
}
