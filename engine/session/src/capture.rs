//! Captured runs: prepared once for a shape, then only written and submitted.

use crate::{
    error::SessionError, execute::by_position, model::Model, recording::Recording, tensor::Tensor,
};

impl Model {
    /// Runs the model once and keeps the kernels, workgroup counts, bind groups and parameters of a run with
    /// inputs of these shapes. From then on every run of these sizes ([`Self::replay`], but also
    /// [`Self::execute`] and [`Self::run`]) only writes its inputs and submits. Runs of other sizes share one
    /// set of parameters, which is written again when the sizes change.
    ///
    /// Returns the outputs in the model's own memory, which each run overwrites.
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_graph::{DType, Graph, Binary};
    /// use wisp_session::{InferenceSession, InitOptions, Tensor};
    /// use wisp_types::shape;
    /// use wisp_weights::MemoryWeights;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut graph = Graph::new("double");
    /// let x = graph.input("x", DType::F32, shape!["n"]);
    /// let twice = graph.add(Binary::Add, &[x, x])?;
    /// graph.output("twice", twice);
    /// let session = InferenceSession::new(Device::host(1)?);
    /// let options = InitOptions { max_dims: [("n".to_string(), 8)].into(), ..Default::default() };
    /// let mut model = session.load_blocking(&graph, &MemoryWeights::default(), options)?;
    ///
    /// let of = |value| Tensor::f32(&[2], &[value; 2]).ok_or("two numbers");
    /// let outputs = model.capture_blocking(&[&of(1.0)?])?;
    /// for value in [2.0, 3.0] {
    ///     model.replay_blocking(&[&of(value)?])?;
    ///     let twice = outputs[0].to_host_blocking()?;
    ///     assert_eq!(twice.as_f32(), Some(&[2.0 * value; 2][..]));
    /// }
    /// let one = Tensor::f32(&[1], &[1.0]).ok_or("one number")?;
    /// let error = model.replay_blocking(&[&one]).unwrap_err().to_string();
    /// assert_eq!(error, "double has not captured a run of inputs of these sizes (n=1): capture it first");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::execute`].
    pub async fn capture(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        let named = by_position(&self.program.name, self.inputs(), inputs)?;
        let sizes = self.sizes(&named)?;
        let dims = self.dims(&sizes)?;
        self.check_ready()?;
        self.write_all(&named).await?;
        let outputs = self.outputs_on_device(&dims)?;
        if !self.captured.iter().any(|(known, _)| *known == dims) {
            let recording = Recording::new(&self.device, &self.program, &self.memory)?;
            self.captured.push((dims.clone(), recording));
        }
        self.run_whole(&dims).await?;
        self.device.submit()?;
        Ok(outputs)
    }

    /// [`Self::capture`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::capture`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn capture_blocking(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        pollster::block_on(self.capture(inputs))
    }

    /// Writes inputs of captured sizes and submits the run, without waiting for it. The results are in the
    /// tensors that [`Self::capture`] returned.
    ///
    /// # Errors
    ///
    /// If no run of these sizes was captured, and as [`Self::execute`].
    pub async fn replay(&self, inputs: &[&Tensor]) -> Result<(), SessionError> {
        let named = by_position(&self.program.name, self.inputs(), inputs)?;
        let sizes = self.sizes(&named)?;
        let dims = self.dims(&sizes)?;
        if !self.captured.iter().any(|(known, _)| *known == dims) {
            return Err(SessionError::NotCaptured {
                model: self.program.name.clone(),
                sizes: self.described(&dims),
            });
        }
        let _alone = self.execution.lock().await;
        self.write_all(&named).await?;
        self.run_whole(&dims).await?;
        Ok(self.device.submit()?)
    }

    /// [`Self::replay`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::replay`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn replay_blocking(&self, inputs: &[&Tensor]) -> Result<(), SessionError> {
        pollster::block_on(self.replay(inputs))
    }
}
