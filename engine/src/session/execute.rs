//! One call from inputs to outputs, by position or by name.

use std::collections::BTreeMap;

use super::{Model, SessionError};
use crate::{
    compiler::Port,
    graph::{DType, Dim},
};

/// Numbers with their shape, outermost dimension first, on the host.
///
/// ```
/// use wisp_engine::session::Tensor;
///
/// let x = Tensor::f32(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).expect("six numbers");
/// assert_eq!(x.shape(), [2, 3]);
/// assert_eq!(x.as_f32().map(|values| values[4]), Some(4.0));
/// assert!(Tensor::u32(&[2, 3], &[1]).is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<u64>,
    words: Vec<u32>,
}

impl Tensor {
    fn new(dtype: DType, shape: &[u64], words: Vec<u32>) -> Option<Tensor> {
        (elements(shape)? == words.len() as u64).then(|| Tensor {
            dtype,
            shape: shape.to_vec(),
            words,
        })
    }

    /// Floats; `None` if they are not as many as the shape has.
    pub fn f32(shape: &[u64], values: &[f32]) -> Option<Tensor> {
        Tensor::new(DType::F32, shape, bytemuck::cast_slice(values).to_vec())
    }

    /// Whole numbers; `None` if they are not as many as the shape has.
    pub fn u32(shape: &[u64], values: &[u32]) -> Option<Tensor> {
        Tensor::new(DType::U32, shape, values.to_vec())
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Its elements, if they are floats.
    pub fn as_f32(&self) -> Option<&[f32]> {
        (self.dtype == DType::F32).then(|| bytemuck::cast_slice(&self.words))
    }

    /// Its elements, if they are whole numbers.
    pub fn as_u32(&self) -> Option<&[u32]> {
        (self.dtype == DType::U32).then_some(&self.words)
    }
}

fn elements(shape: &[u64]) -> Option<u64> {
    shape
        .iter()
        .try_fold(1u64, |all, size| all.checked_mul(*size))
}

impl Model {
    /// What the caller writes before each run, in the order of [`Self::execute`]: names, types and
    /// shapes.
    pub fn inputs(&self) -> impl Iterator<Item = &Port> {
        let program = self.program();
        let ports = (0u32..).zip(&program.inputs);
        ports
            .filter(|(i, _)| !program.buffers.contains(i))
            .map(|(_, port)| port)
    }

    /// What a run makes, in the order of [`Self::execute`]: names, types and shapes.
    pub fn outputs(&self) -> &[Port] {
        &self.program().outputs
    }

    /// Runs the model once: takes its inputs in their order and gives its outputs in theirs. The sizes of
    /// symbolic dimensions are those of the inputs. (With [`Self::write`], [`Self::run`] and
    /// [`Self::buffer`] inputs and outputs can stay on the device.)
    ///
    /// ```
    /// use wisp_engine::{
    ///     device::Device,
    ///     graph::{DType, Graph, Op},
    ///     session::{InferenceSession, InitOptions, Tensor},
    ///     shape,
    ///     weights::MemoryWeights,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut graph = Graph::new("double");
    /// let x = graph.input("x", DType::F32, shape!["n"]);
    /// let twice = graph.add(Op::Add { scale: 1.0 }, &[x, x])?;
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
        let names: Vec<&str> = self.inputs().map(|port| port.name.as_str()).collect();
        if names.len() != inputs.len() {
            return Err(SessionError::Inputs {
                model: self.program().name.clone(),
                given: inputs.len(),
                expected: names.iter().map(|name| name.to_string()).collect(),
            });
        }
        let named: Vec<_> = names.into_iter().zip(inputs.iter().copied()).collect();
        self.run_with(&named).await
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
        for (name, _) in inputs {
            if !self.inputs().any(|port| port.name == *name) {
                return Err(SessionError::UnknownPort {
                    model: self.program().name.clone(),
                    what: "input",
                    name: name.to_string(),
                    has: self.inputs().map(|port| port.name.clone()).collect(),
                });
            }
        }
        let outputs = self.run_with(inputs).await?;
        let names = self.outputs().iter().map(|port| port.name.clone());
        Ok(names.zip(outputs).collect())
    }

    async fn run_with(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, SessionError> {
        let mut sizes: Vec<(&str, u64)> = Vec::new();
        for port in self.inputs() {
            let given = inputs.iter().find(|(name, _)| *name == port.name);
            let fits = given.is_some_and(|(_, tensor)| fits(port, tensor, &mut sizes));
            if !fits {
                return Err(SessionError::Input {
                    model: self.program().name.clone(),
                    name: port.name.clone(),
                    expected: format!("{}{}", port.dtype, port.shape),
                    given: given.map_or("not given".into(), |(_, tensor)| {
                        format!("{}{:?}", tensor.dtype, tensor.shape)
                    }),
                });
            }
        }
        let dims = self.dims(&sizes)?;
        for (name, tensor) in inputs {
            self.write(name, &tensor.words)?;
        }
        let this = [(self, &dims)];
        match self.debugger.is_on(&this) {
            true => self.debugger.run(self.device(), &this, 1).await?,
            false => self.run(&dims)?,
        }
        let mut outputs = Vec::with_capacity(self.outputs().len());
        for port in self.outputs() {
            // `dims` has found all of them.
            let size = |dim: &Dim| known_size(&sizes, dim).unwrap_or(0);
            let shape: Vec<u64> = port.shape.0.iter().map(size).collect();
            let words = self.read(&port.name, elements(&shape).unwrap_or(0)).await?;
            outputs.push(Tensor {
                dtype: port.dtype,
                shape,
                words,
            });
        }
        Ok(outputs)
    }
}

fn size_of(sizes: &[(&str, u64)], name: &str) -> Option<u64> {
    let known = sizes.iter().find(|(other, _)| *other == name)?;
    Some(known.1)
}

/// The size of a dimension, if what it depends on is known.
fn known_size(sizes: &[(&str, u64)], dim: &Dim) -> Option<u64> {
    let sum = dim.sum();
    sum.terms
        .iter()
        .try_fold(sum.constant, |all, (name, times)| {
            all.checked_add(size_of(sizes, name)?.checked_mul(*times)?)
        })
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
        // Its parts are those of inputs before it.
        Dim::Sum(_) => known_size(sizes, dim) == Some(*size),
    };
    port.dtype == tensor.dtype
        && port.shape.0.len() == tensor.shape.len()
        && port.shape.0.iter().zip(&tensor.shape).all(&mut same)
}
