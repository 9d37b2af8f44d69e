//! Why a model's files cannot be opened.

use wisp_text::tokenizer::TokenizerError;
use wisp_weights::WeightError;

use crate::architectures::ArchitectureError;

/// Why a model's files cannot be opened, or do not fit together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFilesError {
    /// Occurs when the architecture is unknown or its configuration cannot be used.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// Occurs when the weights cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when a file beside the weights is missing or cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The file, or the model.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Occurs when a text has a part for which the vocabulary has no token.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}
