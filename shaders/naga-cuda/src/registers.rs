//! Keeping a kernel's variables in registers.
//!
//! ptxas weighs registers against the workgroups that a multiprocessor can hold, and keeps a few bytes in memory where it
//! could have taken more registers. A launch bound for fewer workgroups ([`Options::min_workgroups`]) makes it take them. Which
//! bound is enough depends on the kernel, the architecture and the compiler's version.
//!
//! [`Options::min_workgroups`]: crate::Options::min_workgroups

/// Registers of a multiprocessor, of compute capability 7.5 to 12.0.
const REGISTERS: u32 = 65_536;
/// The most registers of a thread, and the unit in which they are allocated.
const MAX_REGISTERS: u32 = 255;
const REGISTER_UNIT: u32 = 8;
const WARP: u32 = 32;
/// The workgroups that every multiprocessor can hold; a bound above that is ignored.
const MAX_WORKGROUPS: u32 = 16;

/// What a kernel takes of a multiprocessor.
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
    /// Reads what NVRTC prints with `--ptxas-options=-v`, such as `Used 40 registers, used 1 barriers, 2048 bytes smem`;
    /// `None` if it states no registers.
    pub fn parse(log: &str) -> Option<Resources> {
        let before = |unit: &str| {
            let number = |at: usize| {
                let text = log[..at].trim_end();
                let digits = text.rsplit(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse().ok()
            };
            let numbers = log.match_indices(unit).filter_map(|(at, _)| number(at));
            numbers.reduce(u32::saturating_add)
        };
        Some(Resources {
            registers: before(" registers")?,
            spills: before(" bytes spill").unwrap_or(0),
            local: before(" bytes stack frame").unwrap_or(0),
            shared: before(" bytes smem").unwrap_or(0),
        })
    }
}

/// Compiles a kernel of `threads` threads a workgroup without a launch bound and, while it spills, with bounds
/// ([`Options::min_workgroups`](crate::Options::min_workgroups)) for fewer and fewer workgroups. Returns the first that does
/// not spill, or else the one that spills least. `compile` returns machine code and what the compiler states of it, if it does.
///
/// # Errors
///
/// That of the first compilation that fails.
pub fn compile_in_registers<T, E>(
    threads: u32,
    mut compile: impl FnMut(Option<u32>) -> Result<(T, Option<Resources>), E>,
) -> Result<(T, Option<Resources>), E> {
    let spills = |made: &(T, Option<Resources>)| made.1.map_or(0, |resources| resources.spills);
    let mut best = compile(None)?;
    let Some(first) = best.1 else {
        return Ok(best);
    };
    let threads = threads.next_multiple_of(WARP).max(WARP);
    let workgroups = REGISTERS / (first.registers.max(1) * threads);
    let mut tried = 0;
    // From one more on: sometimes ptxas manages with fewer registers than it takes by itself.
    for workgroups in (1..=(workgroups + 1).min(MAX_WORKGROUPS)).rev() {
        if spills(&best) == 0 {
            break;
        }
        let registers = (REGISTERS / (workgroups * threads)).min(MAX_REGISTERS) / REGISTER_UNIT;
        if registers == tried {
            continue;
        }
        tried = registers;
        let other = compile(Some(workgroups))?;
        if spills(&other) < spills(&best) {
            best = other;
        }
    }
    Ok(best)
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
        assert_eq!(Resources::parse(log), Some(expected));
        assert_eq!(Resources::parse("error"), None);
    }

    /// Compiles as ptxas might: with the registers that a bound leaves, of which the kernel needs some. Returns the registers
    /// and spills of what is chosen, and the bounds that were tried.
    fn chosen(threads: u32, unbounded: u32, needed: u32) -> (u32, u32, Vec<Option<u32>>) {
        let mut tried = Vec::new();
        let made = compile_in_registers(threads, |bound: Option<u32>| {
            tried.push(bound);
            let left = bound.map_or(unbounded, |bound| REGISTERS / (bound * threads) / 8 * 8);
            let registers = left.min(needed).min(MAX_REGISTERS);
            let resources = Resources {
                registers,
                spills: 4 * (needed - registers),
                local: 0,
                shared: 0,
            };
            Ok::<_, String>((registers, Some(resources)))
        });
        let (registers, resources) = made.unwrap();
        (registers, resources.unwrap().spills, tried)
    }

    #[test]
    fn a_kernel_without_spills_is_compiled_once() {
        assert_eq!(chosen(128, 64, 60), (60, 0, vec![None]));
    }

    #[test]
    fn bounds_are_loosened_until_nothing_spills() {
        // 7 workgroups leave 72 registers, 6 leave 85: 80 in whole units.
        let tried = vec![None, Some(8), Some(7), Some(6)];
        assert_eq!(chosen(128, 72, 75), (75, 0, tried));
        // Two workgroups of 256 leave 128 registers, one 256.
        let tried = vec![None, Some(3), Some(2), Some(1)];
        assert_eq!(chosen(256, 128, 150), (150, 0, tried));
        // Small workgroups are limited by their number.
        assert_eq!(chosen(32, 40, 100), (100, 0, vec![None, Some(16)]));
    }

    #[test]
    fn a_kernel_that_always_spills_is_the_one_that_spills_least() {
        let (registers, spills, tried) = chosen(1024, 64, 300);
        assert_eq!((registers, spills), (64, 4 * 236));
        assert_eq!(tried, [None, Some(2), Some(1)]);
    }

    #[test]
    fn a_compiler_that_states_nothing_is_asked_once() {
        let mut count = 0;
        let made = compile_in_registers(64, |_| {
            count += 1;
            Ok::<_, String>(((), None))
        });
        assert_eq!((made, count), (Ok(((), None)), 1));
    }

    #[test]
    fn errors_are_returned() {
        let made = compile_in_registers::<(), _>(64, |_| Err("wrong"));
        assert_eq!(made, Err("wrong"));
    }
}
