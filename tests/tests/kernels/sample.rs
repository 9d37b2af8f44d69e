//! `sample`: what it draws is an integer, and compared as such.

use wisp_shaders::params::{SampleParams, SampleSettings};
use wisp_tests::kernels::{Case, case, check, check_outputs, exact, noise};

const STEPS: usize = 2;

const GREEDY: SampleSettings = SampleSettings {
    temperature: 0.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repetition_penalty: 1.0,
    seed: 0,
    step: 0,
    sequence: 0,
    position: 0,
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
];

/// Rows of logits with every setting, each a sequence of its own, in another order.
fn sample(vocab: usize, logits: &[f32]) -> Case {
    let rows = logits.len() / vocab;
    let batch = rows + 1;
    let settings: Vec<_> = (0..rows as u32)
        .map(|row| SampleSettings {
            seed: row / 5,
            step: row % 2,
            sequence: rows as u32 - row,
            position: 10 + row * 3,
            ..SETTINGS[row as usize % SETTINGS.len()]
        })
        .collect();
    let params = SampleParams {
        rows: rows as u32,
        vocab: vocab as u32,
        batch: batch as u32,
    };
    let seen: Vec<u32> = noise(3, batch * vocab.div_ceil(32))
        .iter()
        .map(|x| x.to_bits().wrapping_mul(2_654_435_761))
        .collect();
    let memory = vec![
        exact(logits),
        exact(&settings),
        exact(&seen),
        exact(&vec![7u32; rows]),
        exact(&vec![7u32; 2 * rows]),
        exact(&vec![7u32; (STEPS + 1) * batch]),
    ];
    Case {
        dispatches: STEPS,
        ..case(params, memory, &[rows], vocab)
    }
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
                let drawn = out[(row % 2 + step) * (rows + 1) + rows - row];
                if (drawn == u32::MAX) != bad(row).is_some() {
                    wrong.push(format!("row {row} draws {drawn} at step {step}"));
                }
            }
        }
        wrong
    });
}
