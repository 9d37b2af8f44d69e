//! The vocabulary that all layers of Wisp share: shapes with symbolic dimensions, element types, weight
//! encodings and device capabilities.
//!
//! This is the lowest of the engine's crates: it depends on none of the others, and every other one may
//! depend on it. It exists so that two layers can speak of the same thing without depending on each
//! other. The compiler, for instance, needs to know what a device can do ([`Capabilities`]), but must not
//! depend on the crate that opens devices, because it also compiles for devices that are not there.
//! Nothing here reads a file, allocates device memory or computes a tensor.
//!
//! - [`Shape`], [`Dim`], [`DimSum`], [`DType`]: the types of a graph's values. A dimension is a number, a
//!   name whose size is known when the program runs, or a sum of these.
//! - [`Encoding`]: how weights are stored, in files and on devices.
//! - [`Capabilities`], [`DeviceInfo`], [`Api`]: what programs may rely on, and which device they run on.
//!
//! ```
//! use wisp_types::{Dim, Encoding, shape};
//!
//! // Activations of a ragged batch: the number of tokens is known when the program runs.
//! let shape = shape!["tokens", 4096u64];
//! assert_eq!(shape.to_string(), "[tokens, 4096]");
//! assert_eq!(shape.cols(), Some(4096));
//! let sizes = |name: &str| (name == "tokens").then_some(7);
//! assert_eq!(shape.0[0].resolve(sizes), Some(7));
//!
//! // A row of 4096 weights takes 144 bytes for every 256 weights in a Q4_K file.
//! assert_eq!(Encoding::Q4_K.file_row_bytes(4096), Some(16 * 144));
//! // Rows are whole blocks.
//! assert_eq!(Encoding::Q4_K.file_row_bytes(100), None);
//! ```

mod capabilities;
mod choices;
mod device;
mod digest;
mod dim;
mod dtype;
pub mod encoding;
mod future;
mod memory;
mod shape;

pub use capabilities::Capabilities;
pub use choices::UnknownChoice;
pub use device::{Api, DeviceInfo};
#[doc(hidden)]
pub use digest::digest;
pub use dim::{Dim, DimSum};
pub use dtype::DType;
pub use encoding::Encoding;
pub use future::{BoxFuture, MaybeSend};
pub use memory::{BINDING_ALIGNMENT, PARAMS_STRIDE, allocated_bytes};
pub use shape::Shape;

/// For the expansion of `choices!`, whose callers need not depend on serde under this name.
#[doc(hidden)]
pub use serde;
