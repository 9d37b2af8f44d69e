//! Checkpoints for Wisp: GGUF, safetensors and PyTorch files, the encodings of their weights, and the
//! sources from which a session takes weights to its device.
//!
//! The crate depends on [`wisp_types`] only. It knows nothing of devices, graphs or architectures: it says
//! which tensors a checkpoint has and returns their bytes. It exists as a crate so that whatever reads
//! weights (sessions, the hub, conversion, a program of yours) shares one set of parsers, which trust no
//! byte of a file.
//!
//! # Opening a checkpoint
//!
//! [`Checkpoint::open`] takes a GGUF file, safetensors (one file or several with their index) or files that
//! PyTorch saved, and finds the other parts of a checkpoint by itself. Only headers are read: tensors remain
//! in the mapped files, or [elsewhere](RemoteFile), until a session reads them part by part, in their
//! [`Encoding`]. Every size, offset, count and shape of a file is checked before anything is allocated, and a
//! file that contradicts itself is an error that says where.
//!
//! ```
//! use wisp_weights::{Checkpoint, Encoding, WeightSource, encodings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.safetensors");
//! # let weights: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
//! # let tensor = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2, 2], &weights)?;
//! # safetensors::serialize_to_file([("attn_q.weight", tensor)], None, &path)?;
//! let checkpoint = Checkpoint::open(&path)?;
//! let tensor = checkpoint.require("attn_q.weight")?;
//! assert_eq!((tensor.encoding()?, &tensor.shape[..]), (Encoding::F32, &[2, 2][..]));
//! // The first row, as the file has it and as numbers.
//! let cols = tensor.shape[1];
//! let row = Encoding::F32.file_row_bytes(cols).ok_or("whole blocks")?;
//! let bytes = checkpoint.bytes(&tensor.name, 0..row)?;
//! assert_eq!(encodings::dequantize(Encoding::F32, &bytes, 1, cols as usize)?, [1.0, 2.0]);
//!
//! let error = checkpoint.require("attn_k.weight").unwrap_err();
//! assert_eq!(error.to_string(), "tensor `attn_k.weight` is missing from the checkpoint");
//! # Ok(())
//! # }
//! ```
//!
//! # Other sources of weights
//!
//! A session takes any [`WeightSource`], of which a checkpoint is one. [`MemoryWeights`] are tensors that the
//! program has, [`Views`] are parts of another source's tensors or are computed from them. A program can
//! implement the trait for a source of its own:
//!
//! ```
//! use std::{borrow::Cow, ops::Range};
//! use wisp_types::BoxFuture;
//! use wisp_weights::{Encoding, TensorInfo, WeightError, WeightSource};
//!
//! /// A vector of ones.
//! struct Ones(TensorInfo);
//!
//! impl WeightSource for Ones {
//!     fn tensors(&self) -> &[TensorInfo] {
//!         std::slice::from_ref(&self.0)
//!     }
//!
//!     fn find(&self, name: &str) -> Option<&TensorInfo> {
//!         Some(&self.0).filter(|tensor| tensor.name == name)
//!     }
//!
//!     fn read<'a>(
//!         &'a self,
//!         _name: &'a str,
//!         range: Range<u64>,
//!     ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>> {
//!         let byte = |i: u64| 1f32.to_le_bytes()[i as usize % 4];
//!         Box::pin(std::future::ready(Ok(range.map(byte).collect())))
//!     }
//! }
//!
//! # fn main() -> Result<(), WeightError> {
//! let ones = Ones(TensorInfo::new("ones", Encoding::F32, &[8])?);
//! assert_eq!(ones.find("ones").map(|tensor| tensor.len), Some(32));
//! # Ok(())
//! # }
//! ```
//!
//! # Why not the crate `gguf-rs`
//!
//! `gguf-rs` is an independent reader and writer of GGUF, and the tests use it as an oracle: whatever both
//! read must be equal, and each must read what the other wrote (`tests/tests/engine/weights/oracle.rs`). It is
//! not the reader here, because it
//!
//! - takes wrong sizes for BF16, IQ4_NL and MXFP4 tensors, so that the tensors behind them are lost
//!   (the test `sizes_of_some_encodings_are_wrong` fails once that is mended);
//! - refuses nested arrays, reads the dimensions of version 1 as 64-bit numbers (they have 32 bits), and
//!   writes little-endian files only;
//! - reads a file at once, whereas a browser receives it in chunks ([`gguf::GgufReader`]), and allocates
//!   what a header claims, whereas the reader here never holds more than a small multiple of the bytes it has
//!   received (`tests/tests/engine/weights/memory.rs`);
//! - does not compile to wasm32, since it depends on a command-line parser and a terminal library.

#[doc(hidden)]
pub mod blocks;
mod checkpoint;
pub mod encodings;
mod error;
mod file_signature;
mod files;
pub mod gguf;
mod memory;
pub mod pytorch;
mod quantized;
pub mod safetensors;
mod source;
mod supported_encoding;
mod tensor;
mod views;
mod weights_format;

pub use checkpoint::{Checkpoint, Header, MatrixRows, is_later_part};
#[cfg(not(target_arch = "wasm32"))]
pub use checkpoint::{is_auxiliary_file, is_auxiliary_name};
pub use error::{FormatError, WeightError};
pub use files::{FileBytes, RemoteFile};
pub use memory::MemoryWeights;
pub use quantized::QuantizationConfig;
pub use source::WeightSource;
pub use supported_encoding::{SupportedEncoding, WeightDType};
pub use tensor::{StoredEncoding, TensorInfo};
pub use views::{ElementFunction, View, Views};
pub use weights_format::WeightsFormat;
pub use wisp_types::Encoding;
