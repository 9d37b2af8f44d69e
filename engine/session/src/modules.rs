//! Several graphs at once, with common weights once on the device.

use std::collections::BTreeMap;

use crate::{
    compiled::{CompiledModel, CompiledModule},
    error::SessionError,
    init_options::InitOptions,
    model::Model,
    session::InferenceSession,
    weights::{self, DeviceWeights},
};
use wisp_compiler::Program;
use wisp_graph::Module;
use wisp_weights::WeightSource;

impl InferenceSession {
    /// Compiles the graphs of a module for the session's device, or takes them from the cache.
    ///
    /// # Errors
    ///
    /// If no kernel of the device supports an op of a graph.
    pub fn compile_module(&self, module: &Module) -> Result<CompiledModule, SessionError> {
        let models = module.graphs().iter().map(|graph| self.compile(graph));
        let models = models.collect::<Result<_, _>>()?;
        Ok(CompiledModule::new(models, BTreeMap::new())?)
    }

    /// Binds the graphs of a compiled module to weights, memory and pipelines; returns the models by the
    /// names of their graphs. Common weights are on the device once. The options apply to every graph; each
    /// ignores entries that it has no dimension or port for.
    ///
    /// # Errors
    ///
    /// If weights of any graph are missing or of another shape (the error lists all of them), or the device
    /// fails.
    pub async fn init_all(
        &self,
        module: &CompiledModule,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<BTreeMap<String, Model>, SessionError> {
        let programs = module.models().iter().map(CompiledModel::program);
        check_all(programs, weights)?;
        let (mut models, mut loaded) = (BTreeMap::new(), DeviceWeights::default());
        for compiled in module.models() {
            let model = Model::new(self, compiled, weights, &options, &mut loaded).await?;
            models.insert(compiled.program().name.clone(), model);
        }
        Ok(models)
    }

    /// Compiles the graphs of a module and binds them to their weights.
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_graph::{DType, Graph, Module, ops::Linear};
    /// use wisp_session::{InferenceSession, InitOptions};
    /// use wisp_types::shape;
    /// use wisp_weights::{Encoding, MemoryWeights};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut module = Module::default();
    /// for rows in [1, 3] {
    ///     let mut graph = Graph::new(&format!("by {rows}"));
    ///     let x = graph.input("x", DType::F32, shape![rows, 32u64]);
    ///     let w = graph.weight("w", Encoding::F32, shape![16u64, 32u64]);
    ///     let y = graph.add(Linear, &[x, w])?;
    ///     graph.output("y", y);
    ///     module.add(graph)?;
    /// }
    /// let mut weights = MemoryWeights::default();
    /// weights.insert("w", &[16, 32], &[0.5; 512])?;
    /// let session = InferenceSession::new(Device::host(1)?);
    /// // `w` is on the device once.
    /// let models = session.load_all_blocking(&module, &weights, InitOptions::default())?;
    /// models["by 3"].write("x", &[1.0f32; 96])?;
    /// models["by 3"].run(&models["by 3"].dims(&[])?)?;
    /// # assert_eq!(models["by 3"].read_blocking::<f32>("y", 48)?, [16.0; 48]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::compile_module`] and [`Self::init_all`].
    pub async fn load_all(
        &self,
        module: &Module,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<BTreeMap<String, Model>, SessionError> {
        let compiled = self.compile_module(module)?;
        self.init_all(&compiled, weights, options).await
    }

    /// [`Self::init_all`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::init_all`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn init_all_blocking(
        &self,
        module: &CompiledModule,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<BTreeMap<String, Model>, SessionError> {
        pollster::block_on(self.init_all(module, weights, options))
    }

    /// [`Self::load_all`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load_all`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_all_blocking(
        &self,
        module: &Module,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<BTreeMap<String, Model>, SessionError> {
        pollster::block_on(self.load_all(module, weights, options))
    }
}

/// Checks the weights of all programs before any are loaded; the error lists all problems.
pub(crate) fn check_all<'a>(
    programs: impl Iterator<Item = &'a Program>,
    weights: &dyn WeightSource,
) -> Result<(), SessionError> {
    let (mut graphs, mut all) = (Vec::new(), Vec::new());
    for program in programs {
        match weights::check(program, weights, &DeviceWeights::default()) {
            Err(SessionError::Mismatch { graph, problems }) => {
                graphs.push(graph);
                all.extend(problems);
            }
            checked => drop(checked?),
        }
    }
    if graphs.is_empty() {
        return Ok(());
    }
    all.sort();
    all.dedup();
    Err(SessionError::Mismatch {
        graph: graphs.join(", "),
        problems: all,
    })
}
