//! Measures every kernel on one family of GPUs.

use wisp_shaders::{DeviceClass, Kernel, Needs};

use crate::{
    assembly::{Listing, Loop},
    driver::{Compiled, Driver},
    metric::Metric,
    pattern::matches,
    spirv,
    table::{Key, Row, Table},
    work,
};

/// The families that kernels are measured on, as RADV names them: an RX 7900 XTX (RDNA 3), an RX 6900 XT (RDNA 2)
/// and a Radeon VII (GCN 5).
pub const FAMILIES: [&str; 3] = ["navi31", "navi21", "vega20"];

/// The row that sums up the kernels that GPUs do not select: those of software adapters, and those behind a
/// kernel that serves the same calls.
const OTHERS: &str = "(not selected by GPUs)";

/// Compiles every kernel for a family, and returns a row for each that GPUs select and one for all others.
///
/// # Errors
///
/// If the driver cannot be opened, or with a line for each kernel that it does not compile.
pub fn measure(family: &str) -> Result<Table, String> {
    let driver = Driver::open(family)?;
    let mut table = Table {
        version: driver.version.clone(),
        ..Table::default()
    };
    let mut others = Row::default();
    let mut errors = Vec::new();
    for kernel in wisp_shaders::kernels()
        .iter()
        .filter(|kernel| has_matrices(kernel, family))
    {
        let key = |kernel: &str| Key {
            kernel: kernel.into(),
            family: family.into(),
        };
        match row(&driver, kernel) {
            Ok(row) if is_selected_by_gpus(kernel) => {
                table.rows.insert(key(kernel.name), row);
            }
            Ok(row) => sum_up(&mut others, &row),
            Err(error) => errors.push(format!("{} on {family}: {error}", kernel.name)),
        }
        table.rows.insert(key(OTHERS), others.clone());
    }
    match errors.is_empty() {
        true => Ok(table),
        false => Err(errors.join("\n")),
    }
}

/// Describes the loops of the kernels whose names fit a pattern, with the whole assembly if `with_assembly`.
///
/// # Errors
///
/// As [`measure`].
pub fn describe(family: &str, pattern: &str, with_assembly: bool) -> Result<String, String> {
    let driver = Driver::open(family)?;
    let mut text = String::new();
    let kernels = wisp_shaders::kernels().iter();
    for kernel in kernels.filter(|kernel| matches(pattern, kernel.name)) {
        let compiled = driver.compile(kernel, &spirv::lower(kernel.wgsl)?.words)?;
        let listing = Listing::parse(&compiled.assembly);
        text += &format!("{} on {family}\n{listing}", kernel.name);
        if with_assembly {
            text += &compiled.assembly;
        }
    }
    Ok(text)
}

/// True if a family has the cooperative matrices that a kernel uses, if it uses any: only RDNA 3 has them, of 16 rows.
fn has_matrices(kernel: &Kernel, family: &str) -> bool {
    match kernel.needs.matrix_size {
        0 => true,
        size => size == 16 && family == "navi31",
    }
}

fn row(driver: &Driver, kernel: &Kernel) -> Result<Row, String> {
    let lowered = spirv::lower(kernel.wgsl)?;
    let compiled = driver.compile(kernel, &lowered.words)?;
    let listing = Listing::parse(&compiled.assembly);
    let mut row = Row::default();
    for (metric, value) in driver_metrics(&compiled)? {
        row.set(metric, value);
    }
    row.set(Metric::Barriers, listing.total.barriers);
    let once = |one: &Loop| one.iteration(&mut std::iter::empty());
    let in_loops = listing.loops.iter().map(|one| once(one).barriers);
    row.set(Metric::LoopBarriers, in_loops.sum());
    if let Some(hot) = work::hot_loop(kernel.name, &lowered.constants, &listing)? {
        row.unit = hot.unit.into();
        row.set(Metric::LoopInstructions, hot.per_unit.instructions);
        row.set(Metric::LoopValu, hot.per_unit.valu);
        row.set(Metric::LoopBytes, hot.per_unit.load_bytes);
        if hot.per_unit.loads > 0.0 {
            row.set(
                Metric::LoadBytes,
                hot.per_unit.load_bytes / hot.per_unit.loads,
            );
        }
        if let Some(busy) = hot.busy_lanes {
            row.set(Metric::BusyLanes, busy);
        }
    }
    Ok(row)
}

/// The metrics that the driver states.
fn driver_metrics(compiled: &Compiled) -> Result<[(Metric, f64); 7], String> {
    let statistic = |name: &str| {
        let value = compiled.statistics.get(name).copied();
        value.ok_or_else(|| format!("the driver states no `{name}`"))
    };
    Ok([
        (Metric::Subgroup, f64::from(compiled.subgroup_size)),
        (Metric::Registers, statistic("VGPRs")?),
        (Metric::Waves, statistic("Subgroups per SIMD")?),
        (
            Metric::Spills,
            statistic("Spilled VGPRs")? + statistic("Spilled SGPRs")?,
        ),
        (Metric::Scratch, statistic("Scratch size")?),
        (Metric::Shared, statistic("LDS size")?),
        (Metric::Instructions, statistic("Instructions")?),
    ])
}

/// Adds a kernel to the row of several: counts are summed, of limits the worst is kept.
fn sum_up(all: &mut Row, one: &Row) {
    for metric in Metric::ALL {
        let Some(value) = one.get(metric) else {
            continue;
        };
        let so_far = all.get(metric);
        match metric {
            Metric::Spills
            | Metric::Scratch
            | Metric::Barriers
            | Metric::LoopBarriers
            | Metric::Instructions => {
                all.set(metric, so_far.unwrap_or(0.0) + value);
            }
            Metric::Registers | Metric::Shared => {
                all.set(metric, so_far.unwrap_or(value).max(value))
            }
            Metric::Waves => all.set(metric, so_far.unwrap_or(value).min(value)),
            _ => {}
        }
    }
}

/// True if some GPU selects a kernel for some call, by the rules of [`wisp_shaders`].
fn is_selected_by_gpus(kernel: &Kernel) -> bool {
    let candidates = wisp_shaders::candidates(kernel.op);
    let mut better = candidates.take_while(|other| other.name != kernel.name);
    kernel.device_class != DeviceClass::Software && !better.any(|other| replaces(other, kernel))
}

/// True if every GPU that could select `kernel` for a call could select `other` for it.
fn replaces(other: &Kernel, kernel: &Kernel) -> bool {
    other.device_class != DeviceClass::Software
        && other.needs == Needs::default()
        && other
            .switches
            .iter()
            .all(|switch| kernel.switches.contains(switch))
        && kernel.cols_multiple.is_multiple_of(other.cols_multiple)
        && other.max_cols >= kernel.max_cols
        && other.max_grid_y >= kernel.max_grid_y
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel {
            device_class: DeviceClass::Gpu,
            needs: Needs::default(),
            switches: &[],
            cols_multiple: 4,
            max_cols: 64,
            max_grid_y: 8,
            ..*wisp_shaders::kernels().first().unwrap()
        }
    }

    #[test]
    fn kernels_with_wider_use_replace_others() {
        assert!(replaces(&kernel(), &kernel()));
        let any_rows = Kernel {
            max_grid_y: u32::MAX,
            ..kernel()
        };
        assert!(replaces(&any_rows, &kernel()));
        assert!(!replaces(&kernel(), &any_rows));
        let any_columns = Kernel {
            cols_multiple: 1,
            ..kernel()
        };
        assert!(replaces(&any_columns, &kernel()));
        assert!(!replaces(&kernel(), &any_columns));
        let wider_rows = Kernel {
            max_cols: u32::MAX,
            ..kernel()
        };
        assert!(replaces(&wider_rows, &kernel()));
        assert!(!replaces(&kernel(), &wider_rows));
    }

    #[test]
    fn kernels_that_some_gpus_lack_replace_nothing() {
        let subgroups = Needs {
            subgroups: true,
            ..Needs::default()
        };
        let some = [
            Kernel {
                needs: subgroups,
                ..kernel()
            },
            Kernel {
                switches: &["a_switch"],
                ..kernel()
            },
            Kernel {
                device_class: DeviceClass::Software,
                ..kernel()
            },
        ];
        for other in some {
            assert!(!replaces(&other, &kernel()), "{other:?}");
        }
    }

    #[test]
    fn every_op_has_a_kernel_that_gpus_select() {
        for kernel in wisp_shaders::kernels() {
            let selected = |other| is_selected_by_gpus(other);
            assert!(
                wisp_shaders::candidates(kernel.op).any(selected),
                "{}",
                kernel.op
            );
        }
    }

    #[test]
    fn sums_keep_the_worst_limits() {
        let row = |registers, waves, spills| {
            let mut row = Row::default();
            row.set(Metric::Registers, registers);
            row.set(Metric::Waves, waves);
            row.set(Metric::Spills, spills);
            row
        };
        let mut all = row(24.0, 16.0, 2.0);
        sum_up(&mut all, &row(32.0, 12.0, 1.0));
        sum_up(&mut all, &row(8.0, 20.0, 0.0));
        assert_eq!(all, row(32.0, 12.0, 3.0));
    }
}
