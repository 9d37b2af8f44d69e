//! Dispatches of a device.

use super::Device;
use crate::{
    error::DeviceError,
    pipeline::{BindGroup, Dispatch, Pipeline},
};

impl Dispatch {
    /// Makes a dispatch of `workgroups` workgroups in x, y and z; with a zero among them nothing runs.
    ///
    /// # Errors
    ///
    /// If the pipeline or the bind group is another device's, the bind group was made for a kernel with
    /// other bindings, or there are more workgroups than the device runs in one dimension; with CUDA also if less memory
    /// is bound than the type of a binding has.
    pub fn new(
        device: &Device,
        pipeline: &Pipeline,
        group: &BindGroup,
        workgroups: [u32; 3],
    ) -> Result<Dispatch, DeviceError> {
        let kernel = pipeline.kernel;
        let id = device.id;
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
        // A dispatch without workgroups runs nothing, so it needs nothing.
        if !workgroups.contains(&0) {
            device.backend.check_dispatch(pipeline, group)?;
        }
        Ok(Dispatch {
            pipeline: pipeline.clone(),
            group: group.clone(),
            workgroups,
            operations: 0,
        })
    }
}
