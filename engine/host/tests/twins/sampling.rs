//! Sampling: the distribution of tokens, and the state that is written with them.

use proptest::prelude::*;
use wisp_shaders::params::*;

use super::zeros;
use crate::support::{buffer, contents, numbers, run};

/// A row of logits to sample from, and the tokens that the prompt contains.
#[derive(Clone, Debug)]
struct Draw {
    logits: Vec<f32>,
    seen: Vec<u32>,
    /// The tokens that the mask allows, if the settings say that it applies.
    allowed: Vec<u32>,
    settings: SampleSettings,
}

/// Samples a token.
fn sampled(draw: &Draw) -> u32 {
    sampled_with_scores(draw).0
}

/// Words of the log-probabilities of a token: its own, and five tokens with theirs.
const SCORE_WORDS: usize = 11;

/// Samples a token, and checks the counts, settings and index that are written with it. Returns its log-probabilities too.
fn sampled_with_scores(draw: &Draw) -> (u32, Vec<u32>) {
    let vocab = draw.logits.len();
    let params = SampleParams {
        rows: 1,
        vocab: vocab as u32,
        max_biases: 1,
        logprob_words: SCORE_WORDS as u32,
    };
    let mut counts = vec![0u32; 2 * vocab];
    for token in &draw.seen {
        counts[vocab + *token as usize] = IN_PROMPT;
    }
    let settings = SampleSettings {
        sequence: 1,
        step: 2,
        position: 9,
        ..draw.settings
    };
    let (settings_buffer, counts_buffer) = (buffer(&[settings]), buffer(&counts));
    let (tokens, index, out) = (zeros::<u32>(1), zeros::<[u32; 2]>(1), zeros::<u32>(3));
    let scores = zeros::<u32>(3 * SCORE_WORDS);
    let logits = buffer(&draw.logits);
    let chunks = vocab.div_ceil(SAMPLE_CHUNK as usize);
    let scratch = zeros::<u32>(chunks * SAMPLE_CHUNK_WORDS as usize + 2 * vocab);
    let biases = zeros::<[u32; 4]>(2);
    let mut masks = vec![0u32; 2 * vocab.div_ceil(32)];
    for token in &draw.allowed {
        masks[vocab.div_ceil(32) + *token as usize / 32] |= 1 << (token % 32);
    }
    let masks = buffer(&masks);
    let bound = [
        &logits,
        &settings_buffer,
        &counts_buffer,
        &biases,
        &masks,
        &scratch,
    ];
    run("sample_scan", params, &bound).unwrap();
    run("sample_compact", params, &[&settings_buffer, &scratch]).unwrap();
    let bound = [
        &logits,
        &scratch,
        &settings_buffer,
        &counts_buffer,
        &tokens,
        &index,
        &out,
        &scores,
    ];
    run("sample", params, &bound).unwrap();
    let token = contents::<u32>(&tokens)[0];
    assert_eq!(contents::<u32>(&index), [1, 9]);
    // A logit that is not finite is reported.
    let finite = draw.logits[token as usize].is_finite();
    let finite = finite && (settings.masked == 0 || draw.allowed.contains(&token));
    let reported = if finite { token } else { u32::MAX };
    assert_eq!(contents::<u32>(&out), [0, 0, reported]);
    if settings.repetition_penalty != 1.0 {
        counts[vocab + token as usize] += 1;
    }
    assert_eq!(contents::<u32>(&counts_buffer), counts);
    let after = SampleSettings {
        step: 3,
        position: 10,
        ..settings
    };
    // Compared as bytes, because settings may hold NaN.
    assert_eq!(contents::<u8>(&settings_buffer), bytemuck::bytes_of(&after));
    (token, contents::<u32>(&scores)[2 * SCORE_WORDS..].to_vec())
}

/// Settings that change nothing.
const NEUTRAL: SampleSettings = SampleSettings {
    temperature: 1.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repetition_penalty: 1.0,
    presence_penalty: 0.0,
    frequency_penalty: 0.0,
    seed: 0,
    step: 0,
    sequence: 0,
    position: 0,
    forced_token: NOT_FORCED,
    biases: 0,
    logprobs: 0,
    masked: 0,
};

/// The relative frequency of each token over 20,000 seeds.
fn frequencies(logits: &[f32], seen: &[u32], settings: SampleSettings) -> Vec<f64> {
    let mut counts = vec![0.0; logits.len()];
    const DRAWS: u32 = 20_000;
    for seed in 0..DRAWS {
        let settings = SampleSettings { seed, ..settings };
        let draw = Draw {
            logits: logits.to_vec(),
            seen: seen.to_vec(),
            allowed: vec![1, 2],
            settings,
        };
        counts[sampled(&draw) as usize] += 1.0 / f64::from(DRAWS);
    }
    counts
}

fn assert_frequencies(actual: &[f64], weights: &[f64]) {
    let total: f64 = weights.iter().sum();
    for (actual, weight) in actual.iter().zip(weights) {
        // Four standard deviations of 20,000 draws, at most.
        let bound = if *weight == 0.0 { 0.0 } else { 0.0142 };
        assert!(
            (actual - weight / total).abs() <= bound,
            "{actual} for {}",
            weight / total
        );
    }
}

#[test]
fn frequencies_follow_the_filtered_distribution() {
    let weights = [0.1f64, 0.4, 0.25, 0.05, 0.2];
    let logits = weights.map(|w| w.ln() as f32);
    assert_frequencies(&frequencies(&logits, &[], NEUTRAL), &weights);
    let halved = SampleSettings {
        temperature: 0.5,
        ..NEUTRAL
    };
    assert_frequencies(&frequencies(&logits, &[], halved), &weights.map(|w| w * w));
    let top_k = SampleSettings {
        top_k: 3,
        ..NEUTRAL
    };
    assert_frequencies(
        &frequencies(&logits, &[], top_k),
        &[0.0, 0.4, 0.25, 0.0, 0.2],
    );
    let top_p = SampleSettings {
        top_p: 0.6,
        ..NEUTRAL
    };
    assert_frequencies(
        &frequencies(&logits, &[], top_p),
        &[0.0, 0.4, 0.25, 0.0, 0.0],
    );
    // top_p applies to what top_k leaves: 0.4 and 0.25 of 0.65.
    let both = SampleSettings {
        top_k: 2,
        top_p: 0.6,
        ..NEUTRAL
    };
    assert_frequencies(&frequencies(&logits, &[], both), &[0.0, 1.0, 0.0, 0.0, 0.0]);
    let min_p = SampleSettings {
        min_p: 0.3,
        ..NEUTRAL
    };
    assert_frequencies(
        &frequencies(&logits, &[], min_p),
        &[0.0, 0.4, 0.25, 0.0, 0.2],
    );
    let penalty = SampleSettings {
        repetition_penalty: 2.0,
        ..NEUTRAL
    };
    assert_frequencies(
        &frequencies(&logits, &[1, 4], penalty),
        &[0.1, 0.16, 0.25, 0.05, 0.04],
    );
    // The mask allows tokens 1 and 2.
    let masked = SampleSettings {
        masked: 1,
        ..NEUTRAL
    };
    assert_frequencies(
        &frequencies(&logits, &[], masked),
        &[0.0, 0.4, 0.25, 0.0, 0.0],
    );
}

/// Standard Gumbel noise of a token, by pcg4d (Jarzynski and Olano 2020).
fn noise(seed: u32, position: u32, token: u32) -> f32 {
    let mut v =
        [seed, position, token, 0].map(|v: u32| v.wrapping_mul(1664525).wrapping_add(1013904223));
    for round in 0..2 {
        for (i, a, b) in [(0, 1, 3), (1, 2, 0), (2, 0, 1), (3, 1, 2)] {
            v[i] = v[i].wrapping_add(v[a].wrapping_mul(v[b]));
        }
        if round == 0 {
            v = v.map(|v| v ^ v >> 16);
        }
    }
    let u = (f64::from(v[0] >> 8) + 0.5) / 16777216.0;
    -(-(-u).ln_1p()).ln() as f32
}

/// What is drawn from many tokens is the largest sum of value and noise, computed for each of them.
#[test]
fn the_largest_value_plus_noise_is_drawn() {
    let chunk = SAMPLE_CHUNK as usize;
    for (seed, len) in (0..).zip([1, 15, 40, chunk, chunk + 1, 2 * chunk + 77]) {
        let logits: Vec<f32> = numbers(seed, len).iter().map(|x| 6.0 * x).collect();
        for (temperature, min_p) in [(1.0, 0.0), (0.5, 0.05), (3.0, 0.3), (1.0, 1.0), (1.0, 1.5)] {
            let settings = SampleSettings {
                temperature,
                min_p,
                seed,
                ..NEUTRAL
            };
            let drawn = sampled(&Draw {
                logits: logits.clone(),
                seen: Vec::new(),
                allowed: Vec::new(),
                settings,
            });
            let values: Vec<f32> = logits.iter().map(|l| l / temperature).collect();
            let max = values.iter().copied().fold(f32::MIN, f32::max);
            let is_kept = |z: f32| (z - max).exp() >= min_p || z == max;
            let sums = (0..).zip(&values).filter(|(_, z)| is_kept(**z));
            let sums = sums.map(|(token, z)| (z + noise(seed, 9, token), token));
            let largest = sums.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            assert_eq!(
                Some(drawn),
                largest.map(|(_, token)| token),
                "{len} {min_p}"
            );
        }
    }
}

/// Where values are so large that a hundredth is lost beside them, min-p keeps what it keeps elsewhere.
#[test]
fn min_p_compares_differences_of_large_values() {
    for (logits, seed, expected) in [
        (vec![327677.0, 327680.0], 34, 1),
        (vec![327680.0, 327677.0, 327679.5], 66, 2),
    ] {
        let settings = SampleSettings {
            min_p: 0.05,
            seed,
            ..NEUTRAL
        };
        let draw = Draw {
            logits,
            seen: Vec::new(),
            allowed: Vec::new(),
            settings,
        };
        assert_eq!(sampled(&draw), expected);
    }
}

#[test]
fn log_probabilities_are_those_of_the_likeliest_tokens_the_first_among_equals() {
    let chunk = SAMPLE_CHUNK as usize;
    for (seed, len) in (0..).zip([1, 3, 5, 40, chunk, chunk + 1, 2 * chunk + 77]) {
        // Few different values, both zeros among them, in any chunk.
        let logits: Vec<f32> = numbers(seed, len)
            .iter()
            .map(|x| (6.0 * x).round() * 0.5)
            .collect();
        let settings = SampleSettings {
            logprobs: 6,
            ..NEUTRAL
        };
        let (token, scores) = sampled_with_scores(&Draw {
            logits: logits.clone(),
            seen: Vec::new(),
            allowed: Vec::new(),
            settings,
        });
        let total: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
        let expected = |token: usize| f64::from(logits[token]) - total.ln();
        let is_near = |actual: u32, token: usize| {
            (f64::from(f32::from_bits(actual)) - expected(token)).abs() < 2e-6
        };
        assert!(is_near(scores[0], token as usize), "{len}");
        let mut order: Vec<usize> = (0..len).collect();
        order.sort_by(|a, b| (logits[*b] + 0.0).total_cmp(&(logits[*a] + 0.0)));
        for (n, pair) in scores[1..].chunks_exact(2).enumerate() {
            let id = order.get(n).map_or(u32::MAX, |id| *id as u32);
            assert_eq!(pair[0], id, "{len}");
            assert!(order.get(n).is_none_or(|id| is_near(pair[1], *id)), "{len}");
        }
    }
}

#[test]
fn greedy_sampling_takes_the_first_largest_penalised_logit() {
    let greedy = SampleSettings {
        temperature: 0.0,
        repetition_penalty: 4.0,
        ..NEUTRAL
    };
    let draw = |logits: &[f32], seen: &[u32]| {
        sampled(&Draw {
            logits: logits.to_vec(),
            seen: seen.to_vec(),
            allowed: vec![1, 2],
            settings: greedy,
        })
    };
    assert_eq!(draw(&[1.0, 3.0, 3.0, 2.0], &[]), 1);
    assert_eq!(draw(&[1.0, 3.0, 3.0, 2.0], &[1]), 2);
    assert_eq!(draw(&[-1.0, -3.0, -5.0], &[0]), 1);
    assert_eq!(draw(&[f32::NAN; 40], &[]), 0);
    assert_eq!(
        draw(&[f32::NAN, f32::NEG_INFINITY, -1.0, f32::INFINITY], &[]),
        3
    );
}

proptest! {
    #[test]
    fn any_logits_and_settings_give_a_token_of_the_vocabulary(
        logits in proptest::collection::vec(
            prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), any::<f32>(), -9f32..9.0],
            1..70,
        ),
        temperature in prop_oneof![Just(f32::NAN), any::<f32>(), 0f32..2.0],
        top_k in 0u32..80,
        top_p in prop_oneof![Just(f32::NAN), -1f32..2.0],
        min_p in prop_oneof![Just(f32::NAN), -1f32..2.0],
        repetition_penalty in prop_oneof![Just(0f32), Just(f32::NAN), any::<f32>()],
        seed: u32,
        masked in 0u32..2,
        allowed in proptest::collection::vec(0u32..70, 0..9),
    ) {
        let settings =
            SampleSettings { temperature, top_k, top_p, min_p, repetition_penalty, seed, masked, ..NEUTRAL };
        let len = logits.len();
        let allowed: Vec<u32> = allowed.into_iter().filter(|token| (*token as usize) < len).collect();
        let is_free = masked == 0 || allowed.is_empty();
        let token = sampled(&Draw { logits, seen: vec![0], allowed: allowed.clone(), settings });
        prop_assert!((token as usize) < len);
        prop_assert!(is_free || allowed.contains(&token));
    }
}
