//! What can be wrong with a configuration.

use super::{FIELDS, RopeType, SupportedEncoding};

/// What can be wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Occurs when a field's value is none that it takes.
    #[error("{field} {problem}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// Occurs when a setting names no field.
    #[error(
        "there is no field {name:?}; there are {}",
        FIELDS.iter().map(|field| field.name).collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// Occurs when a setting from a file or a variable is wrong.
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
        /// The file.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Occurs when a file of settings cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Occurs when a field asks for what this version does not do.
    #[error("{field} is not possible here: {reason}")]
    NotBuilt {
        /// The field.
        field: &'static str,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Occurs when the context is longer than the model can see.
    #[error(
        "max_length is {max_length} (--max-length), more than the {most} positions that the model was made for"
    )]
    TooLong {
        /// The context asked for.
        max_length: u64,
        /// The model's.
        most: u64,
    },
    /// Occurs when the weights are not in the encoding asked for.
    #[error(
        "{file} is {stored}, not {wanted} as quantization_encoding asks (--quantization-encoding)"
    )]
    Encoding {
        /// The weights.
        file: String,
        /// Their encoding.
        stored: String,
        /// The encoding asked for.
        wanted: SupportedEncoding,
    },
    /// Occurs when the checkpoint is of another architecture than asked for.
    #[error("the checkpoint's architecture is {found}, not {wanted} as --architecture asks")]
    Architecture {
        /// The checkpoint's.
        found: String,
        /// The one asked for.
        wanted: String,
    },
    /// Occurs when a rope type is asked for that the checkpoint has no parameters for.
    #[error("rope_type {wanted} needs parameters that the checkpoint does not have")]
    Rope {
        /// The type.
        wanted: RopeType,
    },
    /// Occurs when a compiled model was made for something else.
    #[error(
        "{path} was compiled for something else: {}: compile it again (--save-to-serialized-model-path)",
        .differences.join("; ")
    )]
    Compiled {
        /// The file.
        path: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// Occurs when there is nothing to load.
    #[error("no model is named: set huggingface_repo_id (--model) or weight_path (--weight-path)")]
    NoModel,
}

impl ConfigError {
    /// Adds where the setting stands.
    pub(super) fn at(self, origin: &str) -> ConfigError {
        ConfigError::Origin {
            origin: origin.into(),
            source: Box::new(self),
        }
    }
}
