//! Executing a model with tensors, by position or by name.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{error::SessionError, model::Model, tensor::Tensor};
use wisp_compiler::Port;
use wisp_device::Buffer;
use wisp_types::Dim;

impl Model {
    /// Runs the model once with inputs in their order, and returns the outputs in theirs, in host memory. The
    /// shapes of the inputs determine the symbolic dimensions. Executions that are started at the same time wait for each
    /// other. ([`Self::execute_on_device`] leaves the
    /// outputs on the device; [`InitOptions::shared`](crate::InitOptions::shared) lets models share memory.)
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
    /// let model = session.load_blocking(&graph, &MemoryWeights::default(), options)?;
    ///
    /// let x = Tensor::f32(&[3], &[1.0, 2.0, 3.0]).ok_or("three numbers")?;
    /// let outputs = model.execute_blocking(&[&x])?;
    /// assert_eq!(outputs[0].as_f32(), Some(&[2.0, 4.0, 6.0][..]));
    /// let outputs = model.execute_named_blocking(&[("x", &x)])?;
    /// assert_eq!(outputs["twice"].shape(), [3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the number of inputs or the type or shape of one differs from the model's, or the device fails.
    pub async fn execute(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        let named = by_position(&self.program().name, self.inputs(), inputs)?;
        self.execute_all(&named).await
    }

    /// [`Self::execute`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::execute`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn execute_blocking(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        pollster::block_on(self.execute(inputs))
    }

    /// As [`Self::execute`], with inputs and outputs by name.
    ///
    /// # Errors
    ///
    /// As [`Self::execute`], and if the model has no input of a name.
    pub async fn execute_named(
        &self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<BTreeMap<String, Tensor>, SessionError> {
        check_names(&self.program().name, self.inputs(), inputs)?;
        let outputs = self.execute_all(inputs).await?;
        let names = self.outputs().iter().map(|port| port.name.clone());
        Ok(names.zip(outputs).collect())
    }

    /// [`Self::execute_named`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::execute_named`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn execute_named_blocking(
        &self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<BTreeMap<String, Tensor>, SessionError> {
        pollster::block_on(self.execute_named(inputs))
    }

    /// As [`Self::execute`], but copies the outputs to new memory on the device, where other models can read
    /// them; [`Tensor::to`] copies them elsewhere. Does not wait for the device.
    ///
    /// ```
    /// # use wisp_device::Device;
    /// # use wisp_graph::{DType, Graph, Binary};
    /// # use wisp_session::{InferenceSession, InitOptions, Tensor};
    /// # use wisp_types::shape;
    /// # use wisp_weights::MemoryWeights;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut graph = Graph::new("double");
    /// # let x = graph.input("x", DType::F32, shape![3u64]);
    /// # let twice = graph.add(Binary::Add, &[x, x])?;
    /// # graph.output("twice", twice);
    /// # let session = InferenceSession::new(Device::host(1)?);
    /// # let double = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
    /// let x = Tensor::f32(&[3], &[1.0, 2.0, 3.0]).ok_or("three numbers")?;
    /// let twice = double.execute_on_device_blocking(&[&x])?;
    /// let fourfold = double.execute_blocking(&[&twice[0]])?;
    /// assert_eq!(fourfold[0].as_f32(), Some(&[4.0, 8.0, 12.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::execute`], and if the device is out of memory.
    pub async fn execute_on_device(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        let named = by_position(&self.program().name, self.inputs(), inputs)?;
        let sizes = self.sizes(&named)?;
        let dims = self.dims(&sizes)?;
        let _alone = self.execution.lock().await;
        self.write_all(&named).await?;
        self.run_whole(&dims).await?;
        let outputs = self.outputs_on_device(&dims)?;
        let outputs = outputs.iter().map(Tensor::copied).collect();
        self.device().submit()?;
        outputs
    }

    /// [`Self::execute_on_device`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::execute_on_device`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn execute_on_device_blocking(
        &self,
        inputs: &[&Tensor],
    ) -> Result<Vec<Tensor>, SessionError> {
        pollster::block_on(self.execute_on_device(inputs))
    }

    /// Checks the inputs against the model's; returns the sizes of its symbolic dimensions.
    pub(crate) fn sizes<'a>(
        &'a self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<Vec<(&'a str, u64)>, SessionError> {
        sizes(&self.program().name, self.inputs(), inputs)
    }

    /// Writes inputs that [`Self::sizes`] has checked.
    pub(crate) async fn write_all(&self, inputs: &[(&str, &Tensor)]) -> Result<(), SessionError> {
        let own: Result<Vec<&Buffer>, _> =
            inputs.iter().map(|(name, _)| self.buffer(name)).collect();
        let own = own?;
        let mut values = Vec::with_capacity(inputs.len());
        for ((_, tensor), to) in inputs.iter().zip(&own) {
            // What stands in another input would be overwritten before it is read.
            let mut others = own.iter().filter(|other| !other.is(to));
            values.push(match others.any(|other| tensor.is_in(other)) {
                true => Cow::Owned(tensor.copied()?),
                false => Cow::Borrowed(*tensor),
            });
        }
        for (value, to) in values.iter().zip(own) {
            value.write_to(self.device(), to).await?;
        }
        Ok(())
    }

    async fn execute_all(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, SessionError> {
        let sizes = self.sizes(inputs)?;
        let dims = self.dims(&sizes)?;
        let outputs = {
            let _alone = self.execution.lock().await;
            self.write_all(inputs).await?;
            self.run_whole(&dims).await?;
            to_host(self.outputs_on_device(&dims)?)
        };
        outputs.await
    }
}

/// The tensors with the names of the inputs in their order.
pub(crate) fn by_position<'a, 't>(
    model: &str,
    ports: impl Iterator<Item = &'a Port>,
    inputs: &[&'t Tensor],
) -> Result<Vec<(&'a str, &'t Tensor)>, SessionError> {
    let names: Vec<&str> = ports.map(|port| port.name.as_str()).collect();
    if names.len() != inputs.len() {
        return Err(SessionError::Inputs {
            model: model.into(),
            given: inputs.len(),
            expected: names.iter().map(|name| name.to_string()).collect(),
        });
    }
    Ok(names.into_iter().zip(inputs.iter().copied()).collect())
}

/// Checks that every name is that of an input, and that none is given twice.
pub(crate) fn check_names<'a>(
    model: &str,
    ports: impl Iterator<Item = &'a Port>,
    inputs: &[(&str, &Tensor)],
) -> Result<(), SessionError> {
    let has: Vec<&str> = ports.map(|port| port.name.as_str()).collect();
    for (at, (name, _)) in inputs.iter().enumerate() {
        if inputs[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(SessionError::InputTwice {
                model: model.into(),
                name: name.to_string(),
            });
        }
    }
    match inputs.iter().find(|(name, _)| !has.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(SessionError::UnknownPort {
            model: model.into(),
            what: "input",
            name: name.to_string(),
            has: has.iter().map(|name| name.to_string()).collect(),
        }),
    }
}

/// Checks tensors against the types and shapes of the inputs; returns the sizes of symbolic dimensions.
pub(crate) fn sizes<'a>(
    model: &str,
    ports: impl Iterator<Item = &'a Port>,
    inputs: &[(&str, &Tensor)],
) -> Result<Vec<(&'a str, u64)>, SessionError> {
    let mut sizes = Vec::new();
    let ports: Vec<&Port> = ports.collect();
    // Twice, because a sum may have a dimension that only a later input determines.
    for port in ports.iter().chain(&ports) {
        let given = inputs.iter().find(|(name, _)| *name == port.name);
        if !given.is_some_and(|(_, tensor)| fits(port, tensor, &mut sizes)) {
            return Err(SessionError::Input {
                model: model.into(),
                name: port.name.clone(),
                expected: format!("{}{}", port.dtype, port.shape),
                given: given.map_or("not given".into(), |(_, tensor)| {
                    format!("{}{:?}", tensor.dtype(), tensor.shape())
                }),
            });
        }
    }
    Ok(sizes)
}

fn size_of(sizes: &[(&str, u64)], name: &str) -> Option<u64> {
    let known = sizes.iter().find(|(other, _)| *other == name)?;
    Some(known.1)
}

/// Copies tensors to the host. This call itself starts all reads, after all work recorded so far.
pub(crate) fn to_host(
    tensors: Vec<Tensor>,
) -> impl Future<Output = Result<Vec<Tensor>, SessionError>> {
    let reads: Vec<_> = tensors.iter().map(Tensor::to_host).collect();
    async move {
        let mut there = Vec::with_capacity(reads.len());
        for read in reads {
            there.push(read.await?);
        }
        Ok(there)
    }
}

/// True if a tensor has an input's type and shape; adds the sizes of symbolic dimensions that it determines.
fn fits<'a>(port: &'a Port, tensor: &Tensor, sizes: &mut Vec<(&'a str, u64)>) -> bool {
    let mut same = |(dim, size): (&'a Dim, &u64)| match dim {
        Dim::Fixed(expected) => expected == size,
        Dim::Symbol(name) => match size_of(sizes, name) {
            Some(known) => known == *size,
            None => {
                sizes.push((name, *size));
                true
            }
        },
        // A sum that is unknown now is checked in the second pass, or its dimensions are missing at the run.
        Dim::Sum(_) => {
            let known = dim.resolve(|name| size_of(sizes, name));
            known.is_none_or(|known| known == *size)
        }
    };
    port.dtype == tensor.dtype()
        && port.shape.0.len() == tensor.shape().len()
        && port.shape.0.iter().zip(tensor.shape()).all(&mut same)
}
