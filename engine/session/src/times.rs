//! What a session spends before its first run.

/// The time that a session spent on compiling and loading. In a browser, which has no such clock, all
/// seconds are 0.
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

/// Measures seconds, except in a browser.
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
