//! Checkpoints: their files, their encodings, and the way to a device.

mod checkpoint;
pub mod encoding;
pub mod encodings;
mod error;
pub mod gguf;
mod memory;
#[cfg(not(target_arch = "wasm32"))]
mod open;
pub mod pytorch;
mod remote;
pub mod safetensors;
mod sniff;
// Only on disk are parts looked for.
#[cfg_attr(target_arch = "wasm32", allow(dead_code))]
mod split;
mod tensor;
pub mod views;

pub use checkpoint::{Checkpoint, FileBytes, Header, WeightSource};
pub use encoding::Encoding;
pub use error::{FormatError, WeightError};
pub use memory::MemoryWeights;
pub use remote::{Remote, RemoteFile};
pub use tensor::{Stored, TensorInfo};
pub use views::{View, Views};
