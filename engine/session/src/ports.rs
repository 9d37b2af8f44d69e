//! A model's inputs and outputs: writing, reading and sharing their memory.

use wisp_compiler::Port;
use wisp_device::DeviceError;

use crate::{
    dims::Dims,
    error::SessionError,
    model::Model,
    tensor::{Tensor, Values},
};

impl Model {
    /// The inputs of a run, in the order of [`Self::execute`]: names, types and shapes.
    pub fn inputs(&self) -> impl Iterator<Item = &Port> {
        let program = self.program();
        let ports = (0u32..).zip(&program.inputs);
        ports
            .filter(|(i, _)| !program.buffers.contains(i))
            .map(|(_, port)| port)
    }

    /// The outputs of a run, in the order of [`Self::execute`]: names, types and shapes.
    pub fn outputs(&self) -> &[Port] {
        &self.program().outputs
    }

    /// Writes an input or buffer from its start. The next run sees the data.
    ///
    /// # Errors
    ///
    /// If the model has no input or buffer of that name, or it is smaller than `data`.
    pub fn write<T: bytemuck::NoUninit>(&self, name: &str, data: &[T]) -> Result<(), SessionError> {
        self.write_at(name, 0, data)
    }

    /// Writes part of an input or buffer, beginning at element `start` of type `T`.
    ///
    /// # Errors
    ///
    /// If the model has no input or buffer of that name, or the part exceeds it.
    pub fn write_at<T: bytemuck::NoUninit>(
        &self,
        name: &str,
        start: u64,
        data: &[T],
    ) -> Result<(), SessionError> {
        let port = self.port("input or buffer", &self.program.inputs, name)?;
        if let (Some(buffer), false) = (self.memory.buffer(port.buffer), data.is_empty()) {
            let start = start.saturating_mul(size_of::<T>() as u64);
            let written = self.device.write(buffer, start, bytemuck::cast_slice(data));
            written.map_err(|error| named(name, error))?;
        }
        Ok(())
    }

    /// Writes a tensor to the start of an input or buffer. Copies nothing if the tensor already is in that
    /// memory.
    ///
    /// # Errors
    ///
    /// If the model has no input or buffer of that name, it is smaller than the tensor, or a device fails.
    pub async fn write_tensor(&self, name: &str, tensor: &Tensor) -> Result<(), SessionError> {
        let port = self.port("input or buffer", &self.program.inputs, name)?;
        let buffer = self.memory_of(port)?;
        let written = tensor.write_to(&self.device, buffer).await;
        Ok(written.map_err(|error| named(name, error))?)
    }

    /// [`Self::write_tensor`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::write_tensor`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn write_tensor_blocking(&self, name: &str, tensor: &Tensor) -> Result<(), SessionError> {
        pollster::block_on(self.write_tensor(name, tensor))
    }

    /// An input or buffer as a tensor over the model's memory, with its shape in a run of these sizes.
    ///
    /// # Errors
    ///
    /// If the model has no input or buffer of that name.
    pub fn input_on_device(&self, name: &str, dims: &Dims) -> Result<Tensor, SessionError> {
        let port = self.port("input or buffer", &self.program.inputs, name)?;
        self.port_on_device(port, dims)
    }

    /// Reads the first `elements` of an input, buffer or output, as they are after all work recorded so far: of an input
    /// and an output of one name, the output.
    /// The call itself submits that work and the read; work recorded before the future is awaited runs
    /// after the read.
    ///
    /// # Errors
    ///
    /// As [`Self::buffer`], and if it has fewer elements.
    pub fn read<T: bytemuck::Pod>(
        &self,
        name: &str,
        elements: u64,
    ) -> impl Future<Output = Result<Vec<T>, SessionError>> + use<T> {
        let bytes = elements.saturating_mul(size_of::<T>() as u64);
        let mut outputs = self.program.outputs.iter();
        let buffer = match outputs.find(|port| port.name == name) {
            Some(port) => self.memory_of(port),
            None => self.buffer(name),
        };
        let read = buffer.map(|buffer| match bytes {
            0 => None,
            _ => Some(self.device.read(buffer, 0..bytes)),
        });
        let name = name.to_string();
        async move {
            let Some(read) = read? else {
                return Ok(Vec::new());
            };
            let bytes = read.await.map_err(|error| named(&name, error))?;
            Ok(bytemuck::pod_collect_to_vec(&bytes))
        }
    }

    /// [`Self::read`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read_blocking<T: bytemuck::Pod>(
        &self,
        name: &str,
        elements: u64,
    ) -> Result<Vec<T>, SessionError> {
        pollster::block_on(self.read::<T>(name, elements))
    }

    /// An output as a tensor over the model's memory, with its shape in a run of these sizes. Copies nothing
    /// and waits for nothing. Every run of the model overwrites it: read it ([`Tensor::to_host`]) or pass it
    /// to another model on this device before the next run.
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_graph::{Binary, DType, Graph};
    /// use wisp_session::{InferenceSession, InitOptions, Tensor};
    /// use wisp_types::shape;
    /// use wisp_weights::MemoryWeights;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut graph = Graph::new("double");
    /// let x = graph.input("x", DType::F32, shape![3u64]);
    /// let twice = graph.add(Binary::Add, &[x, x])?;
    /// graph.output("twice", twice);
    /// let session = InferenceSession::new(Device::host(1)?);
    /// let double = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
    /// let dims = double.dims(&[])?;
    /// let twice = double.output_on_device("twice", &dims)?;
    ///
    /// double.write("x", &[1.0f32, 2.0, 3.0])?;
    /// double.run(&dims)?;
    /// assert_eq!(twice.to_host_blocking()?.as_f32(), Some(&[2.0, 4.0, 6.0][..]));
    /// // The result is the input of the next run, which overwrites it.
    /// double.execute_blocking(&[&twice])?;
    /// assert_eq!(twice.to_host_blocking()?.as_f32(), Some(&[4.0, 8.0, 12.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the model has no output of that name, or it is a weight that was released.
    pub fn output_on_device(&self, name: &str, dims: &Dims) -> Result<Tensor, SessionError> {
        self.port_on_device(self.port("output", self.outputs(), name)?, dims)
    }

    pub(crate) fn port_on_device(&self, port: &Port, dims: &Dims) -> Result<Tensor, SessionError> {
        let size = |dim| self.size_of(dim, dims).unwrap_or(0);
        let shape = port.shape.0.iter().map(size).collect();
        let values = Values::On(self.device().clone(), self.memory_of(port)?.clone());
        Ok(Tensor::new(port.dtype, shape, values))
    }

    /// All outputs of a run of these sizes, in their order; see [`Self::output_on_device`].
    ///
    /// # Errors
    ///
    /// As [`Self::output_on_device`].
    pub fn outputs_on_device(&self, dims: &Dims) -> Result<Vec<Tensor>, SessionError> {
        let output = |port: &Port| self.output_on_device(&port.name, dims);
        self.outputs().iter().map(output).collect()
    }
}

/// The error with the port's name as its label: a shared buffer may have another label.
fn named(name: &str, error: DeviceError) -> DeviceError {
    match error {
        DeviceError::OutOfBounds {
            start, end, bytes, ..
        } => DeviceError::OutOfBounds {
            label: name.into(),
            start,
            end,
            bytes,
        },
        other => other,
    }
}
