//! Activations as `f32`.

use std::borrow::Cow;

use super::args::Args;
use super::dot::{self, MAX_VECTORS};
use super::error::HostError;
use super::matmul::{Activations, Memory};
use super::panel::{self, Part};
use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::{BlockEncoding, Planes};

/// Activations as `f32`, and how they are multiplied with weights of one encoding.
pub(super) struct Exact {
    encoding: Encoding,
    dots: dot::Dots,
}

impl Exact {
    /// Returns the activations for weights of encoding `E`.
    pub(super) const fn of<E: BlockEncoding>() -> &'static Exact {
        &const {
            Exact {
                encoding: E::ENCODING,
                dots: dot::dots::<E>,
            }
        }
    }
}

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

impl Activations for Exact {
    const PLANES: usize = 4;
    type Rows<'a> = Rows<'a>;
    type Panels = panel::Panels;
    type Scratch = panel::Scratch;

    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn read<'a>(&self, args: &'a Args, rows: usize, cols: usize) -> Result<Rows<'a>, HostError> {
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

    fn dots(
        &self,
        x: &Rows,
        rows: &[usize],
        planes: Planes,
        first: usize,
        out: &mut [[f32; MAX_VECTORS]],
    ) {
        let mut vectors = [&[][..]; MAX_VECTORS];
        for (vector, row) in vectors.iter_mut().zip(rows) {
            *vector = x.row(*row);
        }
        (self.dots)(planes, first, &vectors[..rows.len()], out);
    }

    fn pack(&self, x: &Rows, rows: &[usize], panels: &mut panel::Panels) {
        let rows: Vec<&[f32]> = rows.iter().map(|row| x.row(*row)).collect();
        panel::pack(&rows, x.width, panels);
    }

    fn memory() -> &'static Memory<Self> {
        static MEMORY: Memory<Exact> = Memory::new();
        &MEMORY
    }

    fn multiply(
        &self,
        part: Part,
        panels: &panel::Panels,
        bias: Option<&[f32]>,
        scratch: &mut panel::Scratch,
        outs: &mut [&mut [f32]],
    ) {
        panel::multiply(self.encoding, part, panels, bias, scratch, outs);
    }
}
