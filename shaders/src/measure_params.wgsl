// The parameters of the kernels that measure a device.

/// `measure_read` reads `x` once and writes one partial sum per invocation, to measure the device's
/// read bandwidth. Grid: `[invocations]`.
///
/// `measure_fma` computes 64 fused multiply-adds `len` times in each invocation, to measure the
/// device's `f32` rate. Grid: `[invocations]`.
struct MeasureParams {
    /// `measure_read`: vec4s of `x`. `measure_fma`: iterations of its loop.
    len: u32,
    /// Invocations of the whole dispatch.
    invocations: u32,
}
