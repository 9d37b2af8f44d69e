//! Compiling a graph, and the pipelines of its kernels.

use web_time::Instant;
use wisp_graph::Graph;
use wisp_shaders::Kernel;
use wisp_types::Capabilities;

use crate::{
    compiled::CompiledModel,
    debug::{LogLevel, Subject},
    error::SessionError,
    session::InferenceSession,
};

impl InferenceSession {
    /// Compiles a graph for the session's device, or takes it from the cache or the precompiled graphs.
    ///
    /// # Errors
    ///
    /// If no kernel of the device supports an op of the graph.
    pub fn compile(&self, graph: &Graph) -> Result<CompiledModel, SessionError> {
        self.debugger.config()?;
        let target = &self.device.info().capabilities;
        self.programs.compile(&*self.extended(graph)?, target)
    }

    /// Creates the pipelines of a compiled graph, without weights, so that loading it later is faster. A
    /// session with a cache stores them there.
    ///
    /// # Errors
    ///
    /// If the device lacks features that the graph was compiled for, or its shader compiler fails.
    pub fn prepare(&self, compiled: &CompiledModel) -> Result<(), SessionError> {
        self.prepare_kernels(compiled, compiled.program().kernels())
    }

    /// As [`Self::prepare`], of these kernels of the graph.
    pub(crate) fn prepare_kernels(
        &self,
        compiled: &CompiledModel,
        kernels: impl Iterator<Item = &'static Kernel>,
    ) -> Result<(), SessionError> {
        let since = Instant::now();
        let pipelines = compile_kernels(self, compiled, kernels.collect())?;
        self.programs.save_pipelines(&self.device);
        self.programs.count(|times| {
            times.pipelines += pipelines;
            times.pipeline_seconds += since.elapsed().as_secs_f64();
        });
        Ok(())
    }

    /// Compiles a graph for any target. Needs neither weights nor a device.
    ///
    /// # Errors
    ///
    /// If no kernel of the target supports an op of the graph.
    pub fn compile_for(
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<CompiledModel, SessionError> {
        Ok(CompiledModel::new(wisp_compiler::compile(graph, target)?))
    }
}

/// Compiles kernels of a program, in parallel where threads exist; returns their number.
fn compile_kernels(
    session: &InferenceSession,
    compiled: &CompiledModel,
    kernels: Vec<&'static Kernel>,
) -> Result<u32, SessionError> {
    let (program, info) = (compiled.program(), session.device.info());
    let missing = program.lacks(&info.capabilities);
    if !missing.is_empty() {
        return Err(SessionError::Target {
            graph: program.name.clone(),
            device: info.name.clone(),
            missing,
        });
    }
    let count = kernels.len() as u32;
    let compile = |kernel: &'static Kernel| -> Result<(), SessionError> {
        let debugger = &session.debugger;
        let subject = Subject {
            device: &info.name,
            kernel: Some(kernel.name),
            ..Subject::default()
        };
        debugger.log(LogLevel::Debug, subject, || {
            format!("{}: a pipeline for {}", info.name, kernel.name)
        });
        session.pipeline(kernel, compiled.is_trusted()).map(|_| ())
    };
    #[cfg(not(target_arch = "wasm32"))]
    {
        use rayon::prelude::*;
        kernels.into_par_iter().try_for_each(compile)?;
    }
    #[cfg(target_arch = "wasm32")]
    {
        kernels.into_iter().try_for_each(compile)?;
    }
    Ok(count)
}
