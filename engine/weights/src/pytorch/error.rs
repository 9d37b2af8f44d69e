//! What can be wrong with a PyTorch file.

/// Why a PyTorch file holds no state dict that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PytorchError {
    /// Occurs when the zip archive's directory is missing or contradicts itself.
    #[error("the zip archive is damaged ({problem}): download it again")]
    Zip {
        /// What is wrong.
        problem: &'static str,
    },
    /// Occurs when a needed entry of the archive is compressed or encrypted, which `torch.save` never does.
    #[error("`{entry}` is compressed or encrypted in the archive; save it again with torch.save", entry = .entry.escape_debug())]
    Compressed {
        /// The entry.
        entry: String,
    },
    /// Occurs when the archive has no pickle.
    #[error("the archive has no data.pkl; expected a state dict saved with torch.save")]
    NoPickle,
    /// Occurs when the archive says of its numbers neither little nor big.
    #[error("the byte order is `{found}`; expected little or big", found = .found.escape_debug())]
    ByteOrder {
        /// What it says.
        found: String,
    },
    /// Occurs when something is larger than any checkpoint has it.
    #[error("{what} has {found} bytes or parts; at most {most} are read")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// How large it may be.
        most: u64,
    },
    /// Occurs when the pickle ends inside an instruction, or without its end mark.
    #[error("the pickle ends after {at} bytes, inside {inside}: the file is incomplete")]
    Truncated {
        /// Where.
        at: u64,
        /// Inside of what.
        inside: &'static str,
    },
    /// Occurs when the pickle names something that a state dict does not need. It is never called.
    #[error(
        "the pickle asks for `{name}`, which Wisp does not run: only tensors, numbers, texts and dicts are read; save the state dict alone, or convert it to safetensors",
        name = .name.escape_debug()
    )]
    Global {
        /// Module and name.
        name: String,
    },
    /// Occurs when the pickle calls or changes something that it may not.
    #[error("the pickle, at byte {at}: {problem}; it is no state dict")]
    Forbidden {
        /// Where.
        at: u64,
        /// What it does.
        problem: &'static str,
    },
    /// Occurs when the pickle has an instruction that a state dict does not need.
    #[error(
        "the pickle, at byte {at}, has the instruction {opcode:#04x}, which no state dict needs"
    )]
    Opcode {
        /// Where.
        at: u64,
        /// The instruction.
        opcode: u8,
    },
    /// Occurs when the pickle's outermost value holds no tensors under names.
    #[error("the file holds {found}; expected a dict of tensors by name, as model.state_dict() is")]
    NoStateDict {
        /// What it holds.
        found: &'static str,
    },
    /// Occurs when two tensors have one name.
    #[error("tensor `{tensor}` appears twice", tensor = .tensor.escape_debug())]
    Twice {
        /// The tensor.
        tensor: String,
    },
    /// Occurs when a tensor's description is unusable.
    #[error("tensor `{tensor}`: {problem}", tensor = .tensor.escape_debug())]
    Tensor {
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
}
