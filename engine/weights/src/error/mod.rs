//! The errors of this crate.
//!
//! Names that come from a file are escaped in messages, because messages go to terminals.

mod encoding;
mod format;
mod message;
mod pytorch;
mod weight;

pub use encoding::EncodingError;
pub use format::FormatError;
pub use pytorch::PytorchError;
pub use weight::WeightError;
