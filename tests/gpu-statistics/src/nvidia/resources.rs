//! What a kernel occupies on a multiprocessor, as ptxas states it.

use naga_cuda::Resources;

use crate::metric::Metric;

/// Threads of a warp.
const WARP: u32 = 32;

/// What a multiprocessor of compute capability 8.0 has for the workgroups that it runs at once.
const MAX_WARPS: u32 = 64;
const MAX_WORKGROUPS: u32 = 32;
const REGISTERS: u32 = 65_536;
const SHARED_BYTES: u32 = 164 << 10;
/// Registers are allocated to a warp, and shared memory to a workgroup, in these units.
const REGISTER_UNIT: u32 = 256;
const SHARED_UNIT: u32 = 128;
/// Bytes of shared memory that the system takes for itself in every workgroup.
const RESERVED_SHARED_BYTES: u32 = 1 << 10;

/// Returns the metrics that follow, for workgroups of so many threads.
pub fn metrics(resources: &Resources, threads: u32) -> [(Metric, f64); 5] {
    [
        (Metric::Registers, resources.registers),
        (Metric::Waves, warps(resources, threads)),
        (Metric::Spills, resources.spills),
        (Metric::Scratch, resources.local),
        (Metric::Shared, resources.shared),
    ]
    .map(|(metric, value)| (metric, f64::from(value)))
}

/// The warps that a multiprocessor runs at once.
fn warps(resources: &Resources, threads: u32) -> u32 {
    let warps = threads.div_ceil(WARP).max(1);
    let of_warp = (resources.registers * WARP).next_multiple_of(REGISTER_UNIT);
    let shared = (resources.shared + RESERVED_SHARED_BYTES).next_multiple_of(SHARED_UNIT);
    let by_registers = REGISTERS / of_warp.max(1) / warps;
    let workgroups = [
        MAX_WORKGROUPS,
        MAX_WARPS / warps,
        by_registers,
        SHARED_BYTES / shared,
    ];
    workgroups.into_iter().min().unwrap_or(0) * warps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_are_limited_by_registers_shared_memory_and_workgroups() {
        let warps = |registers, shared, threads| {
            let resources = Resources {
                registers,
                spills: 0,
                local: 0,
                shared,
            };
            super::warps(&resources, threads)
        };
        assert_eq!(warps(32, 0, 256), 64);
        // 72 registers of 32 threads are 2,304: 28 warps.
        assert_eq!(warps(72, 0, 256), 24);
        // 5 workgroups with 32 KiB and 1 KiB reserved would need 165.
        assert_eq!(warps(32, 32 << 10, 128), 16);
        assert_eq!(warps(32, 0, 32), 32);
    }
}
