//! The words that all layers share.

mod choices;
mod device;
mod digest;
mod dim;
pub mod encoding;
mod future;
mod shape;

pub use choices::UnknownChoice;
pub use device::{Api, Capabilities, DeviceInfo, PARAMS_STRIDE};
pub use digest::digest;
pub use dim::{Dim, DimSum};
pub use encoding::Encoding;
pub use future::BoxFuture;
pub use shape::{DType, Shape};
