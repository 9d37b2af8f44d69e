//! Runs kernels on hostile data between guard regions.
//!
//! Indices are data that a program does not check, so kernels that run without the device's bounds
//! checks must keep every access within their bindings by themselves. Here each binding is a slice of a
//! larger buffer, with guards before and after it, and every kernel runs twice: without and with the
//! device's checks.

use std::ops::Range;

use wisp_engine::device::{Buffer, Device, DeviceError, Dispatch, Usage};
use wisp_shaders::{Access, Kernel};

use crate::{
    kernel_records,
    kernels::{
        Case, Memory, Outputs, adapters, differences, fits, is_sampled, least_bound, noise, run,
        takes_all, unmet, workgroups,
    },
    sample,
};

/// Bytes of a guard: a multiple of the alignment of bindings.
const GUARD: u64 = 1024;

/// The word that fills guards: a NaN, and as an integer an index far outside of any binding.
const GUARD_WORD: u32 = 0x7fc0_dead;

/// A case with invalid indices, and a valid case that must have the same result.
#[derive(Clone, Debug)]
pub struct Hostile {
    /// The case with invalid indices.
    pub case: Case,
    /// A case with valid indices, whose output the kernels must write for the hostile case.
    pub reference: Case,
    /// Bytes that the kernels must write other than the twin does in the reference case: binding (counted
    /// from 1), first byte, and the bytes.
    pub overrides: Vec<(usize, usize, Vec<u8>)>,
    /// Whether the host's twin refuses the case; otherwise it must do what the kernels do.
    pub refused: bool,
}

impl Hostile {
    /// A case that the host's twin refuses, with the result of a reference.
    pub fn refused(case: Case, reference: Case) -> Hostile {
        Hostile {
            case,
            reference,
            overrides: Vec::new(),
            refused: true,
        }
    }

    /// A case that the host's twin accepts, with the result of a reference.
    pub fn accepted(case: Case, reference: Case) -> Hostile {
        Hostile {
            refused: false,
            ..Hostile::refused(case, reference)
        }
    }

    /// Marks bytes of a binding that must not change in the hostile case, even if the reference writes them.
    #[must_use]
    pub fn unwritten(mut self, binding: usize, range: Range<usize>) -> Hostile {
        let initial = self.case.memory[binding - 1].bytes[range.clone()].to_vec();
        self.overrides.push((binding, range.start, initial));
        self
    }

    /// Returns the outputs that the kernels must write.
    fn expected(&self, op: &str, host: &Device) -> Outputs {
        let kernel = wisp_shaders::candidates(op).next().expect("an op");
        let run = run(host, kernel, &self.reference);
        let mut expected = run.unwrap_or_else(|e| panic!("{op} on the host: {e}"));
        // Buffers are rounded up, bindings between guards are not.
        for (output, memory) in expected.iter_mut().zip(&self.case.memory) {
            output.truncate(memory.bytes.len().next_multiple_of(4));
        }
        for (binding, start, bytes) in &self.overrides {
            expected[binding - 1][*start..start + bytes.len()].copy_from_slice(bytes);
        }
        expected
    }
}

/// Returns numbers that are not indices below `len`.
pub fn invalid_indices(len: u32) -> Vec<u32> {
    let random = noise(len, 4).into_iter().map(|x| {
        let spread = u64::from(u32::MAX - len);
        len + (f64::from(x.abs()) * spread as f64) as u32
    });
    let known = [u32::MAX, 0x8000_0000, len, len + 1];
    known.into_iter().chain(random).collect()
}

/// Replaces every second index by one of [`invalid_indices`]. All of these occur if there are at least 16
/// indices.
pub fn spoiled(valid: &[u32], len: u32) -> Vec<u32> {
    let invalid = invalid_indices(len);
    let spoil = |(i, valid): (usize, &u32)| match i % 2 {
        0 => *valid,
        _ => invalid[i / 2 % invalid.len()],
    };
    valid.iter().enumerate().map(spoil).collect()
}

/// The bindings of one kind of access, in one buffer with guards around each.
struct Guarded {
    buffer: Buffer,
    initial: Vec<u8>,
    /// The bytes of each binding.
    ranges: Vec<Range<u64>>,
}

impl Guarded {
    fn new<'a>(
        device: &Device,
        memories: impl Iterator<Item = &'a Memory>,
    ) -> Result<Guarded, DeviceError> {
        let guard = |bytes: u64| {
            let words = std::iter::repeat_n(GUARD_WORD, bytes as usize / 4);
            words.flat_map(u32::to_le_bytes)
        };
        let mut initial: Vec<u8> = guard(GUARD).collect();
        let mut ranges = Vec::new();
        for memory in memories {
            let start = initial.len() as u64;
            initial.extend(&memory.bytes);
            initial.resize(initial.len().next_multiple_of(4), 0);
            let end = initial.len() as u64;
            ranges.push(start..end);
            initial.extend(guard((end + GUARD).next_multiple_of(GUARD) - end));
        }
        let buffer = device.allocate("guarded", initial.len() as u64, Usage::Storage)?;
        device.write(&buffer, 0, &initial)?;
        Ok(Guarded {
            buffer,
            initial,
            ranges,
        })
    }

    /// Reads the bindings back, with a message if a guard was changed.
    fn read(&self, device: &Device) -> Result<(Vec<Vec<u8>>, Option<String>), DeviceError> {
        let bytes = pollster::block_on(device.read(&self.buffer, 0..self.initial.len() as u64))?;
        let is_guard = |i: usize| self.ranges.iter().all(|range| !range.contains(&(i as u64)));
        let mut changed =
            (0..bytes.len()).filter(|i| is_guard(*i) && bytes[*i] != self.initial[*i]);
        let violation = changed.next().map(|i| {
            let ranges = &self.ranges;
            format!("byte {i} of a guard was written; the bindings are {ranges:?}")
        });
        let contents = self.ranges.iter().map(|range| {
            let range = range.start as usize..range.end as usize;
            bytes[range].to_vec()
        });
        Ok((contents.collect(), violation))
    }
}

/// The result of a run between guards: the outputs or the error, and a message if a guard was changed.
struct GuardedRun {
    outputs: Result<Outputs, DeviceError>,
    violation: Option<String>,
}

fn run_guarded(
    device: &Device,
    kernel: &'static Kernel,
    case: &Case,
    is_checked: bool,
) -> Result<GuardedRun, DeviceError> {
    let params = device.allocate("params", case.params.len() as u64, Usage::Uniform)?;
    device.write(&params, 0, &case.params)?;
    let is_written = |i: usize| kernel.bindings[i + 1] == Access::Write;
    let all = || case.memory.iter().enumerate();
    // A buffer may not be read and written by one dispatch.
    let reads = Guarded::new(
        device,
        all().filter(|(i, _)| !is_written(*i)).map(|(_, m)| m),
    )?;
    let writes = Guarded::new(
        device,
        all().filter(|(i, _)| is_written(*i)).map(|(_, m)| m),
    )?;
    let mut slices = vec![params.slice(0..case.params.len() as u64)];
    let (mut read_ranges, mut write_ranges) = (reads.ranges.iter(), writes.ranges.iter());
    for i in 0..case.memory.len() {
        let (guarded, ranges) = match is_written(i) {
            true => (&writes, &mut write_ranges),
            false => (&reads, &mut read_ranges),
        };
        let range = ranges.next().expect("a range for each binding");
        slices.push(guarded.buffer.slice(range.clone()));
    }
    let pipeline = match is_checked {
        true => device.pipeline(kernel)?,
        // SAFETY: every case keeps the sizes in its parameters to those of its memory, and kernels
        // keep data indices within their bindings, which is what these tests verify by guard words
        // around each binding.
        false => unsafe { device.unchecked_pipeline(kernel)? },
    };
    let group = device.bind(kernel, &slices)?;
    let workgroups = workgroups(kernel, case);
    let dispatch = Dispatch::new(device, &pipeline, &group, workgroups)?;
    let submitted = device.record(&vec![dispatch; case.dispatches]);
    let (mut written, violation) = writes.read(device)?;
    let violation = violation.or(reads.read(device)?.1);
    let outputs = (0..case.memory.len())
        .map(|i| match is_written(i) {
            true => written.remove(0),
            false => Vec::new(),
        })
        .collect();
    Ok(GuardedRun {
        outputs: submitted.map(|()| outputs),
        violation,
    })
}

/// Runs every kernel of an op on hostile cases, unchecked and checked, and the host's twin. Software adapters check
/// a quarter of the kernels, because sessions run them unchecked, and leave the baseline out.
///
/// # Panics
///
/// With a list of outputs that differ from the expected ones, and of guards that were written.
pub fn check_hostile(op: &str, cases: &[Hostile]) {
    let host = Device::host(0).expect("the host device starts");
    let expected: Vec<Outputs> = cases.iter().map(|case| case.expected(op, &host)).collect();
    let mut failures = check_host(op, cases, &expected, &host);
    if kernel_records::wanted() {
        let cases: Vec<Case> = cases.iter().map(|hostile| hostile.case.clone()).collect();
        return kernel_records::write(op, &cases, |_| true, &expected);
    }
    let adapters = match adapters() {
        Ok(adapters) => &adapters[..],
        Err(why) => {
            println!("skipped: no adapter ({why})");
            &[]
        }
    };
    let mut runs = 0;
    for kernel in wisp_shaders::candidates(op).filter(|kernel| is_sampled(kernel)) {
        let checks: &[bool] = match takes_all() || sample::has(kernel.name, 0, 4) {
            true => &[false, true],
            false => &[false],
        };
        let levels = if takes_all() { 2 } else { 1 };
        let able = adapters.iter().filter(|(_, d)| unmet(kernel, d).is_none());
        for (level, device) in able.take(levels) {
            for (hostile, expected) in cases.iter().zip(&expected) {
                if !fits(kernel, &hostile.case) {
                    continue;
                }
                for is_checked in checks {
                    runs += 1;
                    let checks = if *is_checked { "checked" } else { "unchecked" };
                    let at = format!("{} on {level:?}, {checks}", kernel.name);
                    let wrong = match run_guarded(device, kernel, &hostile.case, *is_checked) {
                        Ok(run) => {
                            judge(hostile, least_bound(kernel, &hostile.case), run, expected)
                        }
                        Err(error) => vec![error.to_string()],
                    };
                    let label = &hostile.case.label;
                    failures.extend(wrong.iter().map(|wrong| format!("{at}, {label}: {wrong}")));
                }
            }
        }
    }
    println!("{op}: {runs} hostile runs");
    let all_run = wisp_shaders::candidates(op).all(is_sampled);
    assert!(
        adapters.is_empty() || runs > 0 || !all_run,
        "{op}: no kernel ran"
    );
    let count = failures.len();
    assert!(count == 0, "{count} failures:\n{}", failures.join("\n"));
}

/// Returns messages about a failed run.
fn judge(hostile: &Hostile, least: f64, run: GuardedRun, expected: &Outputs) -> Vec<String> {
    let mut wrong: Vec<String> = run.violation.into_iter().collect();
    match run.outputs {
        Ok(outputs) => wrong.extend(differences(&hostile.case, least, &outputs, expected)),
        Err(error) => wrong.push(error.to_string()),
    }
    wrong
}

/// Returns messages about failed runs of the host's twin.
fn check_host(op: &str, cases: &[Hostile], expected: &[Outputs], host: &Device) -> Vec<String> {
    let kernel = wisp_shaders::candidates(op).next().expect("an op");
    let mut failures = Vec::new();
    for (hostile, expected) in cases.iter().zip(expected) {
        let run = run_guarded(host, kernel, &hostile.case, true).expect("buffers on the host");
        let wrong = match (&run.outputs, hostile.refused) {
            (Err(DeviceError::Host(_)), true) => run.violation.into_iter().collect(),
            (Ok(_), true) => vec!["the twin does not refuse it".into()],
            _ => judge(hostile, 0.0, run, expected),
        };
        let label = &hostile.case.label;
        failures.extend(
            wrong
                .iter()
                .map(|wrong| format!("{op} on the host, {label}: {wrong}")),
        );
    }
    failures
}
