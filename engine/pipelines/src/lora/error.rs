//! Why an adapter cannot be loaded or unloaded, and the statuses that MAX has for it.

use serde::Serialize;
use wisp_session::SessionError;
use wisp_weights::WeightError;

/// The outcome of loading or unloading an adapter, as MAX's `LoRAStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoraStatus {
    /// It succeeded.
    Success,
    /// Loading failed, because no slot is free or the device failed.
    LoadError,
    /// The name is taken.
    LoadNameExists,
    /// The path does not lead to an adapter.
    LoadInvalidPath,
    /// The adapter is damaged, or does not fit this model.
    LoadInvalidAdapter,
    /// Unloading failed, which does not happen here.
    UnloadError,
    /// No adapter of the name is loaded.
    UnloadNameNonexistent,
    /// It failed for another reason.
    UnspecifiedError,
}

impl<T> From<&Result<T, LoraError>> for LoraStatus {
    fn from(result: &Result<T, LoraError>) -> LoraStatus {
        match result {
            Ok(_) => LoraStatus::Success,
            Err(error) => error.status(),
        }
    }
}

/// Why an adapter cannot be loaded, unloaded or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoraError {
    /// Occurs when the model was loaded without buffers for adapters.
    #[error(
        "the model was loaded without room for adapters: set `max_num_loras` before it is loaded"
    )]
    Disabled,
    /// Occurs when the name is taken.
    #[error("an adapter called {name:?} is already loaded: unload it first, or take another name")]
    NameExists {
        /// The adapter name that is taken.
        name: String,
    },
    /// Occurs when no adapter of a name is loaded.
    #[error("no adapter called {name:?} is loaded; {}", list(.loaded))]
    Nonexistent {
        /// The adapter name that was asked for.
        name: String,
        /// The names of the loaded adapters.
        loaded: Vec<String>,
    },
    /// Occurs when a request's adapter has been unloaded.
    #[error("the request's adapter is not loaded any more")]
    Unloaded,
    /// Occurs when no slot is free.
    #[error(
        "there is room for {slots} adapters at a time (`max_num_loras`), and all of it is taken; {}, \
         and running requests may hold others that were unloaded",
        list(.loaded)
    )]
    Full {
        /// The number of adapters that can be loaded at the same time.
        slots: u64,
        /// The names of the loaded adapters.
        loaded: Vec<String>,
    },
    /// Occurs when the model is a GGUF file whose weights are multiplied by the model's factors, which an adapter's are not.
    #[error(
        "adapters of {architecture} do not fit GGUF files, whose weights are multiplied by the model's factors: \
         load the model from safetensors"
    )]
    ScaledWeights {
        /// The model's architecture.
        architecture: String,
    },
    /// Occurs when a path does not lead to an adapter.
    #[error(
        "{path}: {problem}; expected a folder with adapter_config.json and \
         adapter_model.safetensors, as PEFT writes them"
    )]
    InvalidPath {
        /// The path of the adapter's folder, as given.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when `adapter_config.json` cannot be used.
    #[error("{file}: {problem}")]
    Config {
        /// The path of `adapter_config.json`.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when a tensor of the adapter cannot be used.
    #[error("{file}: {tensor} {problem}")]
    Tensor {
        /// The name of the adapter's weights file.
        file: String,
        /// The tensor's name in the adapter's file.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when the adapter changes a module that cannot be adapted.
    #[error("{file}: {module} cannot be adapted: {problem}")]
    Module {
        /// The name of the adapter's weights file.
        file: String,
        /// The module, as the base model calls it.
        module: String,
        /// Why it cannot be adapted, and which modules can.
        problem: String,
    },
    /// Occurs when the adapter's weights cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when the device fails.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// The loaded adapters as a part of a sentence.
fn list(names: &[String]) -> String {
    match names {
        [] => "none is loaded".into(),
        names => format!("loaded are {}", names.join(", ")),
    }
}

impl LoraError {
    /// Returns the session's error that caused this one, if there is one.
    pub(crate) fn session_error(&self) -> Option<&SessionError> {
        match self {
            LoraError::Session(error) => Some(error),
            _ => None,
        }
    }

    /// Returns MAX's status for the error.
    pub fn status(&self) -> LoraStatus {
        match self {
            LoraError::Disabled | LoraError::Full { .. } | LoraError::Session(_) => {
                LoraStatus::LoadError
            }
            LoraError::NameExists { .. } => LoraStatus::LoadNameExists,
            LoraError::Nonexistent { .. } => LoraStatus::UnloadNameNonexistent,
            LoraError::InvalidPath { .. } | LoraError::Weights(WeightError::Io { .. }) => {
                LoraStatus::LoadInvalidPath
            }
            LoraError::Config { .. }
            | LoraError::ScaledWeights { .. }
            | LoraError::Tensor { .. }
            | LoraError::Module { .. }
            | LoraError::Weights(_) => LoraStatus::LoadInvalidAdapter,
            LoraError::Unloaded => LoraStatus::UnspecifiedError,
        }
    }
}
