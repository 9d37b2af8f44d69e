//! The calls of a program that are measured together, and their dispatches.

use std::collections::HashMap;

use wisp_compiler::{BufferRef, CallShape, KernelChoice, Tuning, fitting_kernels, kernels_of};
use wisp_device::{BindGroup, Dispatch, Pipeline};
use wisp_shaders::{DeviceClass, Kernel};

use crate::{
    bind::bind_call, dims::Dims, error::SessionError, model::Model, session::InferenceSession,
};

/// The most copies of a group's weights.
const MAX_COPIES: u64 = 64;

/// The calls of one shape and number of rows, and the kernels that can do them.
pub(super) struct Group {
    pub shape: CallShape,
    pub rows: u32,
    /// The calls, by their index in the program.
    pub calls: Vec<usize>,
    /// The kernels, the default first.
    pub kernels: Vec<&'static Kernel>,
    /// The kernels that run by default, for all numbers of rows.
    pub default_kernels: Vec<KernelChoice>,
}

impl Group {
    /// Returns the groups of a run in which more than one kernel can do the calls.
    pub fn all(session: &InferenceSession, model: &Model, dims: &Dims) -> Vec<Group> {
        let info = model.device.info();
        let (target, switches) = (&info.capabilities, session.switches());
        // What runs without a tuning of this device, whatever the model was compiled with.
        let adapter = Tuning::of_adapter(info);
        let mut groups: Vec<Group> = Vec::new();
        for (index, call) in model.program.calls.iter().enumerate() {
            let rows = call.grid[1].eval(&dims.0);
            let rows = rows.and_then(|rows| u32::try_from(rows).ok());
            let runs = model.kernel_of(index, dims).is_some();
            let (Some(shape), Some(rows), true) = (CallShape::of(call), rows, runs) else {
                continue;
            };
            let is_same = |group: &&mut Group| group.shape == shape && group.rows == rows;
            if let Some(group) = groups.iter_mut().find(is_same) {
                group.calls.push(index);
                continue;
            }
            let default_kernels = kernels_of(&shape, target, switches, &adapter);
            let default = default_kernels
                .iter()
                .find(|choice| rows <= choice.max_rows);
            let default = default.and_then(|choice| wisp_shaders::kernel(&choice.name));
            let Some(default) = default else {
                continue;
            };
            let fitting = fitting_kernels(&shape, target, switches);
            let others =
                fitting.filter(|kernel| kernel.max_grid_y >= rows && kernel.name != default.name);
            let kernels: Vec<_> = std::iter::once(default).chain(others).collect();
            groups.push(Group {
                shape,
                rows,
                calls: vec![index],
                kernels,
                default_kernels,
            });
        }
        groups.retain(|group| group.kernels.len() > 1);
        groups
    }

    /// Returns the index of the baseline among the kernels, or else that of an exact one, or of the default.
    pub fn baseline(&self) -> usize {
        let serves_all = |kernel: &Kernel| {
            // Products in 8 bits have no others to compare with.
            let mut switches = kernel.switches.iter();
            switches.all(|switch| *switch == "int8") && kernel.max_grid_y == u32::MAX
        };
        let is_baseline =
            |kernel: &&Kernel| serves_all(kernel) && kernel.device_class == DeviceClass::Any;
        let found = self.kernels.iter().rposition(is_baseline);
        // Ops that only GPUs have lack a baseline; their kernels without switches are as exact.
        let found = found.or_else(|| self.kernels.iter().rposition(|kernel| serves_all(kernel)));
        found.unwrap_or(0)
    }

    /// Returns what the calls compute: the label of the first one with N for its numbers.
    pub fn label(&self, model: &Model) -> String {
        let call = self
            .calls
            .first()
            .and_then(|call| model.program.calls.get(*call));
        call.map_or(String::new(), |call| {
            crate::profile::numberless(&call.label)
        })
    }
}

/// The dispatches of a group with each of its kernels, in a ring: over the calls, and over copies of their
/// weights until these are larger than the device's caches.
pub(super) struct Ring {
    /// For each kernel a dispatch of each call and copy.
    dispatches: Vec<Vec<Dispatch>>,
}

impl Ring {
    /// Binds the calls of a group in a run that is prepared, and stays so while the dispatches are used.
    /// `cold_bytes` are the bytes of weights to go through before one is read
    /// again.
    pub fn new(
        model: &Model,
        dims: &Dims,
        group: &Group,
        pipelines: &[Pipeline],
        cold_bytes: u64,
    ) -> Result<Ring, SessionError> {
        let mut ring = Ring {
            dispatches: vec![Vec::new(); pipelines.len()],
        };
        for call in &group.calls {
            if let Some(bound) = model.recording_of(dims).groups.get(*call) {
                ring.add(model, dims, *call, bound, pipelines)?;
            }
        }
        let program = &model.program;
        let calls = group
            .calls
            .iter()
            .filter_map(|call| program.calls.get(*call));
        let bytes: u64 = calls.map(|call| program.matrix_bytes(call)).sum();
        if bytes == 0 {
            return Ok(ring);
        }
        let free = model.device.free_memory().map_or(u64::MAX, |free| free / 4);
        let copies = cold_bytes.min(free).div_ceil(bytes).min(MAX_COPIES);
        for _ in 1..copies {
            for call in &group.calls {
                let bound = bind_with_copies(model, *call, dims)?;
                ring.add(model, dims, *call, &bound, pipelines)?;
            }
        }
        Ok(ring)
    }

    fn add(
        &mut self,
        model: &Model,
        dims: &Dims,
        call: usize,
        bound: &BindGroup,
        pipelines: &[Pipeline],
    ) -> Result<(), SessionError> {
        for (dispatches, pipeline) in self.dispatches.iter_mut().zip(pipelines) {
            if let Some(workgroups) = model.workgroups(call, dims, pipeline.kernel()) {
                let dispatch = model.dispatch(call, dims, pipeline, bound, workgroups)?;
                dispatches.push(dispatch);
            }
        }
        Ok(())
    }

    /// Returns `count` dispatches with a kernel, from a place in the ring on.
    pub fn take(&self, kernel: usize, start: usize, count: usize) -> Vec<Dispatch> {
        let dispatches = self.dispatches.get(kernel).map_or(&[][..], Vec::as_slice);
        let ring = dispatches
            .iter()
            .cycle()
            .skip(start % dispatches.len().max(1));
        ring.take(count).cloned().collect()
    }

    /// Returns the dispatch of the first call with each kernel.
    pub fn first(&self) -> Vec<Dispatch> {
        let first = self
            .dispatches
            .iter()
            .filter_map(|dispatches| dispatches.first());
        first.cloned().collect()
    }
}

/// Binds a call of a prepared run with copies of its matrices, which its kernels find in no cache.
fn bind_with_copies(model: &Model, index: usize, dims: &Dims) -> Result<BindGroup, SessionError> {
    let (device, program, memory) = (&model.device, &model.program, &model.memory);
    let call = program.calls.get(index).ok_or_else(|| model.released())?;
    let mut copies = HashMap::new();
    for place in &call.bindings {
        if let BufferRef::Matrix(matrix, _) = *place
            && !copies.contains_key(&matrix)
        {
            let original = memory.matrix(matrix).ok_or_else(|| model.released())?;
            copies.insert(matrix, original.copied(device)?);
        }
    }
    let slice = |place| match place {
        BufferRef::Matrix(matrix, plane) => Some(copies.get(&matrix)?.plane(plane)),
        place => memory.slice(place),
    };
    let params = &model.recording_of(dims).params;
    bind_call(device, program, (index as u64, call), params, slice)
}
