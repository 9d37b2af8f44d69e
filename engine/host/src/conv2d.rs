//! `conv2d`: cross-correlation of images with filters.

use std::ops::Range;

use rayon::prelude::*;
use wisp_shaders::params::Conv2dParams;

use super::args::{Args, size};
use super::error::HostError;
use wisp_weights::blocks::simd;

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
    let per_image = plane.saturating_mul(p.out_channels as usize);
    let len = p.len as usize;
    // Of empty images there are no elements.
    if !len.is_multiple_of(per_image) {
        return Err(args.value("len", "whole images", p.len));
    }
    let images = len.checked_div(per_image).unwrap_or(0);
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
    let per_group = (p.out_channels / p.groups) as usize;
    // A filter without elements may have any width.
    let columns = (0..p.kernel_width as usize).take(filter_len);
    let columns: Vec<Range<usize>> = columns.map(|u| inside(&p, u)).collect();
    let planes = out.par_chunks_mut(plane.max(1)).enumerate();
    planes.for_each(|(part, out)| {
        let (n, o) = (
            part / p.out_channels as usize,
            part % p.out_channels as usize,
        );
        let first = n * p.in_channels as usize + o / per_group * channels;
        let image = &image[first * size(&[p.in_height, p.in_width])..];
        let filter = &weight[o * filter_len..][..filter_len];
        let bias = bias.get(o).copied().unwrap_or(0.0);
        convolve(&p, image, filter, &columns, bias, out);
    });
    Ok(())
}

/// Returns the columns of the result for which column `u` of the filter lies over the image, not over its padding.
fn inside(p: &Conv2dParams, u: usize) -> Range<usize> {
    let offset = u * p.dilation_x as usize;
    // The first column of the result whose distance to the padding's left edge is at least `distance`.
    let first = |distance: usize| match distance.saturating_sub(offset) {
        0 => 0,
        _ if p.stride_x == 0 => p.out_width as usize,
        rest => rest.div_ceil(p.stride_x as usize).min(p.out_width as usize),
    };
    first(p.pad_x as usize)..first(p.pad_x as usize + p.in_width as usize)
}

simd! {
    /// Computes one channel of a result from the channels of its group. Each element is the sum over the filter in its
    /// order.
    fn convolve(
        p: &Conv2dParams,
        image: &[f32],
        filter: &[f32],
        columns: &[Range<usize>],
        bias: f32,
        out: &mut [f32],
    ) {
        let (in_height, in_width) = (p.in_height as usize, p.in_width as usize);
        let (kernel_height, kernel_width) = (p.kernel_height as usize, p.kernel_width as usize);
        let stride = p.stride_x as usize;
        for (y, out) in out.chunks_exact_mut(p.out_width as usize).enumerate() {
            out.fill(0.0);
            for (c, filter) in filter.chunks_exact((kernel_height * kernel_width).max(1)).enumerate() {
                for (v, weights) in filter.chunks_exact(kernel_width).enumerate() {
                    let row = y * p.stride_y as usize + v * p.dilation_y as usize;
                    let row = row.checked_sub(p.pad_y as usize).filter(|row| *row < in_height);
                    let Some(row) = row else { continue };
                    let image = &image[(c * in_height + row) * in_width..][..in_width];
                    for (u, (weight, columns)) in weights.iter().zip(columns).enumerate() {
                        if columns.is_empty() {
                            continue;
                        }
                        let first = columns.start * stride + u * p.dilation_x as usize - p.pad_x as usize;
                        let (image, out) = (&image[first..], &mut out[columns.clone()]);
                        if stride == 1 {
                            out.iter_mut().zip(image).for_each(|(out, x)| *out += weight * x);
                        } else {
                            for (i, out) in out.iter_mut().enumerate() {
                                *out += weight * image[i * stride];
                            }
                        }
                    }
                }
            }
            out.iter_mut().for_each(|out| *out += bias);
        }
    }
}
