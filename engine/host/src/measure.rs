//! The twins of `measure_read.wgsl` and `measure_fma.wgsl`, which measure this CPU's peak bandwidth
//! and arithmetic rate.

use rayon::prelude::*;
use wisp_shaders::params::MeasureParams;

use super::args::Args;
use super::error::HostError;
use wisp_weights::blocks::{Simd, simd};

/// Elements that one task reads.
const CHUNK: usize = 1 << 16;

simd! {
    fn sum(x: &[f32]) -> f32 where S: Simd {
        sum_in::<S>(x)
    }
}

#[inline(always)]
fn sum_in<S: Simd>(x: &[f32]) -> f32 {
    // Four independent sums, so that no addition waits for the one before it.
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

/// The twin of `measure_read.wgsl`: sums the buffer in chunks on all threads.
pub(super) fn measure_read(args: &Args) -> Result<(), HostError> {
    let p: MeasureParams = args.params()?;
    let x: &[f32] = args.read(1, (p.len as usize).saturating_mul(4))?;
    let out: &mut [f32] = args.write(2, p.invocations as usize)?;
    let total: f32 = x.par_chunks(CHUNK).map(sum).sum();
    out.fill(total);
    Ok(())
}

simd! {
    /// Does `64 * len` multiply-adds in chains that do not wait for each other. Eight registers hide the latency of one;
    /// with twice as many, AVX2 would move some of its 16 to memory.
    fn fma(seed: f32, factor: f32, len: u32) -> f32 where S: Simd {
        match S::REGISTERS {
            1 => fma_in::<S, 8>(seed, factor, len / 2),
            _ => fma_in::<S, 4>(seed, factor, len),
        }
    }
}

#[inline(always)]
fn fma_in<S: Simd, const CHAINS: usize>(seed: f32, factor: f32, rounds: u32) -> f32 {
    // Independent chains of sixteen lanes, so that no operation waits for the one before it.
    let (seed, factor) = (S::splat(seed), S::splat(factor));
    let mut chains = [seed; CHAINS];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = S::mul_add(*chain, factor, seed);
        }
    }
    total::<S>(&chains)
}

/// The twin of `measure_fma.wgsl`, with as many operations as the kernel: `128 * len` per invocation.
pub(super) fn measure_fma(args: &Args) -> Result<(), HostError> {
    let p: MeasureParams = args.params()?;
    let x: &[f32] = args.read(1, 4)?;
    let out: &mut [f32] = args.write(2, p.invocations as usize)?;
    let m = x[0];
    out.par_iter_mut()
        .enumerate()
        .for_each(|(i, out)| *out = fma(i as f32, m, p.len));
    Ok(())
}
