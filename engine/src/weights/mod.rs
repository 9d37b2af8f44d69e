//! Checkpoints: their files, their encodings, and the way to a device.

pub mod encoding;
pub mod encodings;

pub use encoding::Encoding;
