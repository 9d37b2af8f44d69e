//! `causal_conv` and `gated_causal_conv`: causal depthwise convolution over the sequences of a batch.

use rayon::prelude::*;
use wisp_shaders::params::CausalConvParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::silu;
use super::spans::{Span, spans};

/// What is convolved: the inputs of a call, and the tokens before them.
struct Inputs<'a> {
    p: CausalConvParams,
    gated: bool,
    x: &'a [f32],
    /// `[rows, width - 1, channels]`.
    state: &'a [f32],
}

impl Inputs<'_> {
    fn channels(&self) -> usize {
        self.p.channels as usize
    }

    /// Returns one part of a gated token, or the only part of another.
    fn part(&self, t: usize, part: usize) -> &[f32] {
        let (channels, parts) = (self.channels(), if self.gated { 3 } else { 1 });
        &self.x[(t * parts + part) * channels..][..channels]
    }

    /// Adds `factor(c) *` what stands `back` tokens before token `at` of a span to each channel `c`.
    fn add(
        &self,
        span: Span,
        at: usize,
        back: usize,
        factor: impl Fn(usize) -> f32,
        to: &mut [f32],
    ) {
        let channels = self.channels();
        if back <= at {
            let t = span.first + at - back;
            let first = self.part(t, 0);
            if !self.gated {
                for (c, (to, value)) in to.iter_mut().zip(first).enumerate() {
                    *to += factor(c) * value;
                }
                return;
            }
            let gated = first.iter().zip(self.part(t, 2));
            for (c, (to, (gate, value))) in to.iter_mut().zip(gated).enumerate() {
                *to += factor(c) * (gate * value);
            }
        } else if let Some(row) = span.read {
            let taps = self.p.width as usize - 1;
            let values = &self.state[(row * taps + taps + at - back) * channels..][..channels];
            for (c, to) in to.iter_mut().enumerate() {
                *to += factor(c) * values[c];
            }
        }
    }
}

/// The twin of `causal_conv.wgsl`.
pub(super) fn causal_conv(args: &Args) -> Result<(), HostError> {
    let p: CausalConvParams = args.params()?;
    let gated = args.op().starts_with("gated");
    let (tokens, channels) = (p.tokens as usize, p.channels as usize);
    if p.width < 2 || channels == 0 {
        return Err(args.value("width", "at least 2, and 1 channel", p.width));
    }
    let (width, taps) = (p.width as usize, p.width as usize - 1);
    let x: &[f32] = args.read(1, size(&[p.tokens, p.channels, if gated { 3 } else { 1 }]))?;
    let weight: &[f32] = args.read(2, size(&[p.channels, p.width]))?;
    let bias: &[f32] = match p.has_bias {
        0 => &[],
        _ => args.read(3, channels)?,
    };
    let index: &[[u32; 2]] = args.read(4, tokens)?;
    let state: &mut [f32] = args.write_all(6)?;
    let out: &mut [f32] = args.write(7, size(&[p.tokens, p.channels]))?;
    let spans = spans(args, 5, p.batch, tokens, state.len() / channels / taps)?;
    let of_token = of_tokens(args, index, &spans)?;
    let inputs = Inputs {
        p,
        gated,
        x,
        state: &*state,
    };
    let rows = out.par_chunks_mut(channels).zip(&of_token).enumerate();
    rows.for_each(|(t, (out, span))| {
        match p.has_bias {
            0 => out.fill(0.0),
            _ => out.copy_from_slice(bias),
        }
        for w in 0..width {
            let factor = |c: usize| weight[c * width + w];
            inputs.add(*span, t - span.first, taps - w, factor, out);
        }
        if p.silu != 0 {
            out.iter_mut().for_each(|x| *x = silu(*x));
        }
        if gated {
            let gates = inputs.part(t, 1).iter();
            out.iter_mut().zip(gates).for_each(|(x, gate)| *x *= gate);
        }
    });
    // The windows come from the rows that they replace, so all are read first.
    let windows = spans.iter().flatten().map(|span| {
        let mut window = vec![0f32; taps * channels];
        for (w, to) in window.chunks_exact_mut(channels).enumerate() {
            inputs.add(*span, span.len, taps - w, |_| 1.0, to);
        }
        (span.written, window)
    });
    let windows: Vec<(usize, Vec<f32>)> = windows.collect();
    for (row, window) in windows {
        state[row * taps * channels..][..taps * channels].copy_from_slice(&window);
    }
    Ok(())
}

/// Returns the span of each token; every token must have one, and every span only its sequence's tokens.
fn of_tokens(
    args: &Args,
    index: &[[u32; 2]],
    spans: &[Option<Span>],
) -> Result<Vec<Span>, HostError> {
    let of_token = (0..).zip(index).map(|(t, &[sequence, _])| {
        let span = spans.get(sequence as usize).copied().flatten();
        let own = span.filter(|span| (span.first..span.first + span.len).contains(&t));
        own.ok_or_else(|| {
            args.value(
                "a token's sequence",
                "one whose span has the token",
                sequence,
            )
        })
    });
    of_token.collect()
}
