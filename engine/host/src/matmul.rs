//! `matmul.<encoding>`, `matmul_gated.<encoding>` and their variants for activations in 8 bits: products with an
//! encoded weight.

use rayon::prelude::*;
use wisp_shaders::params::{MatmulGatedParams, MatmulParams};

use super::args::{Args, size};
use super::dot::MAX_VECTORS;
use super::error::HostError;
use super::gated;
use super::panel::{self, Part};
use super::pool::{Pool, lengthen};
use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::Planes;

/// Rows of one parallel task for few tokens. Short rows take as long as the beginning of a task.
const ROWS: usize = 32;

/// Up to this many tokens, weights are decoded in registers, again for every group of a few tokens.
const FEW_TOKENS: usize = 8;

/// Tokens whose panels are packed at once. All of them are read for every few rows of the weight, from a cache if there are
/// not too many.
const MANY_TOKENS: usize = 256;

/// A format of the rows that a weight is multiplied by. A value holds the functions for one encoding of weights, so that
/// what does not depend on the encoding is compiled once for each format.
pub(super) trait Activations: Sized + Sync + 'static {
    /// The number of the binding of the weight's first plane.
    const PLANES: usize;
    /// The rows of a call.
    type Rows<'a>: Sync;
    /// Many rows, packed for products.
    type Panels: Default + Send + Sync + 'static;
    /// Memory of a task, for decoded rows of the weight.
    type Scratch: Default + Send + 'static;

    /// Returns the weight's encoding.
    fn encoding(&self) -> Encoding;

    /// Reads `rows` rows of `cols` elements from a call's bindings.
    fn read<'a>(
        &self,
        args: &'a Args,
        rows: usize,
        cols: usize,
    ) -> Result<Self::Rows<'a>, HostError>;

    /// Computes `out[i][t]`, the product of row `first + i` of the weight and row `rows[t]` of `x`, for at most
    /// [`MAX_VECTORS`] rows of `x`.
    fn dots(
        &self,
        x: &Self::Rows<'_>,
        rows: &[usize],
        planes: Planes,
        first: usize,
        out: &mut [[f32; MAX_VECTORS]],
    );

    /// Packs some rows.
    fn pack(&self, x: &Self::Rows<'_>, rows: &[usize], panels: &mut Self::Panels);

    /// Returns the memory of all products.
    fn memory() -> &'static Memory<Self>;

    /// Computes `outs[t][i]`, the product of the weight's row `part.first + i` and the packed row `t`, plus `bias[i]`.
    fn multiply(
        &self,
        part: Part,
        panels: &Self::Panels,
        bias: Option<&[f32]>,
        scratch: &mut Self::Scratch,
        outs: &mut [&mut [f32]],
    );
}

/// Memory that no product uses at the moment.
pub(super) struct Memory<A: Activations> {
    panels: Pool<A::Panels>,
    scratches: Pool<A::Scratch>,
}

impl<A: Activations> Memory<A> {
    pub(super) const fn new() -> Memory<A> {
        Memory {
            panels: Pool::new(),
            scratches: Pool::new(),
        }
    }
}

/// The twin of `matmul.wgsl`.
pub(super) fn matmul<A: Activations>(activations: &A, args: &Args) -> Result<(), HostError> {
    let p: MatmulParams = args.params()?;
    let (rows, cols) = (p.rows as usize, p.cols as usize);
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    let (stride, offset) = (p.out_stride as usize, p.out_offset as usize);
    if stride < offset + rows {
        let least = format!("at least {}", offset + rows);
        return Err(args.value("out_stride", least, p.out_stride));
    }
    let x = activations.read(args, p.tokens as usize, cols)?;
    let out: &mut [f32] = args.write(2, size(&[p.tokens, p.out_stride]))?;
    let planes = args.planes(activations.encoding(), A::PLANES, rows, cols)?;
    let bias = match p.has_bias {
        0 => None,
        _ => {
            let first = p.bias_offset as usize;
            Some(&args.read::<f32>(3, first + rows)?[first..])
        }
    };
    if rows == 0 || p.tokens == 0 || cols == 0 {
        return Ok(());
    }
    let out = out.chunks_exact_mut(stride);
    let out = out.map(|out| &mut out[offset..offset + rows]).collect();
    let product = Product {
        activations,
        x: &x,
        inputs: (0..p.tokens as usize).collect(),
        planes,
        first: 0,
        blocks,
        rows,
        bias,
    };
    product.multiply(out);
    Ok(())
}

/// The products of a gated weight that no call uses, `[tokens, 2 * rows]`.
static BOTH: Pool<Vec<f32>> = Pool::new();

/// The twin of `matmul.wgsl` with `gated`.
pub(super) fn matmul_gated<A: Activations>(activations: &A, args: &Args) -> Result<(), HostError> {
    let p: MatmulGatedParams = args.params()?;
    let (rows, cols) = (p.rows as usize, p.cols as usize);
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    let x = activations.read(args, p.tokens as usize, cols)?;
    let out: &mut [f32] = args.write(2, size(&[p.tokens, p.rows]))?;
    let both_rows = size(&[2, p.rows]);
    let planes = args.planes(activations.encoding(), A::PLANES, both_rows, cols)?;
    let bias = match p.has_bias {
        0 => None,
        _ => Some(args.read::<f32>(3, both_rows)?),
    };
    let gate = gated::multiply(p.activation)
        .ok_or_else(|| args.value("activation", "0 to 3", p.activation))?;
    if rows == 0 || p.tokens == 0 || cols == 0 {
        return Ok(());
    }
    let product = Product {
        activations,
        x: &x,
        inputs: (0..p.tokens as usize).collect(),
        planes,
        first: 0,
        blocks,
        rows: both_rows,
        bias,
    };
    BOTH.lend(|both| {
        let count = p.tokens as usize * both_rows;
        lengthen(both, count, 0.0);
        let both = &mut both[..count];
        product.multiply(both.chunks_exact_mut(both_rows).collect());
        let tokens = out
            .par_chunks_exact_mut(rows)
            .zip(both.par_chunks_exact(both_rows));
        tokens.for_each(|(out, both)| gate(&both[..rows], &both[rows..], out));
    });
    Ok(())
}

/// One product with checked arguments.
pub(super) struct Product<'a, 'x, A: Activations> {
    pub(super) activations: &'a A,
    pub(super) x: &'a A::Rows<'x>,
    /// The row of `x` of each token.
    pub(super) inputs: Vec<usize>,
    pub(super) planes: Planes<'a>,
    /// The first row of the weight.
    pub(super) first: usize,
    /// Blocks of a row.
    pub(super) blocks: usize,
    pub(super) rows: usize,
    pub(super) bias: Option<&'a [f32]>,
}

impl<A: Activations> Product<'_, '_, A> {
    /// Computes the product; `out` has the rows of each token.
    pub(super) fn multiply(&self, out: Vec<&mut [f32]>) {
        if out.len() <= FEW_TOKENS {
            self.few_tokens(out);
        } else {
            self.many_tokens(out);
        }
    }

    /// Decodes each block in registers, once for up to four tokens.
    fn few_tokens(&self, mut out: Vec<&mut [f32]>) {
        if let [out] = &mut out[..] {
            let tasks = out.par_chunks_mut(ROWS).enumerate();
            return tasks.for_each(|(task, out)| self.dots(task * ROWS, 0, &mut [out]));
        }
        let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
        tasks.resize_with(self.rows.div_ceil(ROWS), Vec::new);
        for out in out {
            for (task, out) in tasks.iter_mut().zip(out.chunks_mut(ROWS)) {
                task.push(out);
            }
        }
        tasks
            .into_par_iter()
            .enumerate()
            .for_each(|(task, mut outs)| {
                let first = task * ROWS;
                for (i, outs) in outs.chunks_mut(MAX_VECTORS).enumerate() {
                    self.dots(first, i * MAX_VECTORS, outs);
                }
            });
    }

    /// Computes rows of the product, from row `first` on, for tokens from `token` on.
    fn dots(&self, first: usize, token: usize, outs: &mut [&mut [f32]]) {
        let mut values = [[0.0; MAX_VECTORS]; ROWS];
        let values = &mut values[..outs[0].len()];
        let inputs = &self.inputs[token..token + outs.len()];
        self.activations
            .dots(self.x, inputs, self.planes, self.first + first, values);
        for (t, out) in outs.iter_mut().enumerate() {
            for (i, out) in out.iter_mut().enumerate() {
                *out = values[i][t] + self.bias.map_or(0.0, |bias| bias[first + i]);
            }
        }
    }

    /// Decodes rows into a scratch panel and multiplies it with packed panels of tokens.
    fn many_tokens(&self, mut out: Vec<&mut [f32]>) {
        // Many tasks per thread, so that all threads finish at about the same time.
        let tasks = 16 * rayon::current_num_threads();
        let rows = self.rows.div_ceil(tasks).next_multiple_of(panel::ROWS);
        let inputs = self.inputs.chunks(MANY_TOKENS);
        for (out, inputs) in out.chunks_mut(MANY_TOKENS).zip(inputs) {
            let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
            tasks.resize_with(self.rows.div_ceil(rows), Vec::new);
            for out in out.iter_mut() {
                for (task, out) in tasks.iter_mut().zip(out.chunks_mut(rows)) {
                    task.push(out);
                }
            }
            let tasks = tasks.into_par_iter().enumerate();
            let memory = A::memory();
            memory.panels.lend(|panels| {
                self.activations.pack(self.x, inputs, panels);
                tasks.for_each(|(task, mut outs)| {
                    let bias = self.bias.map(|bias| &bias[task * rows..]);
                    let part = Part {
                        planes: self.planes,
                        first: self.first + task * rows,
                        width: self.blocks * BLOCK,
                    };
                    memory.scratches.lend(|scratch| {
                        self.activations
                            .multiply(part, panels, bias, scratch, &mut outs);
                    });
                });
            });
        }
    }
}
