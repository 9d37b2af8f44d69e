//! `map`: functions of one element.

use rayon::prelude::*;
use wisp_shaders::params::MapParams;

use super::args::Args;
use super::error::HostError;
use super::gated::multiply;

/// Elements that are worth a task of their own.
const CHUNK: usize = 16384;

/// The twin of `map.wgsl`.
pub(super) fn map(args: &Args) -> Result<(), HostError> {
    let p: MapParams = args.params()?;
    let x: &[f32] = args.read(1, p.len as usize)?;
    let out: &mut [f32] = args.write(2, p.len as usize)?;
    let mut each = |f: &(dyn Fn(&[f32], &mut [f32]) + Sync)| {
        out.par_chunks_mut(CHUNK)
            .zip(x.par_chunks(CHUNK))
            .for_each(|(out, x)| f(x, out));
    };
    match p.kind {
        8 => each(&|x, out| elements(x, out, |x| p.factor * x)),
        9 => each(&|x, out| elements(x, out, |x| p.factor * (x / p.factor).tanh())),
        kind => {
            let multiply =
                multiply(kind).ok_or_else(|| args.value("kind", "0 to 3, 8 or 9", kind))?;
            let ones = vec![1.0; CHUNK.min(x.len())];
            each(&|x, out| multiply(x, &ones, out));
        }
    }
    Ok(())
}

fn elements(x: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = f(*x);
    }
}
