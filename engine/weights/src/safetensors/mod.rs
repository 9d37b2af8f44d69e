//! The safetensors format: the header of a file, and the index of a checkpoint in several files, which
//! PyTorch's checkpoints use too.

mod header;
mod index;

pub use header::Safetensors;
pub use index::SafetensorsIndex;
