//! The dispatches and parameters of a run of some sizes, kept for the next run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wisp_compiler::{PARAMS_STRIDE, Program};
use wisp_device::{BindGroup, Buffer, Device, Dispatch, Sequence, Usage};

use crate::{bind::Memory, dims::Dims, error::SessionError};

/// A program's calls bound to a parameter buffer of their own, and the run that this buffer was last
/// written for.
#[derive(Debug)]
pub(crate) struct Recording {
    pub params: Buffer,
    pub groups: Vec<BindGroup>,
    run: Mutex<Option<Arc<Run>>>,
}

/// The dispatches of one run, in order; calls with an empty grid and skipped calls have none.
#[derive(Debug)]
pub(crate) struct Run {
    pub dims: Dims,
    pub sequence: Sequence,
    /// The index of each dispatch's call in the program.
    pub calls: Vec<usize>,
}

impl Run {
    /// The sizes of the symbolic dimensions.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// All dispatches.
    pub fn dispatches(&self) -> &[Dispatch] {
        self.sequence.dispatches()
    }

    /// The dispatch of a call; `None` if its grid is empty or the call is skipped.
    pub fn dispatch_of(&self, call: usize) -> Option<&Dispatch> {
        let at = self.calls.binary_search(&call).ok()?;
        self.dispatches().get(at)
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

    /// Drops the bind groups, which keep the memory alive.
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
