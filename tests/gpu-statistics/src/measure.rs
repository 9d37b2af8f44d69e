//! The row of a kernel: what a compiler states about it, and what its assembly shows.

use crate::{
    assembly::{Listing, Loop},
    metric::Metric,
    table::Row,
    wgsl::Parsed,
    work::{self, Compiler},
};

/// Returns a kernel's row, given the values that the compiler states.
///
/// # Errors
///
/// As [`work::hot_loop`].
pub fn row(
    name: &str,
    parsed: &Parsed,
    listing: &Listing,
    stated: &[(Metric, f64)],
    compiler: Compiler,
) -> Result<Row, String> {
    let mut row = Row::default();
    for (metric, value) in stated {
        row.set(*metric, *value);
    }
    row.set(Metric::Barriers, listing.total.barriers);
    let once = |one: &Loop| one.iteration(&mut std::iter::empty());
    let in_loops = listing.loops.iter().map(|one| once(one).barriers);
    row.set(Metric::LoopBarriers, in_loops.sum());
    if let Some(hot) = work::hot_loop(name, &parsed.constants, listing, compiler)? {
        row.unit = hot.unit.into();
        row.set(Metric::LoopInstructions, hot.per_unit.instructions);
        row.set(Metric::LoopValu, hot.per_unit.valu);
        row.set(Metric::LoopBytes, hot.per_unit.load_bytes);
        row.set(Metric::LoopDots, hot.per_unit.dot_products);
        row.set(Metric::LoopMatrices, hot.per_unit.matrix_products);
        row.set(Metric::LoopSlow, hot.per_unit.slow);
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

/// Adds a kernel to the row of several: counts are summed, of limits the worst is kept.
pub fn sum_up(all: &mut Row, one: &Row) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
