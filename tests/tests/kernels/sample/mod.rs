//! `sample_scan`, `sample_compact` and `sample`: three calls that sample one token from each row of logits. The
//! sampled tokens are integers and are compared exactly.

mod cases;
mod hostile;
mod reference;

use wisp_shaders::params::{LogitBias, NOT_FORCED, SAMPLE_CHUNK, SAMPLE_CHUNK_WORDS};
use wisp_tests::kernels::{Case, check, check_with, twin_outputs};

use cases::{
    LOGPROB_WORDS, MAX_BIASES, SETTINGS, STEPS, biases, compact, counts, inputs, logits, masks,
    row_words, sample, sample_masked, sample_with, sample_with_logprobs, scan,
};

#[test]
fn kernels_match_the_twin() {
    let inputs = inputs(0);
    let cases = inputs
        .iter()
        .map(|(vocab, logits, settings)| sample_with(*vocab, logits, settings));
    check("sample", &cases.collect::<Vec<_>>());
}

/// The words of each row that the calls pass on: the summaries of its chunks, its values and their ids.
fn split_row(words: &[u32], vocab: usize) -> (Vec<&[u32]>, &[u32], &[u32]) {
    let (summaries, tokens) = words.split_at(row_words(vocab) - 2 * vocab);
    let (values, ids) = tokens.split_at(vocab);
    (
        summaries.chunks(SAMPLE_CHUNK_WORDS as usize).collect(),
        values,
        ids,
    )
}

/// Whether two floats, given by their bits, differ by more than rounding.
fn differ(a: u32, b: u32, bound: f32) -> bool {
    let (a, b) = (f32::from_bits(a), f32::from_bits(b));
    !((a - b).abs() <= bound * b.abs().max(1.0) || a == b)
}

#[test]
fn scanning_kernels_match_the_twin() {
    let inputs = inputs(2);
    let cases = inputs
        .iter()
        .map(|(vocab, logits, settings)| scan(*vocab, logits, settings));
    let cases: Vec<Case> = cases.collect();
    let expected: Vec<Vec<u32>> = cases
        .iter()
        .map(|case| bytemuck::pod_collect_to_vec(&twin_outputs("sample_scan", case)[5]))
        .collect();
    check_with("sample_scan", &cases, |case, outputs| {
        let (vocab, _, settings) = &inputs[case];
        let actual: Vec<u32> = bytemuck::pod_collect_to_vec(&outputs[5]);
        let rows = actual
            .chunks(row_words(*vocab))
            .zip(expected[case].chunks(row_words(*vocab)));
        let mut wrong = Vec::new();
        for ((row, (a, b)), s) in rows.enumerate().zip(settings) {
            let ((a, a_values, _), (b, b_values, _)) = (split_row(a, *vocab), split_row(b, *vocab));
            for (chunk, (a, b)) in a.iter().zip(&b).enumerate() {
                // The largest value and logit, and the sums of weights; then the token.
                let floats = [0, 2, 3, 4]
                    .into_iter()
                    .any(|word| differ(a[word], b[word], 1e-5));
                if floats || (s.forced_token == NOT_FORCED && a[1] != b[1]) {
                    wrong.push(format!("row {row}, chunk {chunk}: {a:x?}, expected {b:x?}"));
                }
            }
            let random = s.temperature > 0.0 && s.forced_token == NOT_FORCED;
            let values = a_values.iter().zip(b_values);
            if random && values.into_iter().any(|(a, b)| differ(*a, *b, 1e-6)) {
                wrong.push(format!("row {row} has other values"));
            }
        }
        wrong
    });
}

#[test]
fn compacting_kernels_match_the_twin() {
    let inputs = inputs(0);
    let cases = inputs
        .iter()
        .map(|(vocab, logits, settings)| compact(*vocab, logits, settings));
    let cases: Vec<Case> = cases.collect();
    let expected: Vec<Vec<u32>> = cases
        .iter()
        .map(|case| bytemuck::pod_collect_to_vec(&twin_outputs("sample_compact", case)[1]))
        .collect();
    check_with("sample_compact", &cases, |case, outputs| {
        let (vocab, _, settings) = &inputs[case];
        let actual: Vec<u32> = bytemuck::pod_collect_to_vec(&outputs[1]);
        let rows = actual
            .chunks(row_words(*vocab))
            .zip(expected[case].chunks(row_words(*vocab)));
        let mut wrong = Vec::new();
        for ((row, (a, b)), s) in rows.enumerate().zip(settings) {
            if s.forced_token != NOT_FORCED || s.temperature <= 0.0 {
                continue;
            }
            let (a, b) = (split_row(a, *vocab), split_row(b, *vocab));
            for (chunk, (a_words, b_words)) in a.0.iter().zip(&b.0).enumerate() {
                let first = chunk * SAMPLE_CHUNK as usize;
                let kept = first..first + b_words[5] as usize;
                let (thresholds, drawn) = (s.top_k != 0 || s.top_p < 1.0, b_words[6] != 0);
                let same = match thresholds && s.top_k < *vocab as u32 {
                    true => {
                        a_words[5] == b_words[5]
                            && a.1[kept.clone()] == b.1[kept.clone()]
                            && a.2[kept.clone()] == b.2[kept.clone()]
                    }
                    // The keys differ by the rounding of logarithms.
                    false => {
                        a_words[6].abs_diff(b_words[6]) < 64 && (!drawn || a_words[7] == b_words[7])
                    }
                };
                if !same {
                    wrong.push(format!(
                        "row {row}, chunk {chunk}: {a_words:x?}, expected {b_words:x?}"
                    ));
                }
            }
        }
        wrong
    });
}

/// The three calls together, on the host, against the algorithm as `sample.wgsl` states it.
#[test]
fn the_calls_together_follow_the_documented_algorithm() {
    for (vocab, logits, settings) in inputs(0) {
        let case = Case {
            dispatches: 1,
            ..sample_with(vocab, &logits, &settings)
        };
        let tokens: Vec<u32> = bytemuck::pod_collect_to_vec(&twin_outputs("sample", &case)[4]);
        let counts = counts(settings.len(), vocab);
        let all_biases: Vec<LogitBias> =
            bytemuck::pod_collect_to_vec(biases(settings.len() + 1, vocab).bytes());
        let (masks, words) = (masks(settings.len() + 1, vocab), vocab.div_ceil(32));
        for (row, s) in settings.iter().enumerate() {
            let first = s.sequence as usize * MAX_BIASES as usize;
            let expected = match s.forced_token {
                NOT_FORCED => reference::draw(
                    &logits[row * vocab..][..vocab],
                    &counts[s.sequence as usize * vocab..][..vocab],
                    &all_biases[first..first + s.biases as usize],
                    &masks[s.sequence as usize * words..][..words],
                    s,
                ),
                token => token.min(vocab as u32 - 1),
            };
            assert_eq!(tokens[row], expected, "{vocab} tokens, row {row}: {s:?}");
        }
    }
}

#[test]
fn rows_without_a_finite_logit_are_reported() {
    let rows = 4 * SETTINGS.len();
    let bad = |row: usize| match row / SETTINGS.len() {
        0 => Some(f32::NAN),
        1 => Some(f32::NEG_INFINITY),
        2 => Some(f32::INFINITY),
        _ => None,
    };
    let cases = [5, 515, 1024].map(|vocab| {
        let mut logits = logits(rows, vocab);
        for (row, logits) in logits.chunks_mut(vocab).enumerate() {
            if let Some(bad) = bad(row) {
                logits.fill(bad);
            }
        }
        sample(vocab, &logits)
    });
    check_with("sample", &cases, |_, outputs| {
        let out: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[6]);
        let mut wrong = Vec::new();
        for row in 0..rows {
            for step in 0..STEPS {
                // The rows of `out` that `sample` assigns.
                let token = out[(row % 2 + step) * rows + row];
                if (token == u32::MAX) != bad(row).is_some() {
                    wrong.push(format!("row {row} samples {token} at step {step}"));
                }
            }
        }
        wrong
    });
}

/// Where a mask allows tokens, one of them is sampled, however unlikely it is; where it allows none, that is reported.
#[test]
fn only_allowed_tokens_are_sampled() {
    let rows = 3 * SETTINGS.len();
    for vocab in [1usize, 33, 515, 1100] {
        let words = vocab.div_ceil(32);
        let mut settings = cases::settings(rows, vocab, 0);
        for s in &mut settings {
            (s.masked, s.forced_token) = (1, NOT_FORCED);
        }
        let mut masks = masks(rows + 1, vocab);
        // Every fifth sequence allows nothing, whatever stands after the last token.
        for mask in masks.chunks_mut(words).step_by(5) {
            mask.fill(0);
            mask[words - 1] = u32::MAX.checked_shl(vocab as u32 % 32).unwrap_or(0);
            if vocab.is_multiple_of(32) {
                mask[words - 1] = 0;
            }
        }
        let allows = |sequence: u32, token: usize| {
            masks[sequence as usize * words + token / 32] >> (token % 32) & 1 == 1
        };
        // Allowed tokens are the least likely ones.
        let mut logits = logits(rows, vocab);
        for (s, logits) in settings.iter().zip(logits.chunks_mut(vocab)) {
            for (token, logit) in logits.iter_mut().enumerate() {
                *logit -= if allows(s.sequence, token) { 1e4 } else { 0.0 };
            }
        }
        let cases = [sample_masked(vocab, &logits, &settings, &masks)];
        check_with("sample", &cases, |_, outputs| {
            let out: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[6]);
            let mut wrong = Vec::new();
            for (row, s) in settings.iter().enumerate() {
                let token = out[s.step as usize * rows + row];
                let is_allowed = match s.sequence % 5 {
                    0 => token == u32::MAX,
                    _ => (token as usize) < vocab && allows(s.sequence, token as usize),
                };
                if !is_allowed {
                    wrong.push(format!("{vocab} tokens, row {row}: {token}"));
                }
            }
            wrong
        });
    }
}

/// Log-probabilities are the log-softmax of the given logits, however a token is sampled from them.
#[test]
fn logprobs_are_the_log_softmax() {
    let mut cases = Vec::new();
    let mut all_logits = Vec::new();
    for vocab in [1usize, 2, 5, 515, 1024] {
        for top in [1, 2, 4, 9] {
            let logits = logits(2 * SETTINGS.len(), vocab);
            let rounded: Vec<f32> = logits.iter().map(|x| x.round()).collect();
            for logits in [logits, rounded] {
                cases.push(sample_with_logprobs(vocab, &logits, top));
                all_logits.push((vocab, top, logits));
            }
        }
    }
    check_with("sample", &cases, |case, outputs| {
        let (vocab, top, logits) = &all_logits[case];
        let rows = 2 * SETTINGS.len();
        let out: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[6]);
        let logprobs: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[7]);
        let mut wrong = Vec::new();
        for row in 0..rows {
            let logits = &logits[row * vocab..][..*vocab];
            let total: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
            let expected = |token: u32| f64::from(logits[token as usize]) - total.ln();
            let mut order: Vec<u32> = (0..*vocab as u32).collect();
            order.sort_by(|a, b| logits[*b as usize].total_cmp(&(logits[*a as usize])));
            for step in row % 2..row % 2 + STEPS {
                let at = step * rows + row;
                let words = &logprobs[at * LOGPROB_WORDS..][..LOGPROB_WORDS];
                let mut pairs = vec![(out[at], words[0])];
                for (n, pair) in words[1..].chunks(2).take(*top as usize - 1).enumerate() {
                    if n >= *vocab {
                        if pair[0] != u32::MAX {
                            wrong.push(format!("row {row} has {pair:?} past the vocabulary"));
                        }
                        continue;
                    }
                    if logits[pair[0] as usize] != logits[order[n] as usize] {
                        wrong.push(format!(
                            "row {row}: number {n} is {pair:?}, expected token {}",
                            order[n]
                        ));
                    }
                    pairs.push((pair[0], pair[1]));
                }
                for (token, logprob) in pairs {
                    let (got, expected) = (f64::from(f32::from_bits(logprob)), expected(token));
                    if (got - expected).abs() > 1e-4 || !got.is_finite() {
                        wrong.push(format!(
                            "row {row}, token {token}: {got}, expected {expected}"
                        ));
                    }
                }
            }
        }
        wrong
    });
}
