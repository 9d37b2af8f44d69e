//! What a kernel occupies on a multiprocessor, as ptxas states it.

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

/// A kernel's needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that are stored to and loaded from local memory because registers ran out.
    pub spills: u32,
    /// Bytes of local memory: spills, and arrays that are not in registers.
    pub local: u32,
    /// Bytes of shared memory.
    pub shared: u32,
}

impl Resources {
    /// Reads what ptxas prints with `-v`, such as `Used 40 registers, used 1 barriers, 2048 bytes smem`.
    ///
    /// # Errors
    ///
    /// If no registers are stated.
    pub fn parse(log: &str) -> Result<Resources, String> {
        let before = |unit: &str| {
            let number = |at: usize| {
                let text = log[..at].trim_end();
                text.rsplit(|c: char| !c.is_ascii_digit())
                    .next()?
                    .parse()
                    .ok()
            };
            let numbers = log.match_indices(unit).filter_map(|(at, _)| number(at));
            numbers.reduce(u32::saturating_add)
        };
        Ok(Resources {
            registers: before(" registers")
                .ok_or_else(|| format!("ptxas states no registers: {log}"))?,
            spills: before(" bytes spill").unwrap_or(0),
            local: before(" bytes stack frame").unwrap_or(0),
            shared: before(" bytes smem").unwrap_or(0),
        })
    }

    /// Returns the metrics that follow, for workgroups of so many threads.
    pub fn metrics(&self, threads: u32) -> [(Metric, f64); 5] {
        [
            (Metric::Registers, self.registers),
            (Metric::Waves, self.warps(threads)),
            (Metric::Spills, self.spills),
            (Metric::Scratch, self.local),
            (Metric::Shared, self.shared),
        ]
        .map(|(metric, value)| (metric, f64::from(value)))
    }

    /// The warps that a multiprocessor runs at once.
    fn warps(&self, threads: u32) -> u32 {
        let warps = threads.div_ceil(WARP).max(1);
        let of_warp = (self.registers * WARP).next_multiple_of(REGISTER_UNIT);
        let shared = (self.shared + RESERVED_SHARED_BYTES).next_multiple_of(SHARED_UNIT);
        let by_registers = REGISTERS / of_warp.max(1) / warps;
        let workgroups = [
            MAX_WORKGROUPS,
            MAX_WARPS / warps,
            by_registers,
            SHARED_BYTES / shared,
        ];
        workgroups.into_iter().min().unwrap_or(0) * warps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_what_ptxas_prints() {
        let log = "ptxas info    : Compiling entry function 'main_main' for 'sm_80'
ptxas info    : Function properties for main_main
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 12288 bytes smem, 400 bytes cmem[0]
";
        let expected = Resources {
            registers: 168,
            spills: 20,
            local: 16,
            shared: 12288,
        };
        assert_eq!(Resources::parse(log), Ok(expected));
        assert!(Resources::parse("error").is_err());
    }

    #[test]
    fn warps_are_limited_by_registers_shared_memory_and_workgroups() {
        let warps = |registers, shared, threads| {
            let resources = Resources {
                registers,
                spills: 0,
                local: 0,
                shared,
            };
            resources.warps(threads)
        };
        assert_eq!(warps(32, 0, 256), 64);
        // 72 registers of 32 threads are 2,304: 28 warps.
        assert_eq!(warps(72, 0, 256), 24);
        // 5 workgroups with 32 KiB and 1 KiB reserved would need 165.
        assert_eq!(warps(32, 32 << 10, 128), 16);
        assert_eq!(warps(32, 0, 32), 32);
    }
}
