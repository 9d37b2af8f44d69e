//! Checkpoints: their files, their encodings, and the way to a device.
//!
//! [`Checkpoint::open`] takes a GGUF file, safetensors (one file or several with their index) or what
//! PyTorch saves, and finds the other parts itself. Nothing is read but the header: tensors stay in the
//! mapped file, or [elsewhere](Remote), until a session takes them to its device, piece by piece and in
//! their [`Encoding`]. Files are not trusted: one that contradicts itself is an error that says where.
//!
//! ```
//! use wisp_weights::{Checkpoint, Encoding, WeightSource, encodings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../native-demo/model/wisp-tiny.gguf");
//! let checkpoint = Checkpoint::open(path)?;
//! let tensor = checkpoint.require("blk.0.attn_q.weight")?;
//! assert_eq!(tensor.encoding()?, Encoding::F16);
//! let row = Encoding::F16.file_row_bytes(tensor.shape[1]).ok_or("whole blocks")?;
//! let bytes = checkpoint.bytes(&tensor.name, 0..row)?;
//! let numbers = encodings::dequantize(Encoding::F16, &bytes, 1, tensor.shape[1] as usize)?;
//! assert_eq!(numbers.len() as u64, tensor.shape[1]);
//! let error = checkpoint.require("blk.99.attn_q.weight").unwrap_err().to_string();
//! assert!(error.contains("blk.99.attn_q.weight"));
//! # Ok(())
//! # }
//! ```
//!
//! A session takes any [`WeightSource`], of which a checkpoint is one: [`MemoryWeights`] are tensors that
//! the program has, [`Views`] are parts of another source's tensors or what is computed of them, and the
//! example `bert_encoder` has a source of its own that makes its numbers up.

/// Packed blocks for the host's kernels; unstable, for Wisp's own crates.
#[doc(hidden)]
pub mod blocks {
    #[cfg(target_arch = "x86_64")]
    pub use crate::encodings::{Avx2, Avx512};
    pub use crate::encodings::{
        BlockEncoding, Planes, Portable, SCALES_AHEAD, Simd, dequantize_blocks,
        dequantize_blocks_inline, simd, with_encoding, with_simd,
    };
}
mod checkpoint;
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
mod supported_encoding;
mod tensor;
pub mod views;
mod weights_format;

pub use checkpoint::{Checkpoint, FileBytes, Header, WeightSource};
pub use error::{FormatError, WeightError};
pub use memory::MemoryWeights;
pub use remote::{Remote, RemoteFile};
pub use supported_encoding::{SupportedEncoding, WeightDType};
pub use tensor::{StoredEncoding, TensorInfo};
pub use views::{View, Views};
pub use weights_format::WeightsFormat;
pub use wisp_types::Encoding;
