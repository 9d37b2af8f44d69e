//! What a session spends before its first run.

/// What a session has spent on compiling and loading. Seconds are 0 in a browser, which has no clock
/// for this.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct StartTimes {
    /// Seconds from graphs to programs.
    pub compile_seconds: f64,
    /// Programs that were compiled.
    pub programs_compiled: u32,
    /// Programs that were found in the cache.
    pub programs_cached: u32,
    /// Seconds from kernels to the device's pipelines.
    pub pipeline_seconds: f64,
    /// Pipelines that were asked of the device.
    pub pipelines: u32,
    /// Seconds of reading weights and bringing them to the device.
    pub weights_seconds: f64,
}

/// Counts seconds where there is a clock.
pub(crate) struct Stopwatch {
    #[cfg(not(target_arch = "wasm32"))]
    since: std::time::Instant,
}

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch {
            #[cfg(not(target_arch = "wasm32"))]
            since: std::time::Instant::now(),
        }
    }

    pub fn seconds(&self) -> f64 {
        #[cfg(not(target_arch = "wasm32"))]
        return self.since.elapsed().as_secs_f64();
        #[cfg(target_arch = "wasm32")]
        return 0.0;
    }
}
