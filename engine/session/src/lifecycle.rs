//! A model's weights after it is made: other ones in their place, or none.

use crate::{
    error::SessionError,
    model::Model,
    weights::{self, DeviceWeights, Progress},
};
use wisp_weights::WeightSource;

impl Model {
    /// Writes other weights over the model's, in the same memory: nothing is allocated or bound anew, and
    /// captured runs stay. Buffers (a KV cache) keep what is in them. After [`Self::release`] memory is
    /// allocated again.
    ///
    /// Models that were [loaded together](crate::InferenceSession::load_all) have their common weights
    /// once: reloading one of them changes those of all.
    ///
    /// ```
    /// use wisp_engine::{
    ///     device::Device,
    ///     graph::{DType, Graph, ops::Linear},
    ///     session::{InferenceSession, InitOptions, Tensor},
    ///     shape,
    ///     weights::{Encoding, MemoryWeights},
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut graph = Graph::new("product");
    /// let x = graph.input("x", DType::F32, shape![1u64, 32u64]);
    /// let w = graph.weight("w", Encoding::F32, shape![2u64, 32u64]);
    /// let y = graph.add(Linear, &[x, w])?;
    /// graph.output("y", y);
    /// let weights = |value| {
    ///     let mut weights = MemoryWeights::default();
    ///     weights.insert("w", &[2, 32], &[value; 64])?;
    ///     Ok::<_, wisp_engine::weights::WeightError>(weights)
    /// };
    /// let session = InferenceSession::new(Device::host(1)?);
    /// let mut model = session.load_blocking(&graph, &weights(1.0)?, InitOptions::default())?;
    /// let x = Tensor::f32(&[1, 32], &[1.0; 32]).ok_or("32 numbers")?;
    ///
    /// model.reload_blocking(&weights(0.5)?)?;
    /// let y = pollster::block_on(model.execute(&[&x]))?;
    /// assert_eq!(y[0].as_f32(), Some(&[16.0, 16.0][..]));
    ///
    /// model.release();
    /// let error = pollster::block_on(model.execute(&[&x])).unwrap_err().to_string();
    /// assert_eq!(error, "the weights of product were released: reload them before it runs");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If weights are absent or of another type or shape: all of them are listed, and nothing has changed.
    /// If reading them fails later, what was written is of no use, and the model is released.
    pub async fn reload(&mut self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        self.check_weights(weights)?;
        weights::check_finite(&self.program, weights).await?;
        let result = self.replace(weights).await;
        if result.is_err() {
            self.release();
        }
        result
    }

    /// [`Self::reload`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::reload`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn reload_blocking(&mut self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        pollster::block_on(self.reload(weights))
    }

    async fn replace(&mut self, source: &dyn WeightSource) -> Result<(), SessionError> {
        let mut progress = Progress::new(0, None);
        // Until all are written the model has none, even if nobody waits for the end of this.
        let kept = self.memory.weights.take();
        let (device, program) = (&self.device, &self.program);
        match kept {
            Some(weights) => {
                weights::overwrite(device, program, &weights, source, &mut progress).await?;
                device.finish().await?;
                self.memory.weights = Some(weights);
                Ok(())
            }
            None => {
                let none = &mut DeviceWeights::default();
                let weights = weights::load(device, program, source, &mut progress, none).await?;
                device.finish().await?;
                self.memory.weights = Some(weights);
                self.rebind()
            }
        }
    }

    /// Gives the memory of the weights back; a GPU has it when what was submitted has run. Inputs, buffers
    /// and captured runs stay. Until [`Self::reload`] the model does not run.
    ///
    /// Weights that the model shares with others stay as long as one of these has them. A model that is
    /// reloaded afterwards has its own.
    pub fn release(&mut self) {
        self.memory.weights = None;
        let recordings = self.captured.iter_mut().map(|(_, recording)| recording);
        for recording in recordings.chain([&mut self.recording]) {
            recording.release();
        }
    }

    /// Binds all calls to the weights that there are now.
    fn rebind(&mut self) -> Result<(), SessionError> {
        let recordings = self.captured.iter_mut().map(|(_, recording)| recording);
        for recording in recordings.chain([&mut self.recording]) {
            recording.bind(&self.device, &self.program, &self.memory)?;
        }
        Ok(())
    }

    /// Checks that a source has all weights of the model, as it was compiled for them.
    pub(crate) fn check_weights(&self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        weights::check(&self.program, weights, &DeviceWeights::default()).map(drop)
    }
}
