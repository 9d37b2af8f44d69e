//! `sample`: what it draws is an integer, and compared as such.

use wisp_shaders::params::{Bias, DRAWN, IN_PROMPT, SampleParams, SampleSettings};
use wisp_tests::kernels::{Case, Memory, any, case, check, check_outputs, exact, noise};

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
    forced: DRAWN,
    biases: 0,
    scored: 0,
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
        forced: 3,
        biases: 1,
        frequency_penalty: 2.0,
        ..GREEDY
    },
];

const MAX_BIASES: u32 = 3;

/// Words of a row of scores.
const SCORE_WORDS: usize = 7;

/// Rows of logits with every setting, each a sequence of its own, in another order.
fn sample(vocab: usize, logits: &[f32]) -> Case {
    scored_sample(vocab, logits, 0)
}

fn scored_sample(vocab: usize, logits: &[f32], scored: u32) -> Case {
    let rows = logits.len() / vocab;
    let batch = rows + 1;
    let setting = |row: u32| SETTINGS[row as usize % SETTINGS.len()];
    let settings: Vec<_> = (0..rows as u32)
        .map(|row| SampleSettings {
            seed: row / 5,
            step: row % 2,
            sequence: rows as u32 - row,
            position: 10 + row * 3,
            scored,
            biases: setting(row).biases.min(vocab as u32),
            ..setting(row)
        })
        .collect();
    let params = SampleParams {
        rows: rows as u32,
        vocab: vocab as u32,
        max_biases: MAX_BIASES,
        score_words: SCORE_WORDS as u32,
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
    let scores = vec![7u32; (STEPS + 1) * rows * SCORE_WORDS];
    let memory = vec![
        exact(logits),
        exact(&settings),
        exact(&counts),
        exact(&vec![7u32; rows]),
        exact(&vec![7u32; 2 * rows]),
        exact(&vec![7u32; (STEPS + 1) * rows]),
        biases(batch, vocab),
        if scored == 0 {
            exact(&scores)
        } else {
            any(&scores)
        },
    ];
    Case {
        dispatches: STEPS,
        ..case(params, memory, &[rows], vocab)
    }
}

/// Distinct tokens with values that matter. What the kernel keeps there is its own affair.
fn biases(batch: usize, vocab: usize) -> Memory {
    let list = (0..batch).flat_map(|sequence| {
        (0..MAX_BIASES as usize).map(move |i| Bias {
            token: ((sequence + i) % vocab) as u32,
            value: [30.0, -30.0, 4.5][i],
            ..Bias::default()
        })
    });
    any(&list.collect::<Vec<Bias>>())
}

/// Logits of `rows` rows, a few likelier than the rest.
fn logits(rows: usize, vocab: usize) -> Vec<f32> {
    let cubed = noise(1, rows * vocab).into_iter().map(|x| x * x * x * 9.0);
    cubed.collect()
}

#[test]
fn samples() {
    let mut cases = Vec::new();
    for vocab in [1usize, 5, 515, 1024] {
        for rows in [1, 3, 45] {
            let logits = logits(rows, vocab);
            // Equal ones, too, also at the thresholds.
            let rounded: Vec<f32> = logits.iter().map(|x| x.round()).collect();
            // What is no number, or impossible, is never drawn while there is another.
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

/// Rows without a finite logit are reported, and no others.
#[test]
fn rows_that_are_not_finite() {
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
                // As `sample` lays them out.
                let drawn = out[(row % 2 + step) * rows + row];
                if (drawn == u32::MAX) != bad(row).is_some() {
                    wrong.push(format!("row {row} draws {drawn} at step {step}"));
                }
            }
        }
        wrong
    });
}

/// Scores are the log-softmax of the logits as they came, whatever is drawn of them.
#[test]
fn scores() {
    let mut cases = Vec::new();
    let mut all_logits = Vec::new();
    for vocab in [1usize, 2, 5, 515, 1024] {
        for scored in [1, 2, 4, 9] {
            let logits = logits(2 * SETTINGS.len(), vocab);
            let rounded: Vec<f32> = logits.iter().map(|x| x.round()).collect();
            for logits in [logits, rounded] {
                cases.push(scored_sample(vocab, &logits, scored));
                all_logits.push((vocab, scored, logits));
            }
        }
    }
    check("sample", &cases);
    check_outputs("sample", &cases, |case, outputs| {
        let (vocab, scored, logits) = &all_logits[case];
        let rows = 2 * SETTINGS.len();
        let out: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[5]);
        let scores: &[u32] = &bytemuck::pod_collect_to_vec(&outputs[7]);
        let mut wrong = Vec::new();
        for row in 0..rows {
            let logits = &logits[row * vocab..][..*vocab];
            let total: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
            let expected = |token: u32| f64::from(logits[token as usize]) - total.ln();
            let mut order: Vec<u32> = (0..*vocab as u32).collect();
            order.sort_by(|a, b| logits[*b as usize].total_cmp(&(logits[*a as usize])));
            for step in row % 2..row % 2 + STEPS {
                let at = step * rows + row;
                let words = &scores[at * SCORE_WORDS..][..SCORE_WORDS];
                let mut pairs = vec![(out[at], words[0])];
                for (n, pair) in words[1..].chunks(2).take(*scored as usize - 1).enumerate() {
                    if n >= *vocab {
                        if pair[0] != u32::MAX {
                            wrong.push(format!("row {row} has {pair:?} beyond the vocabulary"));
                        }
                        continue;
                    }
                    if logits[pair[0] as usize] != logits[order[n] as usize] {
                        wrong.push(format!(
                            "row {row}: place {n} is {pair:?}, not {}",
                            order[n]
                        ));
                    }
                    pairs.push((pair[0], pair[1]));
                }
                for (token, score) in pairs {
                    let (got, expected) = (f64::from(f32::from_bits(score)), expected(token));
                    if (got - expected).abs() > 1e-4 || !got.is_finite() {
                        wrong.push(format!("row {row}, token {token}: {got}, not {expected}"));
                    }
                }
            }
        }
        wrong
    });
}
