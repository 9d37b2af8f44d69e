//! Why a configuration cannot be used.

use wisp_weights::SupportedEncoding;

use super::choices::RopeType;

/// Why a configuration cannot be used. Messages write field names between backquotes, so that a
/// program can replace them with the names of its flags.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Occurs when a field has a value of the wrong type or outside its range.
    #[error("{field} {problem}")]
    Value {
        /// The field's name, such as `max_length`, or `configuration` if no single field is wrong.
        field: &'static str,
        /// What is wrong with its value, as the end of a sentence.
        problem: String,
    },
    /// Occurs when a setting names no field.
    #[error("there is no field {name:?}; the fields are {}", .fields.join(", "))]
    Unknown {
        /// The name in the setting, which no field has.
        name: String,
        /// The names of all fields.
        fields: Vec<&'static str>,
    },
    /// Occurs when a setting of a file or variable is wrong.
    #[error("{origin}: {source}")]
    Origin {
        /// The file or variable.
        origin: String,
        /// What is wrong.
        source: Box<ConfigError>,
    },
    /// Occurs when a file is not TOML.
    #[error("{origin}, line {line}: {problem}")]
    Syntax {
        /// The path or other origin of the TOML text.
        origin: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Occurs when a file of settings cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The path of the settings file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Occurs when a field requests something that this build or engine does not support.
    #[error("`{field}` is not supported here: {reason}")]
    Unsupported {
        /// The field's name, such as `max_length`.
        field: &'static str,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Occurs when the requested context is longer than the model supports.
    #[error("`max_length` is {max_length}, but the model was made for at most {max} positions")]
    TooLong {
        /// The requested context length in tokens.
        max_length: u64,
        /// The model's largest context length in tokens.
        max: u64,
    },
    /// Occurs when the weights are in another encoding than the requested one.
    #[error("{file} is {stored}, not {wanted} as `quantization_encoding` asks")]
    Encoding {
        /// The user's name for the model, such as its path.
        file: String,
        /// The name of the weights' encoding.
        stored: String,
        /// The requested encoding.
        wanted: SupportedEncoding,
    },
    /// Occurs when the checkpoint has another architecture than the requested one.
    #[error("the checkpoint's architecture is {found}, not {wanted} as `architecture` asks")]
    Architecture {
        /// The name of the checkpoint's architecture.
        found: String,
        /// The name of the requested architecture.
        wanted: String,
    },
    /// Occurs when the checkpoint lacks the parameters of the requested rope type.
    #[error("`rope_type = {wanted}` needs parameters that the checkpoint does not have")]
    Rope {
        /// The requested rope type.
        wanted: RopeType,
    },
    /// Occurs when a compiled model was compiled from another model, or for other limits.
    #[error(
        "{path} was compiled for something else: {}; compile the model again, with \
         `save_to_serialized_model_path`, or run it with the settings that it was compiled with",
        .differences.join("; ")
    )]
    Compiled {
        /// The path of the compiled model's file.
        path: String,
        /// How the compiled model differs, one difference per entry.
        differences: Vec<String>,
    },
    /// Occurs when the name of a file of weights does not tell its format.
    #[error(
        "the format of {file} is unknown: the names of weights end with .gguf, .safetensors, .bin, .pt or .pth"
    )]
    Format {
        /// The file's path, on this machine or in its repository.
        file: String,
    },
    /// Occurs when the configuration names no model.
    #[error("no model is named: set `huggingface_repo_id` or `weight_path`")]
    NoModel,
}

impl ConfigError {
    /// Adds the file or variable that the setting comes from.
    #[must_use]
    pub fn with_origin(self, origin: impl Into<String>) -> ConfigError {
        ConfigError::Origin {
            origin: origin.into(),
            source: Box::new(self),
        }
    }
}
