//! Binding a compiled graph to weights, memory and pipelines.

use wisp_graph::Graph;
use wisp_weights::WeightSource;

use crate::{
    compiled::CompiledModel, error::SessionError, init_options::InitOptions, model::Model,
    session::InferenceSession, weights::DeviceWeights,
};

impl InferenceSession {
    /// Binds a compiled graph to weights, memory and pipelines.
    ///
    /// # Errors
    ///
    /// If weights are missing or of another shape (the error lists all of them), or the device fails.
    pub async fn init(
        &self,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        let loaded = &mut DeviceWeights::default();
        Model::new(self, compiled, weights, &options, loaded).await
    }

    /// Compiles a graph and binds it to its weights.
    ///
    /// # Errors
    ///
    /// As [`Self::compile`] and [`Self::init`].
    pub async fn load(
        &self,
        graph: &Graph,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        let compiled = self.compile(graph)?;
        self.init(&compiled, weights, options).await
    }

    /// [`Self::init`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::init`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn init_blocking(
        &self,
        compiled: &CompiledModel,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        pollster::block_on(self.init(compiled, weights, options))
    }

    /// [`Self::load`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_blocking(
        &self,
        graph: &Graph,
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<Model, SessionError> {
        pollster::block_on(self.load(graph, weights, options))
    }
}
