//! Products of activations in 8 bits.

use std::{marker::PhantomData, ops::Range};

use super::args::Args;
use super::error::HostError;
use super::int8_rows::Rows;
use super::integer_dot;
use super::integer_panel::{self, Panels, Scratch};
use super::matmul::Activations;
use super::panel::Part;
use wisp_types::Encoding;
use wisp_weights::blocks::{IntegerEncoding, Planes};

/// Activations in 8 bits, for weights of encoding `E`.
pub(super) struct Int8<E>(PhantomData<E>);

impl<E: IntegerEncoding> Activations for Int8<E> {
    const ENCODING: Encoding = E::ENCODING;
    const PLANES: usize = 5;
    type Rows<'a> = Rows<'a>;
    type Panels = Panels;
    type Scratch = Scratch;

    fn read<'a>(args: &'a Args, rows: usize, cols: usize) -> Result<Rows<'a>, HostError> {
        Rows::read::<E>(args, rows, cols)
    }

    fn dots<const T: usize>(
        x: &Rows,
        rows: [usize; T],
        planes: Planes,
        first: usize,
        out: &mut [[f32; T]],
    ) {
        integer_dot::dots::<E, T>(planes, first, x.blocks, rows.map(|i| x.row::<E>(i)), out);
    }

    fn pack(x: &Rows, rows: Range<usize>, start: usize, depth: usize) -> Panels {
        integer_panel::pack::<E>(x, rows, start, depth)
    }

    fn scratch() -> Scratch {
        Scratch::new()
    }

    fn add_products(
        part: Part,
        panels: &Panels,
        depth: usize,
        scratch: &mut Scratch,
        outs: &mut [&mut [f32]],
    ) {
        integer_panel::multiply::<E>(part, panels, depth, scratch, outs);
    }
}
