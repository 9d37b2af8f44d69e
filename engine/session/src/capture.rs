//! Runs of a fixed shape: prepared once, then only written and submitted.

use crate::{
    error::SessionError, execute::by_position, model::Model, recording::Recording, tensor::Tensor,
};

impl Model {
    /// Runs the model once and keeps what a run of inputs of these shapes takes: its kernels, their
    /// workgroups and bind groups, and parameters in memory of their own. From then on every run of these
    /// sizes ([`Self::replay`], but [`Self::execute`] and [`Self::run`] too) only writes its inputs and
    /// submits. Of other sizes only those of the last run are kept.
    ///
    /// Returns the outputs where the model has them: each run of the model writes them anew.
    ///
    /// ```
    /// use wisp_engine::{
    ///     device::Device,
    ///     graph::{DType, Graph, Binary},
    ///     session::{InferenceSession, InitOptions, Tensor},
    ///     shape,
    ///     weights::MemoryWeights,
    /// };
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
    /// let outputs = pollster::block_on(model.capture(&[&of(1.0)?]))?;
    /// for value in [2.0, 3.0] {
    ///     pollster::block_on(model.replay(&[&of(value)?]))?;
    ///     let twice = pollster::block_on(outputs[0].to_host())?;
    ///     assert_eq!(twice.as_f32(), Some(&[2.0 * value; 2][..]));
    /// }
    /// let one = Tensor::f32(&[1], &[1.0]).ok_or("one number")?;
    /// let error = pollster::block_on(model.replay(&[&one])).unwrap_err().to_string();
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

    /// Writes inputs of captured sizes and submits their run. What it makes is in the tensors that
    /// [`Self::capture`] returned; nothing waits for it.
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
        self.write_all(&named).await?;
        self.run_whole(&dims).await?;
        Ok(self.device.submit()?)
    }
}
