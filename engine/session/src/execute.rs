//! One call from inputs to outputs, by position or by name.

use std::collections::BTreeMap;

use crate::{error::SessionError, model::Model, tensor::Tensor};
use wisp_compiler::Port;
use wisp_types::Dim;

impl Model {
    /// Runs the model once: takes its inputs in their order and gives its outputs in theirs. The sizes of
    /// symbolic dimensions are those of the inputs. ([`Self::execute_on_device`] leaves the outputs on the
    /// device; [`InitOptions::shared`](super::InitOptions::shared) lets models work in the same memory.)
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
    /// let model = session.load_blocking(&graph, &MemoryWeights::default(), options)?;
    ///
    /// let x = Tensor::f32(&[3], &[1.0, 2.0, 3.0]).ok_or("three numbers")?;
    /// let outputs = pollster::block_on(model.execute(&[&x]))?;
    /// assert_eq!(outputs[0].as_f32(), Some(&[2.0, 4.0, 6.0][..]));
    /// let outputs = pollster::block_on(model.execute_named(&[("x", &x)]))?;
    /// assert_eq!(outputs["twice"].shape(), [3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there are more or fewer inputs, or one has another type or shape, or the device fails.
    pub async fn execute(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        let named = by_position(&self.program().name, self.inputs(), inputs)?;
        self.execute_all(&named).await
    }

    /// As [`Self::execute`], by names.
    ///
    /// # Errors
    ///
    /// As [`Self::execute`], and if a name is not an input's.
    pub async fn execute_named(
        &self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<BTreeMap<String, Tensor>, SessionError> {
        check_names(&self.program().name, self.inputs(), inputs)?;
        let outputs = self.execute_all(inputs).await?;
        let names = self.outputs().iter().map(|port| port.name.clone());
        Ok(names.zip(outputs).collect())
    }

    /// As [`Self::execute`], but the outputs stay on the device, in memory of their own: to be given to
    /// another model there, or [brought](Tensor::to) elsewhere. Nothing waits for the device.
    ///
    /// ```
    /// # use wisp_engine::{
    /// #     device::Device,
    /// #     graph::{DType, Graph, Binary},
    /// #     session::{InferenceSession, InitOptions, Tensor},
    /// #     shape,
    /// #     weights::MemoryWeights,
    /// # };
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut graph = Graph::new("double");
    /// # let x = graph.input("x", DType::F32, shape![3u64]);
    /// # let twice = graph.add(Binary::Add, &[x, x])?;
    /// # graph.output("twice", twice);
    /// # let session = InferenceSession::new(Device::host(1)?);
    /// # let double = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
    /// let x = Tensor::f32(&[3], &[1.0, 2.0, 3.0]).ok_or("three numbers")?;
    /// let twice = pollster::block_on(double.execute_on_device(&[&x]))?;
    /// let fourfold = pollster::block_on(double.execute(&[&twice[0]]))?;
    /// assert_eq!(fourfold[0].as_f32(), Some(&[4.0, 8.0, 12.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::execute`], and if the device has no memory left.
    pub async fn execute_on_device(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        let named = by_position(&self.program().name, self.inputs(), inputs)?;
        let sizes = self.sizes(&named)?;
        let dims = self.dims(&sizes)?;
        self.write_all(&named).await?;
        self.run_whole(&dims).await?;
        let outputs = self.outputs_on_device(&dims)?;
        let outputs = outputs.iter().map(Tensor::copied).collect();
        self.device().submit()?;
        outputs
    }

    /// Checks the inputs against what the model takes; the sizes of its symbolic dimensions.
    pub(crate) fn sizes<'a>(
        &'a self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<Vec<(&'a str, u64)>, SessionError> {
        sizes(&self.program().name, self.inputs(), inputs)
    }

    /// Writes inputs that were checked.
    pub(crate) async fn write_all(&self, inputs: &[(&str, &Tensor)]) -> Result<(), SessionError> {
        for (name, tensor) in inputs {
            let buffer = self.buffer(name)?;
            tensor.write_to(self.device(), buffer).await?;
        }
        Ok(())
    }

    async fn execute_all(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, SessionError> {
        let sizes = self.sizes(inputs)?;
        let dims = self.dims(&sizes)?;
        self.write_all(inputs).await?;
        self.run_whole(&dims).await?;
        to_host(self.outputs_on_device(&dims)?).await
    }
}

/// Names of inputs for tensors in their order.
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

/// Checks that every name is an input's.
pub(crate) fn check_names<'a>(
    model: &str,
    ports: impl Iterator<Item = &'a Port>,
    inputs: &[(&str, &Tensor)],
) -> Result<(), SessionError> {
    let has: Vec<&str> = ports.map(|port| port.name.as_str()).collect();
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

/// Checks inputs against what a model takes; the sizes of the symbolic dimensions that they have.
pub(crate) fn sizes<'a>(
    model: &str,
    ports: impl Iterator<Item = &'a Port>,
    inputs: &[(&str, &Tensor)],
) -> Result<Vec<(&'a str, u64)>, SessionError> {
    let mut sizes = Vec::new();
    let ports: Vec<&Port> = ports.collect();
    // Twice: the parts of a sum may be those of a later input.
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

/// Brings tensors to the host: all reads are started before the first is waited for.
pub(crate) async fn to_host(tensors: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError> {
    let reads: Vec<_> = tensors.iter().map(Tensor::to_host).collect();
    let mut there = Vec::with_capacity(reads.len());
    for read in reads {
        there.push(read.await?);
    }
    Ok(there)
}

/// True if a tensor is what an input takes; adds the sizes of symbolic dimensions that it gives.
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
        // What is not known yet may be later, or is missed when the model runs.
        Dim::Sum(_) => {
            let known = dim.resolve(|name| size_of(sizes, name));
            known.is_none_or(|known| known == *size)
        }
    };
    port.dtype == tensor.dtype()
        && port.shape.0.len() == tensor.shape().len()
        && port.shape.0.iter().zip(tensor.shape()).all(&mut same)
}
