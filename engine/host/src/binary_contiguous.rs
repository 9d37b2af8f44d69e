//! `binary_contiguous`: sums and products of contiguous tensors.

use rayon::prelude::*;
use wisp_shaders::params::BinaryContiguousParams;

use super::args::Args;
use super::error::HostError;

/// Elements of one parallel task.
const CHUNK: usize = 16384;

/// The twin of `binary_contiguous.wgsl`.
pub(super) fn binary_contiguous(args: &Args) -> Result<(), HostError> {
    let p: BinaryContiguousParams = args.params()?;
    let (len, b_len) = (p.len as usize, p.b_len as usize);
    let a: &[f32] = args.read(1, len)?;
    let b: &[f32] = args.read(2, b_len)?;
    let out: &mut [f32] = args.write(3, len)?;
    let op = match p.kind {
        0 => |a: f32, b: f32, _: f32| a + b,
        1 => |a, b, _| a * b,
        2 => |a, b, scale| a + scale * b,
        _ => return Err(args.value("kind", "0, 1 or 2", p.kind)),
    };
    if b_len == 0 && len != 0 {
        return Err(args.value("b_len", "at least 1", p.b_len));
    }
    out.par_chunks_mut(CHUNK)
        .zip(a.par_chunks(CHUNK))
        .enumerate()
        .for_each(|(chunk, (out, a))| {
            let b = b.iter().cycle().skip(chunk * CHUNK % b_len);
            for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                *out = op(*a, *b, p.scale);
            }
        });
    Ok(())
}
