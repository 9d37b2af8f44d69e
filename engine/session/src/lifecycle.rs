//! Replacing and releasing the weights of a model.

use crate::{
    error::SessionError,
    model::Model,
    weights::{self, DeviceWeights, Progress, Scales},
};
use wisp_weights::WeightSource;

impl Model {
    /// Overwrites the model's weights in place: allocates and binds nothing, and keeps captured runs and the
    /// contents of buffers (such as a KV cache). After [`Self::release`] it allocates memory again.
    ///
    /// Models that were [loaded together](crate::InferenceSession::load_all) share their common weights:
    /// reloading one of them changes all.
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_graph::{DType, Graph, ops::Linear};
    /// use wisp_session::{InferenceSession, InitOptions, Tensor};
    /// use wisp_types::shape;
    /// use wisp_weights::{Encoding, MemoryWeights};
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
    ///     Ok::<_, wisp_weights::WeightError>(weights)
    /// };
    /// let session = InferenceSession::new(Device::host(1)?);
    /// let mut model = session.load_blocking(&graph, &weights(1.0)?, InitOptions::default())?;
    /// let x = Tensor::f32(&[1, 32], &[1.0; 32]).ok_or("32 numbers")?;
    ///
    /// model.reload_blocking(&weights(0.5)?)?;
    /// let y = model.execute_blocking(&[&x])?;
    /// assert_eq!(y[0].as_f32(), Some(&[16.0, 16.0][..]));
    ///
    /// model.release();
    /// let error = model.execute_blocking(&[&x]).unwrap_err().to_string();
    /// assert_eq!(error, "the weights of product were released: reload them before it runs");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If weights are missing or of another type or shape: the error lists all of them, and the model keeps
    /// its weights. If reading fails later, the model is released, since its weights are incomplete, and models
    /// that share weights with it, directly or through a third model, do not run until they are reloaded as well.
    pub async fn reload(&mut self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        self.check_weights(weights)?;
        let mut scales = Scales::new();
        weights::check_finite(&self.program, weights, &mut scales).await?;
        self.reload_checked(weights, &mut scales).await
    }

    /// As [`Self::reload`], from a source that fits, with the scales of the tensors that are quantized to 8-bit floats.
    pub(crate) async fn reload_checked(
        &mut self,
        weights: &dyn WeightSource,
        scales: &mut Scales,
    ) -> Result<(), SessionError> {
        let result = self.replace(weights, scales).await;
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

    async fn replace(
        &mut self,
        source: &dyn WeightSource,
        scales: &mut Scales,
    ) -> Result<(), SessionError> {
        let mut progress = Progress::new(0, None);
        // Another model may be overwriting weights that this one shares, or may have failed to. Other models may still
        // have them, so this one gets memory of its own.
        let weights = self.memory.weights.as_ref();
        if weights.is_some_and(|weights| !weights.begin_overwrite()) {
            self.release();
        }
        // The model has no weights until all are written, even if this future is dropped.
        let kept = self.memory.weights.take();
        let (device, program) = (&self.device, &self.program);
        match kept {
            Some(weights) => {
                weights::overwrite(device, program, &weights, source, &mut progress, scales)
                    .await?;
                self.memory.weights = Some(weights);
                Ok(())
            }
            None => {
                let none = &mut DeviceWeights::with_scales(scales.clone());
                let weights = weights::load(device, program, source, &mut progress, none).await?;
                device.finish().await?;
                self.memory.weights = Some(weights);
                self.rebind()
            }
        }
    }

    /// Frees the memory of the weights, on a GPU as soon as submitted work has finished. Inputs, buffers and
    /// captured runs stay. The model cannot run until [`Self::reload`].
    ///
    /// Shared weights are freed when the last of their models releases them. A model that is reloaded
    /// afterwards has its own copy.
    pub fn release(&mut self) {
        self.memory.weights = None;
        let recordings = self.captured.iter_mut().map(|(_, recording)| recording);
        for recording in recordings.chain([&mut self.recording]) {
            recording.release();
        }
    }

    /// Binds all calls to the current weights.
    fn rebind(&mut self) -> Result<(), SessionError> {
        let recordings = self.captured.iter_mut().map(|(_, recording)| recording);
        for recording in recordings.chain([&mut self.recording]) {
            recording.bind(&self.device, &self.program, &self.memory)?;
        }
        Ok(())
    }

    /// Checks that a source has all weights of the model, with the encodings and shapes it was compiled for.
    pub(crate) fn check_weights(&self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        weights::check(&self.program, weights, &DeviceWeights::default()).map(drop)
    }
}
