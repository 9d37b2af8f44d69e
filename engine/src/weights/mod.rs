//! Checkpoints: their files, their encodings, and the way to a device.

pub mod encoding;

pub use encoding::Encoding;
