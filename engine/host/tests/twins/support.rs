//! Test support for the twins: arguments from slices, random numbers, and comparisons.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use wisp_host::{Args, Binding, HostBuffer, HostError, twin};

/// What a product needs of a block of quantised inputs besides its bytes, as `quantize.wgsl` stores it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct BlockFactors {
    pub(crate) scale: f32,
    pub(crate) sums: [i16; 2],
}

/// Creates a buffer that contains `data`.
pub(crate) fn buffer<T: Pod>(data: &[T]) -> HostBuffer {
    let bytes: &[u8] = bytemuck::cast_slice(data);
    let buffer = HostBuffer::new(bytes.len()).unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

/// Returns the contents of a buffer.
pub(crate) fn contents<T: Pod>(buffer: &HostBuffer) -> Vec<T> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes).unwrap();
    bytes
        .chunks_exact(size_of::<T>())
        .map(bytemuck::pod_read_unaligned)
        .collect()
}

/// Creates a binding of some bytes of a buffer.
pub(crate) fn bind(number: usize, buffer: &HostBuffer, range: Range<usize>) -> Binding<'_> {
    Binding {
        number,
        buffer,
        offset: range.start,
        len: range.len(),
    }
}

/// Runs a twin on the given bindings.
pub(crate) fn call<P: Pod>(op: &str, params: P, bindings: &[Binding]) -> Result<(), HostError> {
    twin(op).unwrap()(&Args::new(op, bytemuck::bytes_of(&params), bindings)?)
}

/// Runs a twin on whole buffers, which are bound to numbers from 1 on.
pub(crate) fn run<P: Pod>(op: &str, params: P, buffers: &[&HostBuffer]) -> Result<(), HostError> {
    let numbered = buffers.iter().enumerate();
    let bindings: Vec<_> = numbered
        .map(|(i, buffer)| bind(i + 1, buffer, 0..buffer.len()))
        .collect();
    call(op, params, &bindings)
}

/// Returns `len` pseudo-random numbers from -1 to 1 that depend on the seed.
pub(crate) fn numbers(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2654435761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 8388608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Returns a sum in `f64` and its magnitude: its own, or the root of the sum of its terms' squares if
/// the terms cancel. Rounding errors of a sum are relative to its terms, not to what remains after
/// cancellation.
pub(crate) fn sum(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    let (sum, squares) = terms.fold((0.0, 0.0), |(sum, squares), term| {
        (sum + term, squares + term * term)
    });
    (sum, sum.abs().max(squares.sqrt()))
}

/// Asserts that the normalised error `|a - b| / |b|` is within a bound; NaN always fails.
pub(crate) fn assert_close(actual: &[f32], expected: &[f64], bound: f64) {
    let sized: Vec<(f64, f64)> = expected.iter().map(|e| (*e, e.abs())).collect();
    assert_sums_close(actual, &sized, bound);
}

/// Like [`assert_close`], but relative to the magnitudes that [`sum`] returns with the numbers.
pub(crate) fn assert_sums_close(actual: &[f32], expected: &[(f64, f64)], bound: f64) {
    assert_eq!(actual.len(), expected.len());
    let square = |v: f64| v * v;
    let norm: f64 = expected.iter().map(|(_, size)| square(*size)).sum();
    let off = |(a, (e, _)): (&f32, &(f64, f64))| (f64::from(*a) - e).abs();
    let errors: Vec<f64> = actual.iter().zip(expected).map(off).collect();
    let error: f64 = errors.iter().map(|error| square(*error)).sum();
    let error = (error / norm.max(1e-30)).sqrt();
    if error.is_nan() || error > bound {
        let worst = errors.iter().enumerate().max_by(|x, y| x.1.total_cmp(y.1));
        let i = worst.unwrap().0;
        let (a, (e, _)) = (actual[i], expected[i]);
        panic!("error {error:e} > {bound:e}; worst: element {i} is {a}, expected {e}");
    }
}
