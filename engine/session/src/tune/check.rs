//! Comparing the results of kernels with those of the baseline.

use wisp_compiler::BufferRef;
use wisp_device::{Buffer, Dispatch, Usage};
use wisp_shaders::{Access, Kernel};
use wisp_types::DType;

use crate::{error::SessionError, model::Model};

/// The most bytes of results that are compared.
const MAX_RESULT_BYTES: u64 = 256 << 20;

/// The fewest summands that the bound of rounding errors assumes.
const LEAST_SUMMANDS: u64 = 4096;

/// What a comparison found.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The normalised difference of the results, ‖a−b‖ / ‖b‖.
    pub error: Option<f64>,
    /// Why the kernel cannot be chosen.
    pub problem: Option<String>,
}

/// Memory that a call writes.
struct Written<'a> {
    buffer: &'a Buffer,
    /// What the memory holds before each kernel runs, on the host and on the device.
    before: Vec<u8>,
    before_on_device: Buffer,
    /// What the memory held before the comparison.
    saved: Buffer,
    /// Whether its elements are integers, or integers and floats.
    has_integers: bool,
}

/// What a call's memory held before it was measured.
pub(super) struct Saved<'a>(Vec<Written<'a>>);

impl Saved<'_> {
    /// Gives the memory its former contents.
    pub fn restore(&self, model: &Model) -> Result<(), SessionError> {
        for memory in &self.0 {
            let bytes = 0..memory.buffer.bytes();
            model.device.copy(&memory.saved, bytes, memory.buffer, 0)?;
        }
        Ok(())
    }
}

/// Runs kernels of one call and compares their results with those of `reference`. The call's memory has its
/// former contents afterwards, and can be restored again after further runs.
///
/// Results start as numbers that look random, so that a kernel that writes nothing does not pass because an
/// earlier run left the right numbers there.
pub(super) async fn compare<'a>(
    model: &'a Model,
    call: usize,
    reference: &Dispatch,
    others: &[Dispatch],
) -> Result<(Vec<Outcome>, Saved<'a>), SessionError> {
    let Some(written) = written(model, call, reference.kernel()).await? else {
        let outcome = Outcome {
            error: None,
            problem: Some("its results are too large to be compared".into()),
        };
        return Ok((vec![outcome; others.len()], Saved(Vec::new())));
    };
    let expected = results(model, &written, reference).await?;
    let cols = model.program.calls.get(call).map_or(0, |call| call.cols);
    let mut outcomes = Vec::with_capacity(others.len());
    for other in others {
        let found = results(model, &written, other).await?;
        let mut sums = Sums::default();
        for ((memory, expected), found) in written.iter().zip(&expected).zip(&found) {
            sums.add(memory, expected, found);
        }
        outcomes.push(sums.outcome(bound(other.kernel(), cols)));
    }
    let saved = Saved(written);
    saved.restore(model)?;
    Ok((outcomes, saved))
}

/// Returns the largest normalised difference between two right results: rounding errors of sums grow with
/// the root of their length, and the baseline has its own.
fn bound(kernel: &Kernel, cols: u64) -> f64 {
    let has_half_precision = kernel.needs.f16 || kernel.switches.contains(&"f16_partials");
    match has_half_precision {
        true => 2e-3,
        false => 2e-6 * (cols.max(LEAST_SUMMANDS) as f64).sqrt(),
    }
}

/// Returns the memory that a call writes; `None` if it is too much.
async fn written<'a>(
    model: &'a Model,
    call: usize,
    kernel: &Kernel,
) -> Result<Option<Vec<Written<'a>>>, SessionError> {
    let (device, program) = (&model.device, &model.program);
    let bindings = program
        .calls
        .get(call)
        .map_or(&[][..], |call| &call.bindings);
    let accesses = kernel.bindings.get(1..).unwrap_or_default();
    let writes = bindings.iter().zip(accesses);
    let writes = writes.filter(|(_, access)| **access == Access::Write);
    let mut total = 0;
    let mut all = Vec::new();
    for (place, _) in writes {
        let Some(buffer) = model.memory.buffer(*place) else {
            continue;
        };
        total += buffer.bytes();
        if total > MAX_RESULT_BYTES {
            return Ok(None);
        }
        let saved = device.allocate("saved results", buffer.bytes(), Usage::Storage)?;
        device.copy(buffer, 0..buffer.bytes(), &saved, 0)?;
        let port = match place {
            BufferRef::Input(input) => program.inputs.get(*input as usize),
            _ => None,
        };
        // What the caller wrote has a meaning; what the run itself wrote need not have.
        let before = match port {
            Some(_) => device.read(buffer, 0..buffer.bytes()).await?,
            None => pattern(buffer.bytes()),
        };
        let before_on_device =
            device.allocate("compared results", buffer.bytes(), Usage::Storage)?;
        device.write(&before_on_device, 0, &before)?;
        all.push(Written {
            buffer,
            before,
            before_on_device,
            saved,
            has_integers: port.is_some_and(|port| port.dtype == DType::U32),
        });
    }
    Ok(Some(all))
}

/// Returns bytes of `f32` from -1 to 1 that look random.
fn pattern(bytes: u64) -> Vec<u8> {
    let number = |i: u64| {
        let mixed = (i as u32).wrapping_add(1).wrapping_mul(2_654_435_761);
        (mixed >> 8) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..bytes / 4)
        .flat_map(|i| number(i).to_le_bytes())
        .collect()
}

/// Runs a dispatch and reads what it wrote.
async fn results(
    model: &Model,
    written: &[Written<'_>],
    dispatch: &Dispatch,
) -> Result<Vec<Vec<u8>>, SessionError> {
    let device = &model.device;
    for memory in written {
        device.copy(
            &memory.before_on_device,
            0..memory.buffer.bytes(),
            memory.buffer,
            0,
        )?;
    }
    device.record(std::slice::from_ref(dispatch))?;
    let mut results = Vec::with_capacity(written.len());
    for memory in written {
        results.push(device.read(memory.buffer, 0..memory.buffer.bytes()).await?);
    }
    Ok(results)
}

/// Sums over the words that a kernel or the baseline has written.
#[derive(Default)]
struct Sums {
    written: usize,
    off: f64,
    norm: f64,
    /// Whether integers differ, or a number is not finite where the other one is.
    is_wrong: bool,
}

impl Sums {
    fn add(&mut self, memory: &Written<'_>, expected: &[u8], found: &[u8]) {
        let words = |bytes| {
            <[u8]>::as_chunks::<4>(bytes)
                .0
                .iter()
                .copied()
                .map(u32::from_le_bytes)
        };
        let all = words(&memory.before).zip(words(expected)).zip(words(found));
        for ((before, expected), found) in all {
            if expected == before && found == before {
                continue;
            }
            self.written += 1;
            let [a, b] = [found, expected].map(f32::from_bits);
            if found == expected {
                self.norm += if b.is_finite() {
                    f64::from(b).powi(2)
                } else {
                    0.0
                };
            } else if memory.has_integers {
                self.is_wrong |= !are_close_floats(a, b);
            } else if a.is_finite() && b.is_finite() {
                let (a, b) = (f64::from(a), f64::from(b));
                self.off += (a - b).powi(2);
                self.norm += b * b;
            } else {
                self.is_wrong = true;
            }
        }
    }

    fn outcome(self, bound: f64) -> Outcome {
        let error = (self.off / self.norm.max(1e-30)).sqrt();
        let problem = match () {
            () if self.written == 0 => Some("the baseline writes nothing to compare with".into()),
            () if self.is_wrong => Some("wrong results: integers or infinities differ".into()),
            // Not `error > bound`, which holds for no NaN.
            () if error <= bound => None,
            () => Some(format!(
                "wrong results: off by {error:.1e}, at most {bound:.1e} is rounding"
            )),
        };
        Outcome {
            error: Some(error),
            problem,
        }
    }
}

/// Returns whether two different words among integers are floats of nearly the same value, such as
/// log-probabilities. Small integers are no normal floats.
fn are_close_floats(a: f32, b: f32) -> bool {
    a.is_normal() && b.is_normal() && (a - b).abs() <= 1e-4 * (1.0 + b.abs())
}
