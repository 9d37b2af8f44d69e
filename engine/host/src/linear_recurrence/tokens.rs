//! `gated_delta_rule` and `mamba2_scan`, token by token.

use wisp_weights::blocks::simd;

use super::{Gates, Sizes, add, inverse_length, run_spans};
use crate::{args::Args, error::HostError, spans::Span};

/// The inputs of a call.
struct Inputs<'a> {
    sizes: Sizes,
    /// `[tokens, 2 * k_heads * k_dim + v_heads * v_dim]`.
    qkv: &'a [f32],
    gates: Gates<'a>,
    /// Only for `mamba2_scan`.
    d: Option<&'a [f32]>,
}

/// The twin of `linear_recurrence.wgsl`.
pub(crate) fn linear_recurrence(args: &Args) -> Result<(), HostError> {
    let sizes = Sizes::new(args)?;
    let inputs = Inputs {
        sizes,
        qkv: args.read(1, sizes.input())?,
        gates: Gates::take(args, sizes)?,
        d: match sizes.is_mamba {
            true => Some(args.read(8, sizes.v_heads)?),
            false => None,
        },
    };
    run_spans(args, &sizes, 5, |span, head, matrix| {
        run(&inputs, span, head, matrix)
    })
}

simd! {
    /// Runs the tokens of a span through one head's matrix `[k_dim, v_dim]`. Returns their results,
    /// `[tokens, v_dim]`.
    fn run(inputs: &Inputs<'_>, span: Span, head: usize, matrix: &mut [f32]) -> Vec<f32> {
        let Sizes { p, v_dim, .. } = inputs.sizes;
        let mut out = vec![0f32; span.len * v_dim];
        let mut added = vec![0f32; v_dim];
        for (t, out) in (span.first..).zip(out.chunks_exact_mut(v_dim)) {
            let [q, k, v] = inputs.sizes.token(inputs.qkv, t, head);
            let [decay, share] = inputs.gates.of(t, head);
            let mut q_scale = p.scale;
            match inputs.d {
                Some(_) => added
                    .iter_mut()
                    .zip(v)
                    .for_each(|(added, v)| *added = share * v),
                None => {
                    q_scale *= inverse_length(q, p.eps);
                    let k_scale = inverse_length(k, p.eps);
                    added.fill(0.0);
                    for (row, k) in matrix.chunks_exact(v_dim).zip(k) {
                        add(*k, row, &mut added);
                    }
                    for (added, v) in added.iter_mut().zip(v) {
                        *added = share * (v - decay * *added * k_scale) * k_scale;
                    }
                }
            }
            for ((row, k), q) in matrix.chunks_exact_mut(v_dim).zip(k).zip(q) {
                for (s, added) in row.iter_mut().zip(&added) {
                    *s = *s * decay + k * added;
                }
                add(*q, row, out);
            }
            out.iter_mut().for_each(|x| *x *= q_scale);
            if let Some(d) = inputs.d {
                add(d[head], v, out);
            }
        }
        out
    }
}
