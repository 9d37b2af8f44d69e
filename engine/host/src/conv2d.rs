//! `conv2d`: cross-correlation of images with filters.

use rayon::prelude::*;
use wisp_shaders::params::Conv2dParams;

use super::args::{Args, size};
use super::error::HostError;

/// The twin of `conv2d.wgsl`.
pub(super) fn conv2d(args: &Args) -> Result<(), HostError> {
    let p: Conv2dParams = args.params()?;
    for (what, channels) in [
        ("in_channels", p.in_channels),
        ("out_channels", p.out_channels),
    ] {
        if p.groups == 0 || channels % p.groups != 0 || channels == 0 {
            let expected = format!("a multiple of {} groups", p.groups);
            return Err(args.value(what, expected, channels));
        }
    }
    let plane = size(&[p.out_height, p.out_width]);
    let per_image = plane.saturating_mul(p.out_channels as usize).max(1);
    let len = p.len as usize;
    let images = len / per_image;
    let channels = (p.in_channels / p.groups) as usize;
    let image_len = size(&[p.in_channels, p.in_height, p.in_width]);
    let filter_len = size(&[channels as u32, p.kernel_height, p.kernel_width]);
    let image: &[f32] = args.read(1, images.saturating_mul(image_len))?;
    let weight: &[f32] = args.read(2, filter_len.saturating_mul(p.out_channels as usize))?;
    let bias: &[f32] = match p.has_bias {
        0 => &[],
        _ => args.read(3, p.out_channels as usize)?,
    };
    let out: &mut [f32] = args.write(4, len)?;
    if !len.is_multiple_of(per_image) {
        return Err(args.value("len", "whole images", p.len));
    }
    let per_group = (p.out_channels / p.groups) as usize;
    // The row or column of the image under a tap of the filter; `None` in the padding.
    let under = |at: usize, stride: u32, tap: usize, dilation: u32, pad: u32, size: u32| {
        let place = at * stride as usize + tap * dilation as usize;
        place
            .checked_sub(pad as usize)
            .filter(|place| *place < size as usize)
    };
    out.par_chunks_mut(plane.max(1))
        .enumerate()
        .for_each(|(part, out)| {
            let (n, o) = (
                part / p.out_channels as usize,
                part % p.out_channels as usize,
            );
            let first = n * p.in_channels as usize + o / per_group * channels;
            let filter = &weight[o * filter_len..][..filter_len];
            for (i, out) in out.iter_mut().enumerate() {
                let (y, x) = (i / p.out_width as usize, i % p.out_width as usize);
                let mut sum = 0.0;
                for (tap, weight) in filter.iter().enumerate() {
                    let u = tap % p.kernel_width as usize;
                    let v = tap / p.kernel_width as usize % p.kernel_height as usize;
                    let c = tap / (p.kernel_width as usize * p.kernel_height as usize);
                    let row = under(y, p.stride_y, v, p.dilation_y, p.pad_y, p.in_height);
                    let col = under(x, p.stride_x, u, p.dilation_x, p.pad_x, p.in_width);
                    if let (Some(row), Some(col)) = (row, col) {
                        let plane = (first + c) * p.in_height as usize;
                        sum += weight * image[(plane + row) * p.in_width as usize + col];
                    }
                }
                *out = sum + bias.get(o).unwrap_or(&0.0);
            }
        });
    Ok(())
}
