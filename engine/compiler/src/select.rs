//! Which kernels a target can run, and which of them a call uses.

use wisp_graph::lowering::LoweringError;
use wisp_shaders::{Access, DeviceClass, Kernel};
use wisp_types::Capabilities;

use crate::{
    Precision, Switches,
    program::KernelChoice,
    tuning::{CallShape, Tuning},
};

/// True if a kernel is for targets of this class, and the switches that it waits for are on.
fn is_meant(kernel: &Kernel, target: &Capabilities, switches: Switches) -> bool {
    let class = match kernel.device_class {
        DeviceClass::Any => true,
        DeviceClass::Gpu => !target.software_kernels,
        DeviceClass::Software => target.software_kernels,
    };
    class && kernel.switches.iter().all(|switch| switches.on(switch))
}

fn runs_on(kernel: &Kernel, cols: u64, target: &Capabilities, switches: Switches) -> bool {
    is_meant(kernel, target, switches)
        && cols.is_multiple_of(u64::from(kernel.cols_multiple.max(1)))
        && cols <= u64::from(kernel.max_cols)
        && (!kernel.needs.subgroups || target.subgroups)
        && kernel.needs.min_subgroup_size <= target.min_subgroup_size
        && (!kernel.needs.f16 || target.f16)
        && [0, target.matrix_size].contains(&kernel.needs.matrix_size)
        && kernel.workgroup_size.iter().product::<u32>() <= target.max_workgroup_invocations
        && kernel.workgroup_bytes <= target.max_workgroup_bytes
}

impl Precision {
    /// Returns the precision that programs for a target have if this one is asked for: `Exact` if the target can
    /// run no kernel of this precision.
    pub fn on(self, target: &Capabilities) -> Precision {
        let switches = Switches {
            precision: self,
            ..Switches::default()
        };
        // 0 columns suit every kernel.
        let has_kernel = wisp_shaders::kernels().iter().any(|kernel| {
            kernel.switches.contains(&self.name()) && runs_on(kernel, 0, target, switches)
        });
        match has_kernel {
            true => self,
            false => Precision::Exact,
        }
    }
}

/// Returns the kernels that a target can run for calls of a shape, in the order of the table.
pub fn fitting_kernels<'a>(
    shape: &'a CallShape,
    target: &'a Capabilities,
    switches: Switches,
) -> impl Iterator<Item = &'static Kernel> + use<'a> {
    let fits = move |kernel: &&Kernel| runs_on(kernel, shape.cols, target, switches);
    wisp_shaders::candidates(&shape.op).filter(fits)
}

/// Returns the kernels that calls of a shape use on a target with this tuning, those for few rows first; none
/// if the target can run no kernel for any number of rows.
pub fn kernels_of(
    shape: &CallShape,
    target: &Capabilities,
    switches: Switches,
    tuning: &Tuning,
) -> Vec<KernelChoice> {
    select(shape, target, switches, tuning).unwrap_or_default()
}

/// Returns the kernels for calls of a shape on a target, those of the tuning or else of the table: those for
/// few rows first, and one for any number of rows last.
///
/// # Errors
///
/// If there is no kernel for any number of rows, with what each kernel needs.
pub(crate) fn select(
    shape: &CallShape,
    target: &Capabilities,
    switches: Switches,
    tuning: &Tuning,
) -> Result<Vec<KernelChoice>, LoweringError> {
    let fits = |kernel: &Kernel| runs_on(kernel, shape.cols, target, switches);
    if let Some(kernels) = tuning.kernels_for(shape, fits) {
        return Ok(kernels.to_vec());
    }
    let mut chosen: Vec<&Kernel> = Vec::new();
    for kernel in fitting_kernels(shape, target, switches) {
        // Candidates are ordered best first: a later one only serves rows beyond the earlier ones' limits.
        let reaches_further = |other: &&Kernel| other.max_grid_y < kernel.max_grid_y;
        if chosen.iter().all(reaches_further) {
            chosen.push(kernel);
        }
    }
    let last = chosen.last();
    if last.is_none_or(|kernel| kernel.max_grid_y != u32::MAX) {
        let candidates = wisp_shaders::candidates(&shape.op);
        return Err(LoweringError::NoKernel {
            op: shape.op.clone(),
            kernels: candidates
                .filter(|kernel| is_meant(kernel, target, switches))
                .filter_map(|kernel| lacking(kernel, target))
                .collect(),
        });
    }
    let choice = |kernel: &&Kernel| KernelChoice {
        name: kernel.name.into(),
        max_rows: kernel.max_grid_y,
    };
    Ok(chosen.iter().map(choice).collect())
}

/// Returns what a kernel needs that a device does not have, in words, with the kernel's name.
pub(crate) fn lacking(kernel: &Kernel, device: &Capabilities) -> Option<String> {
    let storage = kernel.bindings.iter();
    let storage = storage.filter(|access| **access != Access::Uniform).count() as u64;
    let invocations = kernel.workgroup_size.iter();
    let invocations = invocations.fold(1u32, |all, size| all.saturating_mul(*size));
    let needs: [(&str, u64, u64); 7] = [
        (
            "subgroups",
            kernel.needs.subgroups.into(),
            device.subgroups.into(),
        ),
        ("f16", kernel.needs.f16.into(), device.f16.into()),
        (
            "rows of cooperative matrices",
            kernel.needs.matrix_size.into(),
            device.matrix_size.into(),
        ),
        (
            "invocations of a subgroup",
            kernel.needs.min_subgroup_size.into(),
            device.min_subgroup_size.into(),
        ),
        (
            "invocations of a workgroup",
            invocations.into(),
            device.max_workgroup_invocations.into(),
        ),
        (
            "bytes of workgroup memory",
            kernel.workgroup_bytes.into(),
            device.max_workgroup_bytes.into(),
        ),
        (
            "storage buffers",
            storage,
            device.max_storage_buffers.into(),
        ),
    ];
    let (what, needed, available) = needs
        .iter()
        .find(|(_, needed, available)| needed > available)?;
    Some(match needed {
        1 => format!("{} (it needs {what})", kernel.name),
        _ => format!(
            "{} (it needs {needed} {what}, there are {available})",
            kernel.name
        ),
    })
}

#[cfg(test)]
mod tests {
    use wisp_shaders::Needs;

    use super::*;

    #[test]
    fn each_missing_capability_is_named() {
        let kernel = Kernel {
            name: "kernel",
            workgroup_size: [8, 8, 1],
            bindings: &[Access::Uniform, Access::Read, Access::Write],
            needs: Needs {
                subgroups: true,
                f16: true,
                min_subgroup_size: 16,
                matrix_size: 16,
            },
            workgroup_bytes: 512,
            ..*wisp_shaders::kernels().first().unwrap()
        };
        let enough = Capabilities {
            max_workgroup_invocations: 64,
            max_workgroup_bytes: 512,
            max_storage_buffers: 2,
            subgroups: true,
            min_subgroup_size: 16,
            f16: true,
            matrix_size: 16,
            ..Capabilities::BASELINE
        };
        assert_eq!(lacking(&kernel, &enough), None);
        type Less = fn(&mut Capabilities);
        let rows: [(Less, &str); 7] = [
            (|c| c.subgroups = false, "subgroups"),
            (
                |c| c.matrix_size = 8,
                "16 rows of cooperative matrices, there are 8",
            ),
            (|c| c.f16 = false, "f16"),
            (
                |c| c.min_subgroup_size = 8,
                "16 invocations of a subgroup, there are 8",
            ),
            (
                |c| c.max_workgroup_invocations = 63,
                "64 invocations of a workgroup, there are 63",
            ),
            (
                |c| c.max_workgroup_bytes = 511,
                "512 bytes of workgroup memory, there are 511",
            ),
            (
                |c| c.max_storage_buffers = 1,
                "2 storage buffers, there are 1",
            ),
        ];
        for (less, needed) in rows {
            let mut device = enough.clone();
            less(&mut device);
            let expected = format!("kernel (it needs {needed})");
            assert_eq!(lacking(&kernel, &device), Some(expected));
        }
    }
}
