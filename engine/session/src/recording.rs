//! What a run of some sizes takes, worked out once and kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wisp_compiler::{PARAMS_STRIDE, Program};
use wisp_device::{BindGroup, Buffer, Device, Dispatch, Usage};

use crate::{bind::Memory, dims::Dims, error::SessionError};

/// A program's calls bound to parameters of their own, and what they are for the sizes that these
/// parameters were last written for.
#[derive(Debug)]
pub(crate) struct Recording {
    pub params: Buffer,
    pub groups: Vec<BindGroup>,
    run: Mutex<Option<Arc<Run>>>,
}

/// The kernels of one run, in order; those with an empty grid are left out.
#[derive(Debug)]
pub(crate) struct Run {
    pub dims: Dims,
    pub dispatches: Vec<Dispatch>,
    /// The program's call that each dispatch does.
    pub calls: Vec<usize>,
}

impl Run {
    /// The sizes.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// All kernels.
    pub fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }

    /// The kernel of a call; none if its grid is empty.
    pub fn dispatch_of(&self, call: usize) -> Option<&Dispatch> {
        let at = self.calls.binary_search(&call).ok()?;
        self.dispatches.get(at)
    }
}

impl Recording {
    pub fn new(
        device: &Device,
        program: &Program,
        memory: &Memory,
    ) -> Result<Recording, SessionError> {
        let bytes = program.calls.len() as u64 * PARAMS_STRIDE;
        let params = device.allocate("parameters", bytes, Usage::Uniform)?;
        Ok(Recording {
            groups: memory.bind(device, program, &params)?,
            params,
            run: Mutex::default(),
        })
    }

    /// Lets go of the memory that the calls are bound to.
    pub fn release(&mut self) {
        self.groups = Vec::new();
        *self.locked() = None;
    }

    /// Binds the calls to other memory.
    pub fn bind(
        &mut self,
        device: &Device,
        program: &Program,
        memory: &Memory,
    ) -> Result<(), SessionError> {
        self.release();
        self.groups = memory.bind(device, program, &self.params)?;
        Ok(())
    }

    /// The run of the sizes that the parameters were last written for.
    pub fn locked(&self) -> MutexGuard<'_, Option<Arc<Run>>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
