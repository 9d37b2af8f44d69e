//! A program's kernels and memory on a device.

use wisp_shaders::Kernel;

use crate::{
    compiled::CompiledModel,
    error::SessionError,
    init_options::InitOptions,
    session::InferenceSession,
    weights::{self, DeviceMatrix, DeviceWeights, Progress, Weights},
};
use wisp_compiler::{BufferRef, Call, KernelChoice, PARAMS_STRIDE, Port, Program, Size};
use wisp_device::{BindGroup, Buffer, BufferSlice, Device, Pipeline, Usage};
use wisp_weights::WeightSource;

/// A kernel that can perform a call.
#[derive(Debug)]
pub(crate) struct Choice {
    pub pipeline: Pipeline,
    /// The largest second grid dimension (rows) that it is selected for.
    pub most_rows: u32,
}

/// The kernel of a name in a program.
fn kernel(program: &Program, name: &str) -> Result<&'static Kernel, SessionError> {
    let kernel = program.kernel(name);
    kernel.ok_or_else(|| SessionError::UnknownKernel(name.into()))
}

/// The kernels that can perform a call, those for fewer rows first.
pub(crate) fn choices(
    session: &InferenceSession,
    compiled: &CompiledModel,
    call: &Call,
) -> Result<Vec<Choice>, SessionError> {
    let choice = |choice: &KernelChoice| {
        let kernel = kernel(compiled.program(), &choice.name)?;
        Ok(Choice {
            pipeline: session.pipeline(kernel, compiled.is_trusted())?,
            most_rows: choice.max_rows,
        })
    };
    call.kernels.iter().map(choice).collect()
}

/// The memory of a program, except the parameters of its calls.
#[derive(Debug)]
pub(crate) struct Memory {
    pub inputs: Vec<Buffer>,
    slots: Vec<Buffer>,
    constants: Vec<Buffer>,
    /// `None` after they were released.
    pub weights: Option<Weights>,
}

impl Memory {
    /// Allocates memory and loads the weights that are not on the device already.
    pub async fn new(
        device: &Device,
        program: &Program,
        max_dims: &[u64],
        source: &dyn WeightSource,
        options: &InitOptions<'_>,
        loaded: &mut DeviceWeights,
    ) -> Result<Memory, SessionError> {
        let total = weights::check(program, source, loaded)?;
        let bytes = |size: &Size| {
            size.eval(max_dims)
                .and_then(|elements| elements.checked_mul(4))
                .unwrap_or(u64::MAX)
        };
        let inputs = program
            .inputs
            .iter()
            .map(|port| input(device, port, bytes(&port.elements), options))
            .collect::<Result<Vec<_>, _>>()?;
        let mut slots = Vec::with_capacity(program.slots.len());
        for sizes in &program.slots {
            let bytes = sizes.iter().map(bytes).max().unwrap_or(0);
            slots.push(device.allocate("an intermediate result", bytes, Usage::Storage)?);
        }
        let mut progress = Progress::new(total, options.progress);
        let weights = weights::load(device, program, source, &mut progress, loaded).await?;
        let mut constants = Vec::with_capacity(program.constants.len());
        for words in &program.constants {
            let buffer = device.allocate("a constant", words.len() as u64 * 4, Usage::Storage)?;
            device.write(&buffer, 0, bytemuck::cast_slice(words))?;
            constants.push(buffer);
        }
        device.finish().await?;
        Ok(Memory {
            inputs,
            slots,
            constants,
            weights: Some(weights),
        })
    }

    /// The buffer of a reference, if it is a whole buffer and exists.
    pub fn buffer(&self, place: BufferRef) -> Option<&Buffer> {
        match place {
            BufferRef::Input(i) => self.inputs.get(i as usize),
            BufferRef::Slot(i) => self.slots.get(i as usize),
            BufferRef::Vector(i) => self.weights.as_ref()?.vectors.get(i as usize),
            BufferRef::Constant(i) => self.constants.get(i as usize),
            BufferRef::Matrix(..) => None,
        }
    }

    /// A matrix, if it exists.
    pub fn matrix(&self, matrix: u32) -> Option<&DeviceMatrix> {
        self.weights.as_ref()?.matrices.get(matrix as usize)
    }

    pub fn slice(&self, place: BufferRef) -> Option<BufferSlice> {
        match place {
            BufferRef::Matrix(i, plane) => Some(self.matrix(i)?.plane(plane)),
            place => self.buffer(place).map(Buffer::whole),
        }
    }

    /// Binds each of a program's calls to its memory, with its parameters in `params`.
    pub fn bind(
        &self,
        device: &Device,
        program: &Program,
        params: &Buffer,
    ) -> Result<Vec<BindGroup>, SessionError> {
        let calls = (0..).zip(&program.calls);
        let bind = |(index, call)| {
            let slice = |place| self.slice(place);
            bind_call(device, program, (index, call), params, slice)
        };
        calls.map(bind).collect()
    }
}

/// Binds one of a program's calls to memory, with its parameters at its place in `params`.
pub(crate) fn bind_call(
    device: &Device,
    program: &Program,
    (index, call): (u64, &Call),
    params: &Buffer,
    slice: impl Fn(BufferRef) -> Option<BufferSlice>,
) -> Result<BindGroup, SessionError> {
    let (offset, bytes) = (index * PARAMS_STRIDE, call.params.len() as u64 * 4);
    let mut bindings = vec![params.slice(offset..offset + bytes)];
    let places = call.bindings.iter().map(|place| slice(*place));
    match places.collect::<Option<Vec<_>>>() {
        Some(places) => bindings.extend(places),
        None => {
            let model = program.name.clone();
            return Err(SessionError::Released { model });
        }
    }
    let unknown = || SessionError::UnknownKernel(call.label.clone());
    let choice = call.kernels.first().ok_or_else(unknown)?;
    Ok(device.bind(kernel(program, &choice.name)?, &bindings)?)
}

/// An input's memory: shared by the caller, or new.
fn input(
    device: &Device,
    port: &Port,
    bytes: u64,
    options: &InitOptions<'_>,
) -> Result<Buffer, SessionError> {
    match options.shared.get(&port.name) {
        None => Ok(device.allocate(&port.name, bytes, Usage::Storage)?),
        Some(buffer) if buffer.bytes() >= bytes => Ok(buffer.clone()),
        Some(buffer) => Err(SessionError::SmallBuffer {
            name: port.name.clone(),
            needed: bytes,
            bytes: buffer.bytes(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wisp_compiler::compile;
    use wisp_graph::Graph;
    use wisp_types::Capabilities;

    #[test]
    fn an_unknown_kernel_is_reported() {
        let program = compile(&Graph::new("none"), &Capabilities::BASELINE).unwrap();
        assert_eq!(
            kernel(&program, "teleport.baseline")
                .unwrap_err()
                .to_string(),
            "the program needs the kernel teleport.baseline, which this version of Wisp does not \
             have: compile it again"
        );
    }
}
