//! `embed.<encoding>`: rows of an encoded table by token id.

use rayon::prelude::*;
use wisp_shaders::params::EmbedParams;

use super::args::{Args, size};
use super::error::HostError;
use wisp_types::encoding::BLOCK;
use wisp_weights::blocks::{BlockEncoding, dequantize_blocks};

/// The twin of `embed.wgsl`.
pub(super) fn embed<E: BlockEncoding>(args: &Args) -> Result<(), HostError> {
    let p: EmbedParams = args.params()?;
    let (rows, cols) = (p.rows as usize, p.cols as usize);
    let planes = args.planes(E::ENCODING, 3, rows, cols)?;
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    let stride = p.id_stride as usize;
    if p.id_offset >= p.id_stride {
        let most = format!("less than {stride}");
        return Err(args.value("id_offset", most, p.id_offset));
    }
    let ids: &[u32] = args.read(1, size(&[p.tokens, p.id_stride]))?;
    let mut token_ids = ids.iter().skip(p.id_offset as usize).step_by(stride);
    if let Some(id) = token_ids.find(|id| **id >= p.table_rows) {
        return Err(args.value("a token id", format!("less than {}", p.table_rows), *id));
    }
    let ids = ids.par_iter().skip(p.id_offset as usize).step_by(stride);
    let out: &mut [f32] = args.write(2, size(&[p.tokens, p.cols]))?;
    out.par_chunks_mut(cols.max(1))
        .zip(ids)
        .for_each(|(out, id)| {
            // An id below this chunk of rows wraps around to a number past its end.
            let row = id.wrapping_sub(p.row_offset) as usize;
            if row >= rows {
                return;
            }
            let (whole, rest) = out.split_at_mut(cols / BLOCK * BLOCK);
            dequantize_blocks(E::ENCODING, planes, row * blocks, whole);
            if !rest.is_empty() {
                let mut last = [0.0; BLOCK];
                dequantize_blocks(E::ENCODING, planes, row * blocks + blocks - 1, &mut last);
                rest.copy_from_slice(&last[..rest.len()]);
            }
            out.iter_mut().for_each(|out| *out *= p.scale);
        });
    Ok(())
}
