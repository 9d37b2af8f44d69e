//! Why a configuration cannot be used.

use wisp_weights::SupportedEncoding;

use super::choices::RopeType;

/// Why a configuration cannot be used. Messages name fields between backquotes; a program may
/// replace the names by those of its flags.
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
    /// Occurs when a field asks for what this build or engine does not support.
    #[error("`{field}` is not supported here: {reason}")]
    Unsupported {
        /// The field's name, such as `max_length`.
        field: &'static str,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Occurs when the context is longer than the one that the model was made for.
    #[error("`max_length` is {max_length}, but the model was made for at most {max} positions")]
    TooLong {
        /// The context that is asked for.
        max_length: u64,
        /// The model's.
        max: u64,
    },
    /// Occurs when the weights are in another encoding than the one asked for.
    #[error("{file} is {stored}, not {wanted} as `quantization_encoding` asks")]
    Encoding {
        /// The user's name for the model, such as its path.
        file: String,
        /// Their encoding.
        stored: String,
        /// The encoding that is asked for.
        wanted: SupportedEncoding,
    },
    /// Occurs when the checkpoint is of another architecture than the one asked for.
    #[error("the checkpoint's architecture is {found}, not {wanted} as `architecture` asks")]
    Architecture {
        /// The checkpoint's.
        found: String,
        /// The one that is asked for.
        wanted: String,
    },
    /// Occurs when the checkpoint lacks the parameters of the rope type that is asked for.
    #[error("`rope_type = {wanted}` needs parameters that the checkpoint does not have")]
    Rope {
        /// The rope type.
        wanted: RopeType,
    },
    /// Occurs when a compiled model was made for another model, or other limits.
    #[error(
        "{path} was compiled for something else: {}; compile the model again, with \
         `save_to_serialized_model_path`",
        .differences.join("; ")
    )]
    Compiled {
        /// The path of the compiled model's file.
        path: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// Occurs when no model is named.
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
