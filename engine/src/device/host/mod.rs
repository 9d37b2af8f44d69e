//! The host device.
mod backend;
pub use backend::HostDevice;
pub(crate) use backend::info;
use std::ops::Range;
/// x
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// x
    #[error("the host has no twin of {op}")]
    NoTwin {
        /// x
        op: String,
    },
}
/// x
#[derive(Clone, Debug)]
pub struct HostBuffer;
impl HostBuffer {
    pub(crate) fn new(_: usize) -> Option<HostBuffer> { None }
    pub(crate) fn write(&self, _: usize, _: &[u8]) -> Result<(), HostError> { Ok(()) }
    pub(crate) fn read(&self, _: Range<usize>) -> Result<Vec<u8>, HostError> { Ok(vec![]) }
}
/// x
pub struct Args<'a>(&'a ());
impl Args<'_> {
    pub(crate) fn new(_: &wisp_shaders::Kernel, _: &[(&HostBuffer, Range<usize>)]) -> Result<Self, HostError> { Ok(Args(&())) }
}
/// x
pub type Twin = fn(&mut Args<'_>) -> Result<(), HostError>;
/// x
pub fn twin(_: &str) -> Option<Twin> { None }
