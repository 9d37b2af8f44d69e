//! What can go wrong with an adapter, and the statuses that MAX has for it.

use serde::Serialize;

use wisp_session::SessionError;
use wisp_weights::WeightError;

/// What came of loading or unloading an adapter, as MAX's `LoRAStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoraStatus {
    /// It was done.
    Success,
    /// Loading failed: there is no room, or the device failed.
    LoadError,
    /// The name is taken.
    LoadNameExists,
    /// The path leads to no adapter.
    LoadInvalidPath,
    /// The adapter is damaged, or not one for this model.
    LoadInvalidAdapter,
    /// Unloading failed, which it never does here.
    UnloadError,
    /// No adapter of that name is loaded.
    UnloadNameNonexistent,
    /// Something else.
    UnspecifiedError,
}

impl<T> From<&Result<T, LoraError>> for LoraStatus {
    fn from(result: &Result<T, LoraError>) -> LoraStatus {
        result
            .as_ref()
            .map_or_else(LoraError::status, |_| LoraStatus::Success)
    }
}

/// What can go wrong with an adapter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoraError {
    /// Occurs when the model was loaded without room for adapters.
    #[error(
        "the model was loaded without room for adapters: set max_num_loras (--max-num-loras) before it is loaded"
    )]
    Disabled,
    /// Occurs when the name is taken.
    #[error("an adapter called {name:?} is already loaded: unload it first, or take another name")]
    NameExists {
        /// The name.
        name: String,
    },
    /// Occurs when no adapter of a name is loaded.
    #[error("no adapter called {name:?} is loaded; {}", listed(.loaded))]
    Nonexistent {
        /// The name.
        name: String,
        /// The names there are.
        loaded: Vec<String>,
    },
    /// Occurs when a request has an adapter that was unloaded since.
    #[error("the request's adapter is not loaded any more")]
    Unloaded,
    /// Occurs when there is no room for one more.
    #[error(
        "there is room for {slots} adapters at a time (--max-num-loras), and all of it is taken; {}, and requests may still have others that were unloaded",
        listed(.loaded)
    )]
    Full {
        /// Adapters there is room for.
        slots: u64,
        /// Their names.
        loaded: Vec<String>,
    },
    /// Occurs when a path leads to no adapter.
    #[error(
        "{path}: {problem}; expected a folder with adapter_config.json and adapter_model.safetensors, as PEFT writes them"
    )]
    InvalidPath {
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when `adapter_config.json` cannot be used.
    #[error("{file}: {problem}")]
    Config {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when a tensor of the adapter cannot be used.
    #[error("{file}: {tensor} {problem}")]
    Tensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when the adapter changes what cannot be adapted.
    #[error("{file}: {module} cannot be adapted: {problem}")]
    Module {
        /// The file.
        file: String,
        /// The module, as the model calls it.
        module: String,
        /// Why not, and what can.
        problem: String,
    },
    /// Occurs when the adapter's file of weights cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when the device fails.
    #[error(transparent)]
    Session(#[from] SessionError),
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none is loaded".into(),
        names => format!("loaded are {}", names.join(", ")),
    }
}

impl LoraError {
    /// The status that MAX has for it.
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
            | LoraError::Tensor { .. }
            | LoraError::Module { .. }
            | LoraError::Weights(_) => LoraStatus::LoadInvalidAdapter,
            LoraError::Unloaded => LoraStatus::UnspecifiedError,
        }
    }
}
