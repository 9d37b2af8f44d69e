//! Compiled kernels, the memory bound to them, and dispatches of the one with the other.

use wisp_shaders::Kernel;

use crate::{device_id::DeviceId, object::BackendObject};

/// A kernel that is compiled for a device, from [`Device::pipeline`](crate::Device::pipeline). Cloning shares it.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub(crate) kernel: &'static Kernel,
    pub(crate) device: DeviceId,
    pub(crate) object: BackendObject,
}

impl Pipeline {
    /// Returns the kernel that the pipeline was compiled from.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }
}

/// The memory that a dispatch reads and writes, by binding number, from [`Device::bind`](crate::Device::bind). Cloning shares
/// it.
#[derive(Clone, Debug)]
pub struct BindGroup {
    /// The kernel that it was made for; others with the same kinds of bindings can use it too.
    pub(crate) kernel: &'static Kernel,
    pub(crate) device: DeviceId,
    pub(crate) object: BackendObject,
}

/// One execution of a kernel: what to run, on which memory, and how many workgroups. Its parts are checked
/// against each other when it is made.
#[derive(Clone, Debug)]
pub struct Dispatch {
    pub(crate) pipeline: Pipeline,
    pub(crate) group: BindGroup,
    pub(crate) workgroups: [u32; 3],
    pub(crate) operations: u64,
}

impl Dispatch {
    /// The kernel that runs.
    pub fn kernel(&self) -> &'static Kernel {
        self.pipeline.kernel
    }

    /// Workgroups in x, y and z.
    pub fn workgroups(&self) -> [u32; 3] {
        self.workgroups
    }

    /// The floating-point operations that the dispatch is estimated to do; 0 if nobody has estimated them.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Sets the estimate of floating-point operations. GPUs get many operations in several submissions,
    /// because drivers limit the time of one.
    #[must_use]
    pub fn with_operations(mut self, operations: u64) -> Dispatch {
        self.operations = operations;
        self
    }
}
