//! What a session spends before its first run.

/// The time that a session spent on compiling and loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct StartTimes {
    /// Seconds from graphs to programs.
    pub compile_seconds: f64,
    /// Programs that were compiled.
    pub programs_compiled: u32,
    /// Programs taken from the cache or a file.
    pub programs_cached: u32,
    /// Seconds from kernels to the device's pipelines.
    pub pipeline_seconds: f64,
    /// Pipelines requested from the device.
    pub pipelines: u32,
    /// Seconds of reading weights and uploading them.
    pub weights_seconds: f64,
}
