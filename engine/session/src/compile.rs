//! Compiling a graph, and the pipelines of its kernels.

use wisp_graph::Graph;
use wisp_shaders::Kernel;
use wisp_types::Capabilities;

use crate::{
    compiled::CompiledModel, debug::LogLevel, error::SessionError, session::InferenceSession,
    times::Stopwatch,
};

impl InferenceSession {
    /// Compiles a graph for the session's device, or finds it in the session's cache.
    ///
    /// # Errors
    ///
    /// If the graph asks for what no kernel of the device can do.
    pub fn compile(&self, graph: &Graph) -> Result<CompiledModel, SessionError> {
        self.debugger.config()?;
        let target = &self.device.info().capabilities;
        self.programs.compile(&*self.extended(graph)?, target)
    }

    /// Makes the pipelines of a compiled graph, without weights, so that loading it later takes less.
    /// Where the session has a cache they stay in it.
    ///
    /// # Errors
    ///
    /// If the device lacks what the graph was compiled for, or its compiler fails.
    pub fn prepare(&self, compiled: &CompiledModel) -> Result<(), SessionError> {
        let since = Stopwatch::start();
        let pipelines = compile_kernels(self, compiled)?;
        self.programs.save_pipelines(&self.device);
        self.programs.count(|times| {
            times.pipelines += pipelines;
            times.pipeline_seconds += since.seconds();
        });
        Ok(())
    }

    /// Compiles a graph for any target; neither weights nor that device are needed.
    ///
    /// # Errors
    ///
    /// If the graph asks for what no kernel of the target can do.
    pub fn compile_for(
        graph: &Graph,
        target: &Capabilities,
    ) -> Result<CompiledModel, SessionError> {
        Ok(CompiledModel::new(wisp_compiler::compile(graph, target)?))
    }
}

/// Compiles what the program needs, several kernels at a time where there are threads; returns how
/// many there are.
fn compile_kernels(
    session: &InferenceSession,
    compiled: &CompiledModel,
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
    let kernels: Vec<&'static Kernel> = program.kernels().collect();
    let count = kernels.len() as u32;
    let compile = |kernel: &'static Kernel| -> Result<(), SessionError> {
        let debugger = &session.debugger;
        debugger.log(LogLevel::Debug, || {
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
