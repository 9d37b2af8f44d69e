//! Errors in the contents of a PyTorch file.

/// Why a PyTorch file holds no readable state dict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PytorchError {
    /// Occurs when the directory of the zip archive is missing or contradicts itself.
    #[error("the zip archive is damaged ({problem}); delete the file and download it again")]
    Zip {
        /// What is wrong.
        problem: &'static str,
    },
    /// Occurs when a needed entry of the archive is compressed or encrypted, which `torch.save` never
    /// does.
    #[error("`{}` is compressed or encrypted in the archive; save it again with torch.save", entry.escape_debug())]
    Compressed {
        /// The name of the entry.
        entry: String,
    },
    /// Occurs when the archive has no pickle.
    #[error("the archive has no data.pkl; expected a state dict saved with torch.save")]
    NoPickle,
    /// Occurs when the archive's byte order is neither "little" nor "big".
    #[error("the byte order is `{}`; expected little or big", found.escape_debug())]
    ByteOrder {
        /// The byte order in the file, shortened.
        found: String,
    },
    /// Occurs when something is larger than in any published checkpoint.
    #[error("{what} has {found} bytes or parts; at most {most} are read")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The size in bytes, or the number of values read so far.
        found: u64,
        /// The largest size accepted.
        most: u64,
    },
    /// Occurs when the pickle ends inside an instruction or without its stop instruction, or the file ends
    /// inside a storage.
    #[error(
        "the data ends after {at} bytes, inside {inside}; the file is incomplete: download it again"
    )]
    Truncated {
        /// The length of the pickle or of the file in bytes.
        at: u64,
        /// What is cut off.
        inside: &'static str,
    },
    /// Occurs when the pickle refers to a function or class that a state dict does not need. Nothing is
    /// ever called.
    #[error(
        "the pickle asks for `{}`, which Wisp does not run: only tensors, numbers, texts and dicts are \
         read; save the state dict alone, or convert it to safetensors",
        name.escape_debug()
    )]
    Global {
        /// The module and name, joined by a dot.
        name: String,
    },
    /// Occurs when the pickle calls or changes something that it may not, or is malformed.
    #[error("at byte {at}, the pickle {problem}; it is not a state dict")]
    Forbidden {
        /// The offset of the instruction in the pickle.
        at: u64,
        /// What the instruction does.
        problem: &'static str,
    },
    /// Occurs when the pickle has an instruction that a state dict does not need.
    #[error(
        "at byte {at}, the pickle has the instruction {opcode:#04x}, which no state dict needs"
    )]
    Opcode {
        /// The offset of the instruction in the pickle.
        at: u64,
        /// The byte of the instruction in pickle's instruction set.
        opcode: u8,
    },
    /// Occurs when the outermost value of the pickle is not a dict of tensors by name.
    #[error(
        "the file holds {found}; expected a dict of tensors by name, as model.state_dict() returns"
    )]
    NoStateDict {
        /// What the file holds.
        found: &'static str,
    },
    /// Occurs when two tensors have the same name.
    #[error("tensor `{}` appears twice", tensor.escape_debug())]
    Duplicate {
        /// The name of the tensor.
        tensor: String,
    },
    /// Occurs when the description of a tensor is unusable.
    #[error("tensor `{}`: {problem}", tensor.escape_debug())]
    Tensor {
        /// The name of the tensor.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
}
