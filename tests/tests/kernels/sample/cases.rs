//! Cases of the calls that sample.

use wisp_shaders::params::{
    IN_PROMPT, LogitBias, NOT_FORCED, SAMPLE_CHUNK, SAMPLE_CHUNK_WORDS, SampleParams,
    SampleSettings,
};
use wisp_tests::kernels::{Case, Memory, any, case, exact, noise, twin_outputs, zeros};

/// Steps that each case runs.
pub(super) const STEPS: usize = 2;

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
    masked: 0,
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

pub(super) const SETTINGS: &[SampleSettings] = &[
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
    SampleSettings {
        masked: 1,
        ..GREEDY
    },
    SampleSettings {
        masked: 1,
        ..random(1.0, 0, 1.0, 0.0, 1.2)
    },
    SampleSettings {
        masked: 1,
        biases: 1,
        ..random(0.7, 4, 0.9, 0.0, 1.0)
    },
    SampleSettings {
        masked: 1,
        ..random(1.5, 0, 1.0, 0.05, 1.0)
    },
];

/// Biases that the buffer has room for in each sequence.
pub(super) const MAX_BIASES: u32 = 3;

/// Words of a row of log-probabilities.
pub(super) const LOGPROB_WORDS: usize = 7;

/// The settings of `rows` rows, which take [`SETTINGS`] in turn. Each row is a separate sequence, in reverse
/// order.
pub(super) fn settings(rows: usize, vocab: usize, top: u32) -> Vec<SampleSettings> {
    let setting = |row: u32| SETTINGS[row as usize % SETTINGS.len()];
    let settings = (0..rows as u32).map(|row| SampleSettings {
        seed: row / 5,
        step: row % 2,
        sequence: rows as u32 - row,
        position: 10 + row * 3,
        logprobs: top,
        biases: setting(row).biases.min(vocab as u32),
        ..setting(row)
    });
    settings.collect()
}

pub(super) fn params(rows: usize, vocab: usize) -> SampleParams {
    SampleParams {
        rows: rows as u32,
        vocab: vocab as u32,
        max_biases: MAX_BIASES,
        logprob_words: LOGPROB_WORDS as u32,
    }
}

pub(super) fn counts(rows: usize, vocab: usize) -> Vec<u32> {
    let noise = noise(3, (rows + 1) * vocab);
    let count = |x: &f32| match x.to_bits() % 5 {
        0 => IN_PROMPT,
        1 => IN_PROMPT | 2,
        2 => 1 + x.to_bits() % 4,
        _ => 0,
    };
    noise.iter().map(count).collect()
}

/// Words of a row of the memory that the calls pass on.
pub(super) fn row_words(vocab: usize) -> usize {
    vocab.div_ceil(SAMPLE_CHUNK as usize) * SAMPLE_CHUNK_WORDS as usize + 2 * vocab
}

/// A case of `sample_scan`.
pub(super) fn scan(vocab: usize, logits: &[f32], settings: &[SampleSettings]) -> Case {
    scan_masked(vocab, logits, settings, &masks(settings.len() + 1, vocab))
}

fn scan_masked(vocab: usize, logits: &[f32], settings: &[SampleSettings], masks: &[u32]) -> Case {
    let rows = settings.len();
    let memory = vec![
        exact(logits),
        exact(settings),
        exact(&counts(rows, vocab)),
        biases(rows + 1, vocab),
        exact(masks),
        // Ids are far smaller than every value if they are read as floats.
        zeros(rows * row_words(vocab), 1e-5),
    ];
    case(params(rows, vocab), memory, &[vocab, rows], vocab)
}

/// A case of `sample_compact`, on what the twin of `sample_scan` writes.
pub(super) fn compact(vocab: usize, logits: &[f32], settings: &[SampleSettings]) -> Case {
    compact_scanned(vocab, settings, &scan(vocab, logits, settings))
}

fn compact_scanned(vocab: usize, settings: &[SampleSettings], scan: &Case) -> Case {
    let mut outputs = twin_outputs("sample_scan", scan);
    let scratch: Vec<u32> = bytemuck::pod_collect_to_vec(&outputs.swap_remove(5));
    let rows = settings.len();
    let memory = vec![exact(settings), any(&scratch)];
    case(params(rows, vocab), memory, &[vocab, rows], vocab)
}

/// A case of `sample`, on what the twins of the other calls write.
pub(super) fn sample(vocab: usize, logits: &[f32]) -> Case {
    let settings = settings(logits.len() / vocab, vocab, 0);
    sample_with(vocab, logits, &settings)
}

pub(super) fn sample_with_logprobs(vocab: usize, logits: &[f32], top: u32) -> Case {
    let settings = settings(logits.len() / vocab, vocab, top);
    sample_with(vocab, logits, &settings)
}

pub(super) fn sample_with(vocab: usize, logits: &[f32], settings: &[SampleSettings]) -> Case {
    sample_masked(vocab, logits, settings, &masks(settings.len() + 1, vocab))
}

/// A case of `sample` with masks `[rows + 1, words]`.
pub(super) fn sample_masked(
    vocab: usize,
    logits: &[f32],
    settings: &[SampleSettings],
    masks: &[u32],
) -> Case {
    let scan = scan_masked(vocab, logits, settings, masks);
    let mut outputs = twin_outputs("sample_compact", &compact_scanned(vocab, settings, &scan));
    let scratch: Vec<u32> = bytemuck::pod_collect_to_vec(&outputs.swap_remove(1));
    let rows = settings.len();
    let logprobs = vec![7u32; (STEPS + 1) * rows * LOGPROB_WORDS];
    let memory = vec![
        exact(logits),
        exact(&scratch),
        exact(settings),
        exact(&counts(rows, vocab)),
        exact(&vec![7u32; rows]),
        exact(&vec![7u32; 2 * rows]),
        exact(&vec![7u32; (STEPS + 1) * rows]),
        match settings.iter().all(|s| s.logprobs == 0) {
            true => exact(&logprobs),
            false => any(&logprobs),
        },
    ];
    Case {
        dispatches: STEPS,
        ..case(params(rows, vocab), memory, &[rows], vocab)
    }
}

/// Masks that allow about half of the tokens, in every third sequence only one.
pub(super) fn masks(batch: usize, vocab: usize) -> Vec<u32> {
    let words = vocab.div_ceil(32);
    let noise = noise(5, batch * words);
    let mut masks: Vec<u32> = noise.iter().map(|x| x.to_bits() << 9).collect();
    for (sequence, mask) in masks.chunks_mut(words).enumerate() {
        if sequence % 3 == 0 {
            mask.fill(0);
        }
        let token = sequence * 7 % vocab;
        mask[token / 32] |= 1 << (token % 32);
    }
    masks
}

/// Biases of distinct tokens, large enough to matter.
pub(super) fn biases(batch: usize, vocab: usize) -> Memory {
    let list = (0..batch).flat_map(|sequence| {
        (0..MAX_BIASES as usize).map(move |i| LogitBias {
            token: ((sequence + i) % vocab) as u32,
            value: [30.0, -30.0, 4.5][i],
            ..LogitBias::default()
        })
    });
    exact(&list.collect::<Vec<LogitBias>>())
}

/// Logits of which a few in each row are much likelier than the rest.
pub(super) fn logits(rows: usize, vocab: usize) -> Vec<f32> {
    let cubed = noise(1, rows * vocab).into_iter().map(|x| x * x * x * 9.0);
    cubed.collect()
}

/// Logits of every kind: likely tokens among unlikely ones, many that are equal, and some that are not finite.
pub(super) fn logits_of_every_kind(rows: usize, vocab: usize) -> [Vec<f32>; 3] {
    let logits = logits(rows, vocab);
    // Many are equal, also at the thresholds.
    let rounded: Vec<f32> = logits.iter().map(|x| x.round()).collect();
    // NaN and minus infinity are never sampled while there is a finite logit.
    let holes = logits.iter().enumerate().map(|(i, x)| match i % 7 {
        1 => f32::NAN,
        3 | 4 => f32::NEG_INFINITY,
        _ => *x,
    });
    let holes = holes.collect();
    [logits, rounded, holes]
}

/// Vocabularies and rows.
pub(super) const SIZES: &[[usize; 2]] = &[
    [1, 1],
    [1, 45],
    [5, 45],
    [515, 1],
    [515, 45],
    [1024, 3],
    [1024, 45],
    // More chunks than the smallest workgroup has invocations, with a k below and above their number.
    [40_003, 13],
];

/// The sizes with logits and settings; `top` are the log-probabilities asked for.
pub(super) fn inputs(top: u32) -> Vec<(usize, Vec<f32>, Vec<SampleSettings>)> {
    let mut inputs = Vec::new();
    for &[vocab, rows] in SIZES {
        for logits in logits_of_every_kind(rows, vocab) {
            inputs.push((vocab, logits, settings(rows, vocab, top)));
        }
    }
    inputs
}
