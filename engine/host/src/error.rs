//! The errors of calls on the host device.

use wisp_weights::encodings::EncodingError;

/// Why a twin refuses a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Occurs when the parameter block has the wrong size.
    #[error("{op}: parameters take {expected} bytes, {actual} given")]
    Params {
        /// The kernel's op, with its encoding if it has one: `matmul.q4_k`.
        op: String,
        /// Size of the op's parameters in bytes.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
    /// Occurs when a binding that the op needs is not bound.
    #[error("{op}: binding {binding} is not bound")]
    Unbound {
        /// The kernel's op, with its encoding if it has one: `matmul.q4_k`.
        op: String,
        /// Number of the binding.
        binding: usize,
    },
    /// Occurs when a binding reaches past the end of its buffer.
    #[error("{op}: binding {binding} ends at byte {expected} of a buffer of {actual}")]
    Overrun {
        /// The kernel's op, with its encoding if it has one: `matmul.q4_k`.
        op: String,
        /// Number of the binding.
        binding: usize,
        /// End of the binding in its buffer, in bytes.
        expected: usize,
        /// Bytes of the buffer.
        actual: usize,
    },
    /// Occurs when a binding holds fewer elements than the parameters ask for.
    #[error("{op}: binding {binding} needs {expected} elements, {actual} are bound")]
    Short {
        /// The kernel's op, with its encoding if it has one: `matmul.q4_k`.
        op: String,
        /// Number of the binding.
        binding: usize,
        /// Elements that the parameters ask for.
        expected: usize,
        /// Elements that are bound.
        actual: usize,
    },
    /// Occurs when a binding is not aligned to its elements.
    #[error("{op}: binding {binding} is not aligned to {expected} bytes")]
    Misaligned {
        /// The kernel's op, with its encoding if it has one: `matmul.q4_k`.
        op: String,
        /// Number of the binding.
        binding: usize,
        /// The elements' alignment in bytes.
        expected: usize,
    },
    /// Occurs when a call would write bytes that another of its bindings uses.
    #[error("{op}: bindings {first} and {second} overlap, and one is written")]
    Overlap {
        /// The kernel's op, with its encoding if it has one: `matmul.q4_k`.
        op: String,
        /// Number of the binding that was taken first.
        first: usize,
        /// Number of the binding that overlaps it.
        second: usize,
    },
    /// Occurs when a parameter, an index or a page is out of its range.
    #[error("{op}: {what} must be {expected}, it is {actual}")]
    Value {
        /// The kernel's op, with its encoding if it has one: `matmul.q4_k`.
        op: String,
        /// The parameter, index or page.
        what: &'static str,
        /// The allowed values.
        expected: String,
        /// The actual value.
        actual: u64,
    },
    /// Occurs when the name of an op on the KV cache contains no cache format.
    #[error("{op}: the KV cache has no such format")]
    Format {
        /// The kernel's op, which should end in a cache format: `attention.f16`.
        op: String,
    },
    /// Occurs when a weight's planes do not fit its shape.
    #[error("{op}: {source}")]
    Encoding {
        /// The kernel's op, with its encoding: `matmul.q4_k`.
        op: String,
        /// What does not fit.
        source: EncodingError,
    },
}
