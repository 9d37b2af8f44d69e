//! PyTorch's checkpoints: state dicts that `torch.save` wrote.
//!
//! Such a file is a zip archive with a pickle and the storages' bytes beside it or, from before PyTorch 1.6,
//! a sequence of pickles with the bytes behind them. A pickle is a program for a stack machine that may call
//! any function it names, so unpickling a file of unknown origin with Python can run any code. The
//! interpreter here knows only the instructions and functions that a state dict needs, all of which merely
//! put values together; anything else is an error that says what the file asked for. Nothing is copied:
//! tensors are read where they stand in the file.

mod archive;
mod globals;
mod interpreter;
mod legacy;
mod little_endian;
mod opcodes;
mod parse;
mod rebuild;
mod state_dict;
mod values;
mod zip;

pub use crate::error::PytorchError;
pub use parse::{is_pytorch, parse};
