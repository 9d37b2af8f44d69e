//! Messages as `tracing` events.

use super::config::LogLevel;

/// What a message is about: the fields of its event.
#[derive(Clone, Copy, Default)]
pub(crate) struct Subject<'a> {
    /// The name of the device.
    pub device: &'a str,
    /// The name of the model's graph.
    pub model: Option<&'a str>,
    /// The label of the kernel call.
    pub op: Option<&'a str>,
    /// The name of the kernel.
    pub kernel: Option<&'a str>,
}

/// Applies a `tracing` macro with the target `wisp` at a level, which the macro takes as a constant.
macro_rules! at_level {
    ($level:expr, $macro:ident $(, $($rest:tt)+)?) => {
        match $level {
            LogLevel::Trace => tracing::$macro!(target: "wisp", tracing::Level::TRACE $(, $($rest)+)?),
            LogLevel::Debug => tracing::$macro!(target: "wisp", tracing::Level::DEBUG $(, $($rest)+)?),
            LogLevel::Info => tracing::$macro!(target: "wisp", tracing::Level::INFO $(, $($rest)+)?),
            LogLevel::Warning => tracing::$macro!(target: "wisp", tracing::Level::WARN $(, $($rest)+)?),
            LogLevel::Error | LogLevel::Critical => {
                tracing::$macro!(target: "wisp", tracing::Level::ERROR $(, $($rest)+)?)
            }
        }
    };
}

/// Returns true if a subscriber takes messages of this level. One atomic load if none does.
pub(super) fn is_enabled(level: LogLevel) -> bool {
    at_level!(level, enabled)
}

/// Sends a message to the subscriber.
pub(super) fn emit(level: LogLevel, subject: Subject<'_>, text: &str) {
    let Subject {
        device,
        model,
        op,
        kernel,
    } = subject;
    at_level!(level, event, device, model, op, kernel, "{text}");
}
