//! Where a session's programs come from: a compiled file, the cache or the compiler.

use std::sync::{Mutex, PoisonError};

use web_time::Instant;
use wisp_compiler::{Switches, Tuning, compile_with};
use wisp_device::Device;
use wisp_graph::Graph;
use wisp_types::Capabilities;

use crate::{
    compiled::{self, CompiledModel, CompiledModule},
    error::SessionError,
    times::StartTimes,
};

/// Compiles a session's programs or finds them, and keeps the compiler's switches and the times.
#[derive(Debug, Default)]
pub(crate) struct ProgramSource {
    times: Mutex<StartTimes>,
    /// Programs from a file; if there are any, nothing is compiled.
    pub precompiled: Option<CompiledModule>,
    /// The session's programs so far, each with its graph's digest.
    compiled: Mutex<Vec<(String, CompiledModel)>>,
    switches: Mutex<Switches>,
    /// The kernels that the compiler prefers.
    pub tuning: Tuning,
    #[cfg(not(target_arch = "wasm32"))]
    pub cache: Option<wisp_files::DiskCache>,
}

impl Clone for ProgramSource {
    fn clone(&self) -> ProgramSource {
        ProgramSource {
            times: Mutex::new(self.times()),
            precompiled: self.precompiled.clone(),
            compiled: Mutex::new(self.compiled()),
            switches: Mutex::new(self.switches()),
            tuning: self.tuning.clone(),
            #[cfg(not(target_arch = "wasm32"))]
            cache: self.cache.clone(),
        }
    }
}

impl ProgramSource {
    /// The session's programs so far, each with its graph's digest.
    pub fn compiled(&self) -> Vec<(String, CompiledModel)> {
        let compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.clone()
    }

    /// The switches that the session passes to the compiler.
    pub fn switches(&self) -> Switches {
        *self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the switches for programs compiled from now on.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.switches.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn times(&self) -> StartTimes {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn count(&self, add: impl FnOnce(&mut StartTimes)) {
        add(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Saves the device's pipelines where the session has a cache.
    pub fn save_pipelines(&self, device: &Device) {
        #[cfg(not(target_arch = "wasm32"))]
        if self.cache.is_some() {
            device.save_cache();
        }
        #[cfg(target_arch = "wasm32")]
        let _ = device;
    }

    /// Adds the time since a model's weights began to load.
    pub fn loaded(&self, since: Instant) {
        self.count(|times| times.weights_seconds += since.elapsed().as_secs_f64());
    }

    /// Takes a graph's program from the precompiled ones or from the cache, or compiles it.
    pub fn compile(
        &self,
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<CompiledModel, SessionError> {
        let since = Instant::now();
        let (compiled, found) = match &self.precompiled {
            Some(precompiled) => (precompiled.model_of(graph)?.clone(), true),
            None => self.find_or_compile(graph, target)?,
        };
        let mut programs = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = compiled::digest_of(graph);
        let same = |(known, other): &&mut (String, CompiledModel)| {
            *known == digest && other.program().target == *target
        };
        match programs.iter_mut().find(same) {
            // Compiled again, with other switches.
            Some((_, program)) => *program = compiled.clone(),
            None => programs.push((digest, compiled.clone())),
        }
        self.count(|times| {
            times.programs_cached += u32::from(found);
            times.programs_compiled += u32::from(!found);
            times.compile_seconds += since.elapsed().as_secs_f64();
        });
        Ok(compiled)
    }

    /// The program, and true if it was in the cache.
    fn find_or_compile(
        &self,
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<(CompiledModel, bool), SessionError> {
        let switches = self.switches();
        let tuning = &self.tuning;
        let compile = || compile_with(graph, target, switches, tuning).map(CompiledModel::new);
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(cache) = &self.cache {
            let name = name(graph, target, switches, tuning);
            if let Some(found) = cached(cache, &name) {
                return Ok((found, true));
            }
            let compiled = compile()?;
            cache.write(&name, &compiled.to_bytes()?);
            return Ok((compiled, false));
        }
        Ok((compile()?, false))
    }
}

/// Returns the cache's file name for a graph and a target. It hashes both with the switches, the tuning,
/// the build and the kernels.
#[cfg(not(target_arch = "wasm32"))]
fn name(graph: &Graph, target: &Capabilities, switches: Switches, tuning: &Tuning) -> String {
    // Postcard can write all of these types; an empty key would match no file.
    let what = postcard::to_stdvec(&(graph, target, switches, tuning)).unwrap_or_default();
    let parts = crate::artefact::identity().into_iter().chain([what]);
    let key = wisp_types::digest(parts);
    wisp_files::CacheEntry::Program.file_name(&key)
}

#[cfg(not(target_arch = "wasm32"))]
fn cached(cache: &wisp_files::DiskCache, name: &str) -> Option<CompiledModel> {
    let found = CompiledModel::from_bytes(&cache.read(name)?).ok()?;
    // SAFETY: only this module writes such files, and their programs are from this compiler. The cache
    // has checked that the file is whole and that only the user can have written it, who could as well
    // replace this executable.
    Some(unsafe { found.assume_trusted() })
}
