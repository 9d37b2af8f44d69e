//! What happens before a first run: compiling programs and pipelines, and how long it took.

use std::sync::{Mutex, PoisonError};

use super::{CompiledModel, InferenceSession, SessionError, model};
use crate::{
    device::{Capabilities, Device},
    graph::Graph,
};

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
pub(super) struct Stopwatch {
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

    fn seconds(&self) -> f64 {
        #[cfg(not(target_arch = "wasm32"))]
        return self.since.elapsed().as_secs_f64();
        #[cfg(target_arch = "wasm32")]
        return 0.0;
    }
}

/// A session's cache, and what it has spent.
#[derive(Debug, Default)]
pub(super) struct Start {
    times: Mutex<StartTimes>,
    #[cfg(not(target_arch = "wasm32"))]
    cache: Option<crate::disk_cache::DiskCache>,
}

impl Start {
    #[cfg(not(target_arch = "wasm32"))]
    pub fn with_cache(cache: crate::disk_cache::DiskCache) -> Start {
        Start {
            times: Mutex::default(),
            cache: Some(cache),
        }
    }

    pub fn times(&self) -> StartTimes {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, add: impl FnOnce(&mut StartTimes)) {
        add(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn loaded(&self, since: Stopwatch) {
        self.count(|times| times.weights_seconds += since.seconds());
    }

    /// Compiles a graph, or finds it in the cache.
    pub fn compile(
        &self,
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<CompiledModel, SessionError> {
        let since = Stopwatch::start();
        #[cfg(not(target_arch = "wasm32"))]
        let file = self
            .cache
            .as_ref()
            .map(|cache| (cache, name(graph, target)));
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(found) = file.as_ref().and_then(|(cache, name)| cached(cache, name)) {
            self.count(|times| {
                times.programs_cached += 1;
                times.compile_seconds += since.seconds();
            });
            return Ok(found);
        }
        let compiled = InferenceSession::compile_for(graph, target)?;
        #[cfg(not(target_arch = "wasm32"))]
        if let Some((cache, name)) = file {
            cache.write(&name, &compiled.to_bytes()?);
        }
        self.count(|times| {
            times.programs_compiled += 1;
            times.compile_seconds += since.seconds();
        });
        Ok(compiled)
    }

    /// Makes the pipelines of a program.
    pub fn pipelines(&self, device: &Device, compiled: &CompiledModel) -> Result<(), SessionError> {
        let since = Stopwatch::start();
        let pipelines = model::compile_kernels(device, compiled)?;
        #[cfg(not(target_arch = "wasm32"))]
        if self.cache.is_some() {
            device.save_cache();
        }
        self.count(|times| {
            times.pipelines += pipelines;
            times.pipeline_seconds += since.seconds();
        });
        Ok(())
    }
}

/// The file of a graph compiled for a target: another version, other kernels or another graph have
/// another.
#[cfg(not(target_arch = "wasm32"))]
fn name(graph: &Graph, target: &Capabilities) -> String {
    // Neither has anything that postcard cannot write; an empty key would only never be found.
    let what = postcard::to_stdvec(&(graph, target)).unwrap_or_default();
    let parts = super::artefact::identity().chain([what]);
    format!("{}.program", crate::disk_cache::key(parts))
}

#[cfg(not(target_arch = "wasm32"))]
fn cached(cache: &crate::disk_cache::DiskCache, name: &str) -> Option<CompiledModel> {
    let found = CompiledModel::from_bytes(&cache.read(name)?).ok()?;
    // SAFETY: only this module writes such files, of what the compiler made; the cache has checked that
    // it is whole. Whoever can write in the user's own folder can as well change the program that runs.
    Some(unsafe { found.assume_trusted() })
}
