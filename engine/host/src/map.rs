//! `map`: elementwise functions.

use rayon::prelude::*;
use wisp_shaders::params::MapParams;

use super::args::Args;
use super::error::HostError;
use super::gated::multiply;

/// Elements of one parallel task, for functions of a few instructions.
const CHUNK: usize = 16384;

/// The same for the others.
const COSTLY_CHUNK: usize = 2048;

/// The twin of `map.wgsl`.
pub(super) fn map(args: &Args) -> Result<(), HostError> {
    let p: MapParams = args.params()?;
    let x: &[f32] = args.read(1, p.len as usize)?;
    let out: &mut [f32] = args.write(2, p.len as usize)?;
    let chunk = match p.kind {
        3 | 8 | 16 | 17 | 27..=33 => CHUNK,
        _ => COSTLY_CHUNK,
    };
    let mut each = |f: &(dyn Fn(&[f32], &mut [f32]) + Sync)| {
        out.par_chunks_mut(chunk)
            .zip(x.par_chunks(chunk))
            .for_each(|(out, x)| f(x, out));
    };
    let wrong = || args.value("kind", "0 to 3, 8, 9 or 16 to 33", p.kind);
    match p.kind {
        8 => each(&|x, out| elements(x, out, |x| p.factor * x)),
        9 => each(&|x, out| elements(x, out, |x| p.factor * (x / p.factor).tanh())),
        kind if kind >= 16 => {
            let function = function(kind).ok_or_else(wrong)?;
            each(&|x, out| elements(x, out, function));
        }
        kind => {
            let multiply = multiply(kind).ok_or_else(wrong)?;
            let ones = vec![1.0; chunk.min(x.len())];
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

/// Returns the function of this number, among those that are not activations.
fn function(kind: u32) -> Option<fn(f32) -> f32> {
    Some(match kind {
        16 => |x| -x,
        17 => f32::abs,
        18 => f32::exp,
        19 => f32::ln,
        20 => f32::sqrt,
        21 => |x| x.sqrt().recip(),
        22 => f32::sin,
        23 => f32::cos,
        24 => f32::tanh,
        25 => |x| 1.0 / (1.0 + (-x).exp()),
        26 => libm::erff,
        27 => f32::floor,
        28 => f32::ceil,
        29 => f32::round_ties_even,
        30 => f32::recip,
        // As in the kernel: the largest float below 2^32.
        31 => |x| f32::from_bits(x.clamp(0.0, 4_294_967_040.0) as u32),
        32 => |x| x.to_bits() as f32,
        33 => |x| f32::from_bits((x.to_bits() == 0).into()),
        _ => return None,
    })
}
