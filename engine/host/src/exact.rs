//! Activations as `f32`.

use std::{borrow::Cow, marker::PhantomData, ops::Range};

use super::args::Args;
use super::dot::dots;
use super::error::HostError;
use super::matmul::Activations;
use super::panel::{self, Part};
use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::{BlockEncoding, Planes};

/// Activations as `f32`, for weights of encoding `E`.
pub(super) struct Exact<E>(PhantomData<E>);

/// Rows, each padded with zeros to whole blocks.
pub(super) struct Rows<'a> {
    x: Cow<'a, [f32]>,
    /// Elements of a padded row.
    width: usize,
}

impl Rows<'_> {
    fn row(&self, i: usize) -> &[f32] {
        &self.x[i * self.width..][..self.width]
    }
}

impl<E: BlockEncoding> Activations for Exact<E> {
    const ENCODING: Encoding = E::ENCODING;
    const PLANES: usize = 4;
    type Rows<'a> = Rows<'a>;
    type Panels = Vec<[f32; panel::TOKENS]>;
    type Scratch = Vec<f32>;

    fn read<'a>(args: &'a Args, rows: usize, cols: usize) -> Result<Rows<'a>, HostError> {
        let x: &[f32] = args.read(1, rows.saturating_mul(cols))?;
        let width = cols.next_multiple_of(BLOCK);
        if width == cols {
            return Ok(Rows { x: x.into(), width });
        }
        let mut padded = vec![0.0; rows * width];
        for (to, from) in padded.chunks_exact_mut(width).zip(x.chunks_exact(cols)) {
            to[..cols].copy_from_slice(from);
        }
        Ok(Rows {
            x: padded.into(),
            width,
        })
    }

    fn dots<const T: usize>(
        x: &Rows,
        rows: [usize; T],
        planes: Planes,
        first: usize,
        out: &mut [[f32; T]],
    ) {
        dots::<E, T>(planes, first, rows.map(|i| x.row(i)), out);
    }

    fn pack(x: &Rows, rows: Range<usize>, start: usize, depth: usize) -> Self::Panels {
        let rows: Vec<&[f32]> = rows.map(|i| x.row(i)).collect();
        panel::pack(&rows, start, depth)
    }

    fn scratch() -> Vec<f32> {
        panel::scratch()
    }

    fn add_products(
        part: Part,
        panels: &Self::Panels,
        depth: usize,
        scratch: &mut Vec<f32>,
        outs: &mut [&mut [f32]],
    ) {
        panel::multiply::<E>(part, panels, depth, scratch, outs);
    }
}
