//! Which kernels a target can run, and which of them a call uses.

use std::fmt;

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

/// [`wisp_shaders::Needs::mma`] in words.
const MMA: &str =
    "the matrix instructions mma, which NVIDIA's GPUs with tensor cores have through CUDA";

/// What a kernel needs and a device or call does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmet {
    /// A feature of the device.
    Feature(&'static str),
    /// At least so many of something.
    Limit {
        what: &'static str,
        needed: u64,
        available: u64,
    },
    /// Cooperative matrices of this size; the device has those of another one, or none (0).
    MatrixSize { needed: u32, available: u32 },
    /// Rows whose number of columns is a multiple of this.
    ColsMultiple(u32),
    /// Rows of at most so many columns.
    MaxCols(u32),
    /// At most so many rows.
    MaxRows(u32),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmet::Feature(what) => f.write_str(what),
            Unmet::Limit {
                what,
                needed,
                available,
            } => write!(f, "{needed} {what}, there are {available}"),
            Unmet::MatrixSize { needed, available } => {
                write!(f, "cooperative matrices of {needed} rows, ")?;
                match available {
                    0 => f.write_str("there are none"),
                    _ => write!(f, "those of the device have {available}"),
                }
            }
            Unmet::ColsMultiple(multiple) => write!(f, "rows of a multiple of {multiple} elements"),
            Unmet::MaxCols(most) => write!(f, "rows of at most {most} elements"),
            Unmet::MaxRows(most) => write!(f, "at most {most} rows"),
        }
    }
}

/// Returns the first need of a kernel that a device does not meet.
fn unmet(kernel: &Kernel, device: &Capabilities) -> Option<Unmet> {
    let needs = kernel.needs;
    if needs.subgroups && !device.subgroups {
        return Some(Unmet::Feature("subgroups"));
    }
    if needs.f16 && !device.f16 {
        return Some(Unmet::Feature("f16"));
    }
    if needs.mma && !device.mma {
        return Some(Unmet::Feature(MMA));
    }
    // Kernels for matrices of one size do not run with those of another, larger or smaller.
    if ![0, device.matrix_size].contains(&needs.matrix_size) {
        return Some(Unmet::MatrixSize {
            needed: needs.matrix_size,
            available: device.matrix_size,
        });
    }
    let storage = kernel.bindings.iter();
    let storage = storage.filter(|access| **access != Access::Uniform).count() as u64;
    let invocations = kernel.workgroup_size.iter();
    let invocations = invocations.fold(1u32, |all, size| all.saturating_mul(*size));
    let limits: [(&str, u64, u64); 4] = [
        (
            "invocations of a subgroup",
            needs.min_subgroup_size.into(),
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
    let exceeded = limits
        .into_iter()
        .find(|(_, needed, available)| needed > available);
    exceeded.map(|(what, needed, available)| Unmet::Limit {
        what,
        needed,
        available,
    })
}

/// Returns why a kernel is not for rows of so many columns, if it is not.
fn unsuited(kernel: &Kernel, cols: u64) -> Option<Unmet> {
    let multiple = kernel.cols_multiple.max(1);
    if !cols.is_multiple_of(multiple.into()) {
        return Some(Unmet::ColsMultiple(multiple));
    }
    (cols > u64::from(kernel.max_cols)).then_some(Unmet::MaxCols(kernel.max_cols))
}

fn runs_on(kernel: &Kernel, cols: u64, target: &Capabilities, switches: Switches) -> bool {
    is_meant(kernel, target, switches)
        && unsuited(kernel, cols).is_none()
        && unmet(kernel, target).is_none()
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
/// If there is no kernel for any number of rows, with what keeps the call from using each.
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
                .filter_map(|kernel| why_not(kernel, shape.cols, target))
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
    Some(described(kernel, unmet(kernel, device)?))
}

/// Returns why a call of rows of so many columns cannot use a kernel, or not for any number of rows.
fn why_not(kernel: &Kernel, cols: u64, target: &Capabilities) -> Option<String> {
    let only_few = kernel.max_grid_y != u32::MAX;
    let problem = unmet(kernel, target)
        .or_else(|| unsuited(kernel, cols))
        .or(only_few.then_some(Unmet::MaxRows(kernel.max_grid_y)))?;
    Some(described(kernel, problem))
}

fn described(kernel: &Kernel, problem: Unmet) -> String {
    format!("{} (it needs {problem})", kernel.name)
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
                mma: true,
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
            mma: true,
            ..Capabilities::BASELINE
        };
        assert_eq!(lacking(&kernel, &enough), None);
        type Less = fn(&mut Capabilities);
        let rows: [(Less, &str); 10] = [
            (|c| c.subgroups = false, "subgroups"),
            (
                |c| c.matrix_size = 8,
                "cooperative matrices of 16 rows, those of the device have 8",
            ),
            (
                |c| c.matrix_size = 32,
                "cooperative matrices of 16 rows, those of the device have 32",
            ),
            (
                |c| c.matrix_size = 0,
                "cooperative matrices of 16 rows, there are none",
            ),
            (|c| c.mma = false, MMA),
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
            // What `lacking` reports is what keeps calls from using the kernel.
            assert!(!runs_on(&kernel, 0, &device, Switches::default()));
        }
    }

    #[test]
    fn kernels_that_do_not_suit_a_call_are_listed_with_their_widths_and_rows() {
        let kernel = Kernel {
            name: "kernel",
            cols_multiple: 4,
            max_cols: 64,
            max_grid_y: 8,
            ..*wisp_shaders::kernel("softmax.baseline").unwrap()
        };
        for (cols, expected) in [
            (6, "rows of a multiple of 4 elements"),
            (68, "rows of at most 64 elements"),
            (64, "at most 8 rows"),
        ] {
            let expected = format!("kernel (it needs {expected})");
            let found = why_not(&kernel, cols, &Capabilities::BASELINE);
            assert_eq!(found, Some(expected));
        }
        let any_rows = Kernel {
            max_grid_y: u32::MAX,
            ..kernel
        };
        assert_eq!(why_not(&any_rows, 64, &Capabilities::BASELINE), None);
    }
}
