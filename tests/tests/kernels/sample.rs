//! `sample`. The sampled tokens are integers and are compared exactly.

use wisp_shaders::params::{IN_PROMPT, LogitBias, NOT_FORCED, SampleParams, SampleSettings};
use wisp_tests::guarded::{Hostile, check_hostile, invalid_indices};
use wisp_tests::kernels::{Case, Memory, any, case, check, check_outputs, exact, noise};

/// Steps that each case runs.
const STEPS: usize = 2;

const GREEDY: SampleSettings = SampleSettings {
    temperature: 0.0,
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
};

const fn random(
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
) -> SampleSettings {
    SampleSettings {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        ..GREEDY
    }
}

const SETTINGS: &[SampleSettings] = &[
    GREEDY,
    random(0.0, 3, 0.5, 0.5, 1.7),
    random(1.0, 0, 1.0, 0.0, 1.0),
    random(0.7, 4, 1.0, 0.0, 1.0),
    random(1.0, 0, 0.9, 0.0, 1.0),
    random(1.3, 0, 1.0, 0.05, 1.0),
    random(2.0, 0, 1.0, 0.0, 1.3),
    random(0.8, 40, 0.95, 0.02, 1.1),
    random(5.0, 1, 0.3, 0.9, 0.8),
    SampleSettings {
        presence_penalty: 1.5,
        frequency_penalty: 0.25,
        ..GREEDY
    },
    SampleSettings {
        biases: MAX_BIASES,
        presence_penalty: -0.5,
        ..random(0.9, 0, 0.97, 0.0, 1.2)
    },
    SampleSettings {
        biases: 2,
        ..GREEDY
    },
    SampleSettings {
        forced_token: 3,
        biases: 1,
        frequency_penalty: 2.0,
        ..GREEDY
    },
];

/// Biases that the buffer has room for in each sequence.
const MAX_BIASES: u32 = 3;

/// Words of a row of log-probabilities.
const LOGPROB_WORDS: usize = 7;

/// Rows of logits, which take the settings in turn. Each row is a separate sequence, in reverse order.
fn sample(vocab: usize, logits: &[f32]) -> Case {
    sample_with_logprobs(vocab, logits, 0)
}

fn sample_with_logprobs(vocab: usize, logits: &[f32], top: u32) -> Case {
    let rows = logits.len() / vocab;
    let batch = rows + 1;
    let setting = |row: u32| SETTINGS[row as usize % SETTINGS.len()];
    let settings: Vec<_> = (0..rows as u32)
        .map(|row| SampleSettings {
            seed: row / 5,
            step: row % 2,
            sequence: rows as u32 - row,
            position: 10 + row * 3,
            logprobs: top,
            biases: setting(row).biases.min(vocab as u32),
            ..setting(row)
        })
        .collect();
    let params = SampleParams {
        rows: rows as u32,
        vocab: vocab as u32,
        max_biases: MAX_BIASES,
        logprob_words: LOGPROB_WORDS as u32,
    };
    let counts: Vec<u32> = noise(3, batch * vocab)
        .iter()
        .map(|x| match x.to_bits() % 5 {
            0 => IN_PROMPT,
            1 => IN_PROMPT | 2,
            2 => 1 + x.to_bits() % 4,
            _ => 0,
        })
        .collect();
    let logprobs = vec![7u32; (STEPS + 1) * rows * LOGPROB_WORDS];
    let memory = vec![
        exact(logits),
        exact(&settings),
        exact(&counts),
        exact(&vec![7u32; rows]),
        exact(&vec![7u32; 2 * rows]),
        exact(&vec![7u32; (STEPS + 1) * rows]),
        biases(batch, vocab),
        if top == 0 {
            exact(&logprobs)
        } else {
            any(&logprobs)
        },
    ];
    Case {
        dispatches: STEPS,
        ..case(params, memory, &[rows], vocab)
    }
}

/// Biases of distinct tokens, large enough to matter. The kernel uses the rest of an entry as it likes.
fn biases(batch: usize, vocab: usize) -> Memory {
    let list = (0..batch).flat_map(|sequence| {
        (0..MAX_BIASES as usize).map(move |i| LogitBias {
            token: ((sequence + i) % vocab) as u32,
            value: [30.0, -30.0, 4.5][i],
            ..LogitBias::default()
        })
    });
    any(&list.collect::<Vec<LogitBias>>())
}

/// Logits of which a few in each row are much likelier than the rest.
fn logits(rows: usize, vocab: usize) -> Vec<f32> {
    let cubed = noise(1, rows * vocab).into_iter().map(|x| x * x * x * 9.0);
    cubed.collect()
}

#[test]
fn kernels_match_the_twin() {
    let mut cases = Vec::new();
    for vocab in [1usize, 5, 515, 1024] {
        for rows in [1, 3, 45] {
            let logits = logits(rows, vocab);
            // Many are equal, also at the thresholds.
            let rounded: Vec<f32> = logits.iter().map(|x| x.round()).collect();
            // NaN and minus infinity are never sampled while there is a finite logit.
            let holes: Vec<f32> = logits
                .iter()
                .enumerate()
                .map(|(i, x)| match i % 7 {
                    1 => f32::NAN,
                    3 | 4 => f32::NEG_INFINITY,
                    _ => *x,
                })
                .collect();
            for logits in [logits, rounded, holes] {
                cases.push(sample(vocab, &logits));
            }
        }
    }
    check("sample", &cases);
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
    check("sample", &cases);
    check_outputs("sample", &cases, |_, outputs| {
        let out: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[5]);
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
    check("sample", &cases);
    check_outputs("sample", &cases, |case, outputs| {
        let (vocab, top, logits) = &all_logits[case];
        let rows = 2 * SETTINGS.len();
        let out: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[5]);
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

/// Rows of one step whose settings `change` makes invalid where their number is odd, and a reference in
/// which `fix` replaces that. The settings that the kernels must write are those of the hostile case.
fn hostile(
    change: impl Fn(usize, &mut SampleSettings),
    fix: impl Fn(usize, &mut SampleSettings),
) -> Hostile {
    let vocab = 60;
    let rows = 2 * invalid_indices(1).len();
    let mut case = sample_with_logprobs(vocab, &logits(rows, vocab), 3);
    case.dispatches = 1;
    let valid: Vec<SampleSettings> = bytemuck::pod_collect_to_vec(case.memory[1].bytes());
    let with = |change: &dyn Fn(usize, &mut SampleSettings)| {
        let mut settings = valid.clone();
        for row in (1..rows).step_by(2) {
            change(row, &mut settings[row]);
        }
        let mut case = case.clone();
        case.memory[1] = exact(&settings);
        (case, settings)
    };
    let (case, settings) = with(&change);
    let (reference, _) = with(&fix);
    let after = settings.iter().map(|s| SampleSettings {
        step: s.step.wrapping_add(1),
        position: s.position.wrapping_add(1),
        ..*s
    });
    let after: Vec<SampleSettings> = after.collect();
    let index: Vec<[u32; 2]> = settings.iter().map(|s| [s.sequence, s.position]).collect();
    let mut hostile = Hostile::refused(case, reference);
    let bytes = bytemuck::cast_slice(&after).to_vec();
    hostile.overrides.push((2, 0, bytes));
    let bytes = bytemuck::cast_slice(&index).to_vec();
    hostile.overrides.push((5, 0, bytes));
    hostile
}

fn invalid(row: usize) -> u32 {
    // No sequence, step or bias has a number from 60 on.
    let all = invalid_indices(60);
    all[row / 2 % all.len()]
}

#[test]
fn settings_of_an_invalid_sequence_apply_no_penalties_and_biases() {
    let without = |_: usize, s: &mut SampleSettings| {
        (
            s.repetition_penalty,
            s.presence_penalty,
            s.frequency_penalty,
        ) = (1.0, 0.0, 0.0);
        s.biases = 0;
    };
    check_hostile(
        "sample",
        &[hostile(|row, s| s.sequence = invalid(row), without)],
    );
}

#[test]
fn settings_of_an_invalid_step_write_no_output() {
    let rows = 2 * invalid_indices(1).len();
    // The reference writes to a step that no valid row uses.
    let mut hostile = hostile(|row, s| s.step = invalid(row), |_, s| s.step = STEPS as u32);
    for row in (1..rows).step_by(2) {
        let at = STEPS * rows + row;
        hostile = hostile.unwritten(6, 4 * at..4 * at + 4);
        let words = at * LOGPROB_WORDS..(at + 1) * LOGPROB_WORDS;
        hostile = hostile.unwritten(8, 4 * words.start..4 * words.end);
    }
    check_hostile("sample", &[hostile]);
}

#[test]
fn biases_beyond_the_buffer_are_ignored() {
    let hostile = hostile(
        |row, s| s.biases = invalid(row),
        |_, s| s.biases = MAX_BIASES,
    );
    check_hostile("sample", &[hostile]);
}

#[test]
fn forced_tokens_past_the_vocabulary_stand_for_the_last_token() {
    let mut hostile = hostile(
        // Not `NOT_FORCED`.
        |row, s| s.forced_token = invalid(row).min(u32::MAX - 1),
        |_, s| s.forced_token = 59,
    );
    hostile.refused = false;
    check_hostile("sample", &[hostile]);
}

#[test]
fn biased_tokens_past_the_vocabulary_stand_for_the_last_token() {
    let biased = |token: &dyn Fn(usize) -> u32| {
        let mut hostile = hostile(|_, s| s.biases = 1, |_, s| s.biases = 1);
        let batch = hostile.case.memory[6].bytes().len() / size_of::<LogitBias>();
        let biases: Vec<LogitBias> = (0..batch)
            .map(|i| LogitBias {
                // The tokens of a row are distinct: only its first one is invalid.
                token: match i % MAX_BIASES as usize {
                    0 => token(2 * i),
                    other => other as u32,
                },
                value: 5.0,
                ..LogitBias::default()
            })
            .collect();
        hostile.case.memory[6] = any(&biases);
        hostile
    };
    let (mut hostile, reference) = (biased(&invalid), biased(&|_| 59));
    hostile.reference = reference.case;
    hostile.refused = false;
    check_hostile("sample", &[hostile]);
}
