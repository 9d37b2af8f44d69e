//! Which kernels a target can run, best first.

use wisp_shaders::{DeviceClass, Kernel};

use super::{CompileError, Switches, target::lacking};
use wisp_types::Capabilities;

/// Whether a kernel is for targets of this kind, and switched on.
fn is_meant(kernel: &Kernel, target: &Capabilities, switches: Switches) -> bool {
    let suits = match kernel.suits {
        DeviceClass::Any => true,
        DeviceClass::Gpu => !target.software,
        DeviceClass::Software => target.software,
    };
    suits && kernel.switches.iter().all(|switch| switches.on(switch))
}

fn runs_on(kernel: &Kernel, cols: u64, target: &Capabilities, switches: Switches) -> bool {
    is_meant(kernel, target, switches)
        && cols.is_multiple_of(u64::from(kernel.cols_multiple.max(1)))
        && (!kernel.needs.subgroups || target.subgroups)
        && kernel.needs.min_subgroup_size <= target.min_subgroup_size
        && (!kernel.needs.f16 || target.f16)
        && kernel.workgroup_size.iter().product::<u32>() <= target.max_workgroup_invocations
        && kernel.workgroup_bytes <= target.max_workgroup_bytes
}

/// The kernels for an op over rows of `cols` elements (0 where that is no matter) on a target with the largest second grid dimension each is meant for:
/// the narrow ones first, then one for any size.
pub(super) fn select(
    op: &str,
    cols: u64,
    target: &Capabilities,
    switches: Switches,
) -> Result<Vec<(String, u32)>, CompileError> {
    let mut chosen: Vec<&Kernel> = Vec::new();
    let fits = |kernel: &&Kernel| runs_on(kernel, cols, target, switches);
    for kernel in wisp_shaders::candidates(op).filter(fits) {
        // Candidates come best first: a later one only helps where the earlier ones do not reach.
        if chosen
            .iter()
            .all(|other| other.max_rows_y < kernel.max_rows_y)
        {
            chosen.push(kernel);
        }
    }
    if chosen
        .last()
        .is_none_or(|kernel| kernel.max_rows_y != u32::MAX)
    {
        let candidates = wisp_shaders::candidates(op);
        return Err(CompileError::NoKernel {
            op: op.into(),
            kernels: candidates
                .filter(|kernel| is_meant(kernel, target, switches))
                .filter_map(|kernel| lacking(kernel, target))
                .collect(),
        });
    }
    Ok(chosen
        .iter()
        .map(|kernel| (kernel.name.to_string(), kernel.max_rows_y))
        .collect())
}
