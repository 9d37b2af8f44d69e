//! `causal_conv` and `gated_causal_conv`.

use wisp_shaders::params::CausalConvParams;
use wisp_tests::{
    guarded::{Hostile, check_hostile},
    kernels::{Case, case, check, close, exact, noise, replaced},
};

use crate::spans::{BATCHES, HOSTILE, ROWS, hostile_spans, ragged};

const OPS: [(&str, bool); 2] = [("causal_conv", false), ("gated_causal_conv", true)];

/// What a case convolves.
#[derive(Clone, Copy)]
struct Filters {
    channels: usize,
    width: usize,
    has_bias: bool,
    silu: bool,
}

fn causal_conv(
    gated: bool,
    filters: Filters,
    (index, spans): &(Vec<[u32; 2]>, Vec<[u32; 4]>),
) -> Case {
    let Filters {
        channels, width, ..
    } = filters;
    let tokens = index.len();
    let params = CausalConvParams {
        tokens: tokens as u32,
        batch: spans.len() as u32,
        channels: channels as u32,
        width: width as u32,
        has_bias: filters.has_bias.into(),
        silu: filters.silu.into(),
    };
    let parts = if gated { 3 } else { 1 };
    let memory = vec![
        exact(&noise(1, tokens * parts * channels)),
        exact(&noise(2, channels * width)),
        exact(&noise(3, channels)),
        exact(index),
        // Behind the batch's spans there may be others.
        exact(&[&spans[..], &[[0, 1, 0, 0]]].concat()),
        replaced(&noise(4, ROWS * (width - 1) * channels), 1e-6),
        close(tokens * channels, 1e-6),
    ];
    case(params, memory, &[channels, tokens], channels)
}

#[test]
fn kernels_match_the_twin() {
    let filters = |channels, width, has_bias, silu| Filters {
        channels,
        width,
        has_bias,
        silu,
    };
    let all = [
        filters(1, 2, false, false),
        filters(67, 3, true, false),
        filters(130, 4, false, true),
        filters(5, 9, true, true),
    ];
    for (op, gated) in OPS {
        let batches = BATCHES.iter().map(|sequences| ragged(sequences));
        let cases: Vec<Case> = batches
            .flat_map(|batch| all.map(|filters| causal_conv(gated, filters, &batch)))
            .collect();
        check(op, &cases);
    }
}

#[test]
fn sequences_without_a_valid_span_write_nothing() {
    let filters = Filters {
        channels: 6,
        width: 3,
        has_bias: true,
        silu: true,
    };
    let (index, spans) = ragged(HOSTILE);
    let tokens = spans[1][0] as usize..(spans[1][0] + spans[1][1]) as usize;
    let bytes =
        |rows: std::ops::Range<usize>, words: usize| 4 * words * rows.start..4 * words * rows.end;
    for (op, gated) in OPS {
        let reference = causal_conv(gated, filters, &(index.clone(), spans.clone()));
        let cases = hostile_spans().into_iter().map(|batch| {
            let hostile = causal_conv(gated, filters, &batch);
            let (state, row) = (6, filters.channels * (filters.width - 1));
            Hostile::refused(hostile, reference.clone())
                .unwritten(7, bytes(tokens.clone(), filters.channels))
                .unwritten(state, bytes(1..2, row))
        });
        check_hostile(op, &cases.collect::<Vec<_>>());
    }
}
