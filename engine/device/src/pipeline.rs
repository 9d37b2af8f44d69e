//! Compiled kernels, the memory bound to them, and dispatches of the one with the other.

use wisp_shaders::Kernel;

use crate::{Device, DeviceError, backend::BackendObject, device::DeviceId};

/// A kernel that is compiled for a device, from [`Device::pipeline`]. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub(crate) kernel: &'static Kernel,
    pub(crate) device: DeviceId,
    pub(crate) object: BackendObject,
}

impl Pipeline {
    /// The kernel.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }
}

/// The memory that a dispatch reads and writes, by binding number, from [`Device::bind`]. Cloning shares
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
    workgroups: [u32; 3],
}

impl Dispatch {
    /// Makes a dispatch of `workgroups` workgroups in x, y and z; with a zero among them nothing runs.
    ///
    /// # Errors
    ///
    /// If the pipeline or the bind group is another device's, the bind group was made for a kernel with
    /// other bindings, or there are more workgroups than the device runs in one dimension.
    pub fn new(
        device: &Device,
        pipeline: &Pipeline,
        group: &BindGroup,
        workgroups: [u32; 3],
    ) -> Result<Dispatch, DeviceError> {
        let kernel = pipeline.kernel;
        let id = device.id();
        if pipeline.device != id || group.device != id {
            return Err(DeviceError::ForeignObject(kernel.name.into()));
        }
        if group.kernel.bindings != kernel.bindings {
            return Err(DeviceError::OtherBindings {
                kernel: kernel.name.into(),
                bound_for: group.kernel.name.into(),
            });
        }
        let info = device.info();
        let limit = info.capabilities.max_workgroups;
        if workgroups.iter().any(|count| *count > limit) {
            return Err(DeviceError::TooManyWorkgroups {
                kernel: kernel.name.into(),
                workgroups,
                device: info.name.clone(),
                limit,
            });
        }
        Ok(Dispatch {
            pipeline: pipeline.clone(),
            group: group.clone(),
            workgroups,
        })
    }

    /// The kernel that runs.
    pub fn kernel(&self) -> &'static Kernel {
        self.pipeline.kernel
    }

    /// Workgroups in x, y and z.
    pub fn workgroups(&self) -> [u32; 3] {
        self.workgroups
    }
}
