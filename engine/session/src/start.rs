//! What happens before a first run: compiling programs and pipelines, and how long it took.

use std::sync::{Mutex, PoisonError};

use super::{CompiledModel, CompiledModule, InferenceSession, SessionError, bind, compiled};
use wisp_compiler::{Switches, compile_with};
use wisp_graph::Graph;
use wisp_types::Capabilities;

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

/// Where a session's programs come from, and what it has spent.
#[derive(Debug, Default)]
pub(super) struct Start {
    times: Mutex<StartTimes>,
    /// What was compiled elsewhere, and is not compiled here.
    pub given: Option<CompiledModule>,
    /// The session's programs so far, each with its graph's digest.
    made: Mutex<Vec<(String, CompiledModel)>>,
    switches: Mutex<Switches>,
    #[cfg(not(target_arch = "wasm32"))]
    pub cache: Option<wisp_files::DiskCache>,
}

impl Clone for Start {
    fn clone(&self) -> Start {
        Start {
            times: Mutex::new(self.times()),
            given: self.given.clone(),
            made: Mutex::new(self.made()),
            switches: Mutex::new(self.switches()),
            #[cfg(not(target_arch = "wasm32"))]
            cache: self.cache.clone(),
        }
    }
}

impl Start {
    /// The session's programs so far, each with its graph's digest.
    pub fn made(&self) -> Vec<(String, CompiledModel)> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.clone()
    }

    /// What the session asks of the compiler.
    pub fn switches(&self) -> Switches {
        *self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what the session asks of the compiler.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.switches.lock().unwrap_or_else(PoisonError::into_inner));
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

    /// Takes a graph's program from those given, from the cache, or compiles it.
    pub fn compile(
        &self,
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<CompiledModel, SessionError> {
        let since = Stopwatch::start();
        let (compiled, found) = match &self.given {
            Some(given) => (given.model_of(graph)?.clone(), true),
            None => self.find_or_compile(graph, target)?,
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = compiled::digest_of(graph);
        let same = |(known, other): &&mut (String, CompiledModel)| {
            *known == digest && other.program().target == *target
        };
        match made.iter_mut().find(same) {
            // With other switches it is another program.
            Some((_, program)) => *program = compiled.clone(),
            None => made.push((digest, compiled.clone())),
        }
        self.count(|times| {
            times.programs_cached += u32::from(found);
            times.programs_compiled += u32::from(!found);
            times.compile_seconds += since.seconds();
        });
        Ok(compiled)
    }

    /// True if it was found.
    fn find_or_compile(
        &self,
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<(CompiledModel, bool), SessionError> {
        let switches = self.switches();
        let compile = || compile_with(graph, target, switches).map(CompiledModel::new);
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(cache) = &self.cache {
            let name = name(graph, target, switches);
            if let Some(found) = cached(cache, &name) {
                return Ok((found, true));
            }
            let compiled = compile()?;
            cache.write(&name, &compiled.to_bytes()?);
            return Ok((compiled, false));
        }
        Ok((compile()?, false))
    }

    /// Makes the pipelines of a program.
    pub fn pipelines(
        &self,
        session: &InferenceSession,
        compiled: &CompiledModel,
    ) -> Result<(), SessionError> {
        let since = Stopwatch::start();
        let pipelines = bind::compile_kernels(session, compiled)?;
        #[cfg(not(target_arch = "wasm32"))]
        if self.cache.is_some() {
            session.device.save_cache();
        }
        self.count(|times| {
            times.pipelines += pipelines;
            times.pipeline_seconds += since.seconds();
        });
        Ok(())
    }
}

/// The file of a graph compiled for a target: another version, other kernels, another graph or other
/// switches have another.
#[cfg(not(target_arch = "wasm32"))]
fn name(graph: &Graph, target: &Capabilities, switches: Switches) -> String {
    // Neither has anything that postcard cannot write; an empty key would only never be found.
    let what = postcard::to_stdvec(&(graph, target, switches)).unwrap_or_default();
    let parts = super::artefact::identity().into_iter().chain([what]);
    let key = wisp_types::digest(parts);
    wisp_files::CacheEntry::Program.file_name(&key)
}

#[cfg(not(target_arch = "wasm32"))]
fn cached(cache: &wisp_files::DiskCache, name: &str) -> Option<CompiledModel> {
    let found = CompiledModel::from_bytes(&cache.read(name)?).ok()?;
    // SAFETY: this module writes such files, of what this compiler made; the cache has checked that it is
    // whole and that nobody but the user can have written it, who could as well change this program.
    Some(unsafe { found.assume_trusted() })
}
