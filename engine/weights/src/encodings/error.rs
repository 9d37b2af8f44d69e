//! What can be wrong with encoded bytes.

use wisp_types::Encoding;

/// Encoded bytes that do not fit their shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// Occurs when weights are to be brought to an encoding that Wisp only reads.
    #[error("Wisp cannot quantise to {encoding}; it can to {}", names())]
    NoQuantizer {
        /// The encoding.
        encoding: Encoding,
    },
    /// Occurs when a row is no whole number of blocks.
    #[error("{encoding} rows are a multiple of {multiple} wide, this one is {cols}")]
    Columns {
        /// The encoding.
        encoding: Encoding,
        /// Width of a row in weights.
        cols: usize,
        /// Weights a block.
        multiple: usize,
    },
    /// Occurs when there are not as many bytes as the shape asks for.
    #[error("{encoding} {what}: {expected} bytes expected, {actual} found")]
    Length {
        /// The encoding.
        encoding: Encoding,
        /// Which bytes.
        what: &'static str,
        /// Bytes that the shape asks for.
        expected: usize,
        /// Bytes that are there.
        actual: usize,
    },
    /// Occurs when weights are to be written to a GGUF file in an encoding that GGUF does not have.
    #[error("GGUF has no type for {encoding}; name another encoding")]
    NoGgmlType {
        /// The encoding.
        encoding: Encoding,
    },
    /// Occurs when a size overflows.
    #[error("{encoding} weights [{rows}, {cols}] are too large for this machine")]
    TooLarge {
        /// The encoding.
        encoding: Encoding,
        /// Rows.
        rows: usize,
        /// Width of a row in weights.
        cols: usize,
    },
}

/// The encodings that there are quantisers for.
fn names() -> String {
    super::QUANTIZABLE
        .map(|encoding| encoding.name())
        .join(", ")
}
