//! The twins of `measure_read.wgsl` and `measure_fma.wgsl`: what this CPU reads and computes at most.

use rayon::prelude::*;
use wisp_shaders::params::MeasureParams;

use super::args::Args;
use super::error::HostError;
use wisp_weights::blocks::{Simd, simd, with_simd};

/// Elements that one task reads.
const CHUNK: usize = 1 << 16;

simd! {
    fn sum(x: &[f32]) -> f32 {
        with_simd!(S => sum_in::<S>(x))
    }
}

#[inline(always)]
fn sum_in<S: Simd>(x: &[f32]) -> f32 {
    // Four chains, so that none waits for itself.
    let mut sums = [S::splat(0.0); 4];
    for quad in x.as_chunks::<64>().0 {
        for (sum, lanes) in sums.iter_mut().zip(quad.as_chunks::<16>().0) {
            *sum = S::add(*sum, S::load(lanes));
        }
    }
    total::<S>(&sums)
}

#[inline(always)]
fn total<S: Simd>(sums: &[S::Floats]) -> f32 {
    sums.iter().map(|sum| S::reduce_add(*sum)).sum()
}

/// The sum of each part of the buffer; parts are shared out over the threads.
pub(super) fn measure_read(args: &Args) -> Result<(), HostError> {
    let p: MeasureParams = args.params()?;
    let x: &[f32] = args.read(1, (p.len as usize).saturating_mul(4))?;
    let out: &mut [f32] = args.write(2, p.invocations as usize)?;
    let total: f32 = x.par_chunks(CHUNK).map(sum).sum();
    out.fill(total);
    Ok(())
}

simd! {
    fn fma(seed: f32, factor: f32, rounds: u32) -> f32 {
        with_simd!(S => fma_in::<S>(seed, factor, rounds))
    }
}

#[inline(always)]
fn fma_in<S: Simd>(seed: f32, factor: f32, rounds: u32) -> f32 {
    // Eight chains of sixteen lanes, so that none waits for itself.
    let (seed, factor) = (S::splat(seed), S::splat(factor));
    let mut chains = [seed; 8];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = S::mul_add(*chain, factor, seed);
        }
    }
    total::<S>(&chains)
}

/// As many operations as the kernel: `128 * len` for each invocation.
pub(super) fn measure_fma(args: &Args) -> Result<(), HostError> {
    let p: MeasureParams = args.params()?;
    let x: &[f32] = args.read(1, 4)?;
    let out: &mut [f32] = args.write(2, p.invocations as usize)?;
    let m = x[0];
    // One round is 128 multiply-adds, that is two rounds of the kernel's 64.
    out.par_iter_mut()
        .enumerate()
        .for_each(|(i, out)| *out = fma(i as f32, m, p.len / 2));
    Ok(())
}
