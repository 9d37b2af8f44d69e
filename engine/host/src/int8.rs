//! Activations in 8 bits.

use super::args::Args;
use super::dot::MAX_VECTORS;
use super::error::HostError;
use super::int8_rows::{Row, Rows};
use super::integer_dot;
use super::integer_panel::{self, Panels, Scratch};
use super::integer_rows::Decoder;
use super::matmul::{Activations, Memory};
use super::panel::Part;
use wisp_types::Encoding;
use wisp_weights::blocks::{IntegerEncoding, Planes};

/// Activations in 8 bits, and how they are multiplied with weights of one encoding.
pub(super) struct Int8 {
    /// Whether each half of a block has a scale.
    halves: bool,
    /// The integer that stands for the weight 0.
    zero: i32,
    dots: integer_dot::Dots,
    decoder: Decoder,
    multiply: integer_panel::Multiply,
}

impl Int8 {
    /// Returns the activations for weights of encoding `E`.
    pub(super) const fn of<E: IntegerEncoding>() -> &'static Int8 {
        &const {
            Int8 {
                halves: E::HALVES,
                zero: E::ZERO,
                dots: integer_dot::dots::<E>,
                decoder: Decoder::of::<E>(),
                multiply: const { integer_panel::multiply_of::<E>() },
            }
        }
    }
}

impl Activations for Int8 {
    const PLANES: usize = 5;
    type Rows<'a> = Rows<'a>;
    type Panels = Panels;
    type Scratch = Scratch;

    fn encoding(&self) -> Encoding {
        self.decoder.encoding
    }

    fn read<'a>(&self, args: &'a Args, rows: usize, cols: usize) -> Result<Rows<'a>, HostError> {
        Rows::read(args, rows, cols, self.halves)
    }

    fn dots(
        &self,
        x: &Rows,
        rows: &[usize],
        planes: Planes,
        first: usize,
        out: &mut [[f32; MAX_VECTORS]],
    ) {
        let mut vectors = [Row::default(); MAX_VECTORS];
        for (vector, row) in vectors.iter_mut().zip(rows) {
            *vector = x.row(*row);
        }
        (self.dots)(planes, first, x.blocks, &vectors[..rows.len()], out);
    }

    fn pack(&self, x: &Rows, rows: &[usize], panels: &mut Panels) {
        integer_panel::pack(x, self.halves, self.zero, rows, panels);
    }

    fn memory() -> &'static Memory<Self> {
        static MEMORY: Memory<Int8> = Memory::new();
        &MEMORY
    }

    fn multiply(
        &self,
        part: Part,
        panels: &Panels,
        bias: Option<&[f32]>,
        scratch: &mut Scratch,
        outs: &mut [&mut [f32]],
    ) {
        (self.multiply)(self.decoder, part, panels, bias, scratch, outs);
    }
}
