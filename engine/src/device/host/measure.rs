//! The twins of `measure_read.wgsl` and `measure_fma.wgsl`: what this CPU reads and computes at most.

use multiversion::multiversion;
use rayon::prelude::*;
use wisp_shaders::params::MeasureParams;

use super::args::Args;
use super::error::HostError;

/// Elements that one task reads.
const CHUNK: usize = 1 << 16;

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma", "aarch64+neon"))]
fn sum(x: &[f32]) -> f32 {
    let mut sums = [0.0f32; 64];
    for row in x.chunks_exact(64) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += x;
        }
    }
    sums.iter().sum()
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

#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn fma(seed: f32, m: f32, rounds: u32) -> f32 {
    // Eight chains of sixteen lanes, so that none waits for itself.
    let mut a = [[seed; 16]; 8];
    for _ in 0..rounds {
        for chain in &mut a {
            for lane in chain {
                *lane = lane.mul_add(m, seed);
            }
        }
    }
    a.iter().flatten().sum()
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
