//! The line that reports an error.

use wisp_engine::{
    Error,
    pipelines::{PipelineError, architectures::ArchitectureError},
};

use crate::flags;

/// Returns an error and its causes in one line. A cause that a message includes already is not repeated.
pub fn of(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    let text = flags::with_flags(&text.replace('\n', " "));
    match error.downcast_ref() {
        Some(Error::ContextFull { .. }) => text + " (--max-length)",
        _ if needs_encode(error) => text + " (`wisp encode` runs encoders)",
        _ => text,
    }
}

/// Returns whether an encoder was used to generate text.
fn needs_encode(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(PipelineError::Architecture(
            ArchitectureError::NotADecoder { .. }
        ))
    ) || matches!(
        error.downcast_ref(),
        Some(ArchitectureError::NotADecoder { .. })
    )
}
