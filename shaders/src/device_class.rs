//! The kinds of adapters that kernels are written for.

/// The kind of adapter that a kernel is written for.
///
/// Two adapters with the same capabilities can differ in what is fast: a GPU has workgroup memory and
/// barriers in hardware and reads memory best when neighbouring invocations read neighbouring words; a
/// software adapter (lavapipe, SwiftShader, WARP) runs an invocation as a lane of CPU code, where barriers,
/// workgroup memory and every load cost time. An op may therefore have a kernel for either class. Both
/// classes compute the same results, so tests can run a GPU's kernels on a software adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// The kernel is for every adapter.
    Any,
    /// The kernel is for adapters with workgroup memory and wide loads in hardware.
    Gpu,
    /// The kernel is for adapters that run on the CPU.
    Software,
}
