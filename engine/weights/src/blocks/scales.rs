//! Reading scales.

use super::{planes::Planes, simd::Simd};

/// Reads the half at byte `at` of `bytes`.
#[inline(always)]
pub(super) fn half_at<S: Simd, const N: usize>(bytes: &[u8; N], at: usize) -> f32 {
    S::f16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// Converts halves to floats.
#[inline(always)]
fn load_halves<S: Simd>(from: &[[u8; 2]], to: &mut [f32]) {
    let (vectors, rest) = from.as_chunks::<16>();
    let (to_vectors, to_rest) = to.as_chunks_mut::<16>();
    for (from, to) in vectors.iter().zip(to_vectors) {
        S::store(S::load_f16(bytemuck::cast_ref(from)), to);
    }
    for (from, to) in rest.iter().zip(to_rest) {
        *to = half_at::<S, _>(from, 0);
    }
}

/// Reads one scale for each block.
#[inline(always)]
pub(super) fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
    load_halves::<S>(planes.many_scales::<2>(first, scales.len()), scales);
}

/// Reads one scale and one minimum for each block.
#[inline(always)]
pub(super) fn load_scales_and_minima<S: Simd>(
    planes: Planes,
    first: usize,
    scales: &mut [[f32; 2]],
) {
    let pairs = planes.many_scales::<4>(first, scales.len());
    let (halves, _) = pairs.as_flattened().as_chunks();
    load_halves::<S>(halves, scales.as_flattened_mut());
}

/// Reads one scale in single precision for each block.
#[inline(always)]
pub(super) fn load_f32_scales(planes: Planes, first: usize, scales: &mut [f32]) {
    let bytes = planes.many_scales::<4>(first, scales.len());
    for (scale, bytes) in scales.iter_mut().zip(bytes) {
        *scale = f32::from_le_bytes(*bytes);
    }
}
