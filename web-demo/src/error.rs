//! Errors for JavaScript: an `Error` whose `name` is one of the kinds of the package.

use wasm_bindgen::JsValue;
use wisp_engine::{
    Error, NoteKind,
    device::DeviceError,
    pipelines::{ModelFilesError, PipelineError, architectures::ArchitectureError},
    session::SessionError,
    weights::WeightError,
};

/// An error for JavaScript.
pub struct Failure {
    kind: &'static str,
    message: String,
}

impl Failure {
    /// Creates the error of an invalid request.
    pub fn request(message: impl Into<String>) -> Failure {
        Failure {
            kind: "InvalidRequest",
            message: message.into(),
        }
    }
}

fn device_kind(error: &DeviceError) -> &'static str {
    match error {
        DeviceError::NoAdapter { .. } => "NoWebGpu",
        DeviceError::OutOfMemory { .. }
        | DeviceError::BufferTooLarge { .. }
        | DeviceError::BindingTooLarge { .. } => "OutOfMemory",
        DeviceError::Lost { .. } => "DeviceLost",
        _ => "Internal",
    }
}

fn pipeline_kind(error: &PipelineError) -> &'static str {
    match error {
        PipelineError::Session(SessionError::Device(error)) => device_kind(error),
        PipelineError::Session(SessionError::Weights(error)) | PipelineError::Weights(error) => {
            weight_kind(error)
        }
        PipelineError::Request(_)
        | PipelineError::Sampling(_)
        | PipelineError::Encode(_)
        | PipelineError::UnknownToken { .. }
        | PipelineError::Config(_)
        | PipelineError::Limits { .. }
        | PipelineError::Architecture(
            ArchitectureError::NotADecoder { .. } | ArchitectureError::NotAnEncoder { .. },
        ) => "InvalidRequest",
        PipelineError::Graph(_) | PipelineError::Batch => "Internal",
        _ => "ModelFormat",
    }
}

fn weight_kind(error: &WeightError) -> &'static str {
    match error {
        WeightError::Io { .. } => "Network",
        _ => "ModelFormat",
    }
}

/// Returns the kind of the warning that reports a note.
pub fn warning_kind(note: NoteKind) -> &'static str {
    match note {
        NoteKind::PrecisionUnavailable => "NoHalfPrecision",
        _ => "NoEffect",
    }
}

/// Names of configuration fields in the library and in JavaScript.
const NAMES: [(&str, &str); 4] = [
    ("max_length", "maxLength"),
    ("prefill_chunk_size", "maxStepTokens"),
    ("max_cache_batch_size", "maxBatch"),
    ("kv_cache_format", "kvCacheFormat"),
];

/// Replaces the fields that a message quotes by their names in JavaScript: `` `max_length = 7` `` becomes
/// `maxLength 7`.
fn in_javascript(message: &str) -> String {
    NAMES
        .iter()
        .fold(message.to_string(), |text, (field, name)| {
            let quoted = format!("`{field}");
            let mut parts = text.split(&quoted);
            let mut renamed = parts.next().unwrap_or_default().to_string();
            for part in parts {
                let (value, rest) = part.split_once('`').unwrap_or((part, ""));
                renamed += &format!("{name}{}{rest}", value.replace(" =", ""));
            }
            renamed
        })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let kind = match &error {
            Error::ContextFull { .. }
            | Error::EmptyPrompt
            | Error::EmptyText { .. }
            | Error::TextTooLong { .. }
            | Error::NotAGenerator { .. }
            | Error::NotAnEncoder { .. }
            | Error::NoTokenizer { .. }
            | Error::Grammar(_)
            | Error::ConstraintFailed { .. } => "InvalidRequest",
            Error::NonFinite { .. } => "ModelFormat",
            Error::Cancelled => "Aborted",
            Error::OutOfMemory(_) => "OutOfMemory",
            Error::DeviceLost { .. } => "DeviceLost",
            Error::Failed(error) => pipeline_kind(error),
            _ => "Internal",
        };
        Failure {
            kind,
            message: in_javascript(&error.to_string()),
        }
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Failure {
        Error::from(error).into()
    }
}

impl From<ModelFilesError> for Failure {
    fn from(error: ModelFilesError) -> Failure {
        PipelineError::from(error).into()
    }
}

impl From<WeightError> for Failure {
    fn from(error: WeightError) -> Failure {
        Failure {
            kind: weight_kind(&error),
            message: error.to_string(),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Failure {
        Failure {
            kind: device_kind(&error),
            message: error.to_string(),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::request(error.to_string())
    }
}

impl From<Failure> for JsValue {
    fn from(failure: Failure) -> JsValue {
        let error = js_sys::Error::new(&failure.message);
        error.set_name(failure.kind);
        error.into()
    }
}
