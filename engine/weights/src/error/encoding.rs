//! Errors of packing, dequantising and quantising weights.

use wisp_types::Encoding;

/// Why weights cannot be packed, dequantised or quantised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// Occurs when weights are to be quantised to an encoding that Wisp only reads.
    #[error("Wisp cannot quantise to {encoding}; it can to {}", names(available))]
    NoQuantizer {
        /// The requested encoding.
        encoding: Encoding,
        /// The encodings that Wisp can quantise to.
        available: &'static [Encoding],
    },
    /// Occurs when weights are to be written to a GGUF file in an encoding that GGUF lacks or lays out otherwise.
    #[error("Wisp does not write {encoding} to GGUF; choose another encoding")]
    NoGgmlType {
        /// The requested encoding.
        encoding: Encoding,
    },
    /// Occurs when the length of a row is not a whole number of blocks.
    #[error(
        "a row of {cols} weights cannot be {encoding}; its length must be a multiple of {multiple}"
    )]
    Columns {
        /// The encoding that the row was to have.
        encoding: Encoding,
        /// The number of weights in a row.
        cols: usize,
        /// The number of weights in a block.
        multiple: usize,
    },
    /// Occurs when a slice of bytes has another length than its shape requires.
    #[error("the {what} of {encoding} weights takes {expected} bytes, but {actual} were given")]
    Length {
        /// The encoding of the weights in those bytes.
        encoding: Encoding,
        /// What the bytes are: the rows of a file, or one of the planes.
        what: &'static str,
        /// The length that the shape requires, in bytes.
        expected: usize,
        /// The length that was given, in bytes.
        actual: usize,
    },
    /// Occurs when the size of a tensor overflows.
    #[error(
        "{encoding} weights of shape [{rows}, {cols}] are too large for this machine's address space"
    )]
    TooLarge {
        /// The encoding that the size was computed for.
        encoding: Encoding,
        /// The number of rows.
        rows: usize,
        /// The number of weights in a row.
        cols: usize,
    },
}

fn names(encodings: &[Encoding]) -> String {
    let names: Vec<&str> = encodings.iter().map(|encoding| encoding.name()).collect();
    names.join(", ")
}
