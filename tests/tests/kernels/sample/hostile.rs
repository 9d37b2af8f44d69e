//! Settings and biases that select memory outside of the bindings.

use wisp_shaders::params::{LogitBias, SampleSettings};
use wisp_tests::guarded::{Hostile, check_hostile, invalid_indices};
use wisp_tests::kernels::exact;

use super::cases::{
    LOGPROB_WORDS, MAX_BIASES, STEPS, logits, sample_with_logprobs, scan, settings,
};

/// Tokens in the vocabulary of the hostile cases.
const VOCAB: usize = 60;

/// A case of `sample_scan` whose settings `change` makes invalid where the number of the row is odd, and a
/// reference in which `fix` replaces that.
fn hostile_scan(
    change: impl Fn(usize, &mut SampleSettings),
    fix: impl Fn(usize, &mut SampleSettings),
) -> Hostile {
    let rows = 2 * invalid_indices(1).len();
    let with = |change: &dyn Fn(usize, &mut SampleSettings)| {
        let mut settings = settings(rows, VOCAB, 3);
        for row in (1..rows).step_by(2) {
            change(row, &mut settings[row]);
        }
        scan(VOCAB, &logits(rows, VOCAB), &settings)
    };
    Hostile::refused(with(&change), with(&fix))
}

/// A case of `sample`: rows of one step whose settings `change` makes invalid where their number is odd, and a reference in
/// which `fix` replaces that. The settings that the kernels must write are those of the hostile case.
fn hostile(
    change: impl Fn(usize, &mut SampleSettings),
    fix: impl Fn(usize, &mut SampleSettings),
) -> Hostile {
    let rows = 2 * invalid_indices(1).len();
    let mut case = sample_with_logprobs(VOCAB, &logits(rows, VOCAB), 3);
    case.dispatches = 1;
    let valid: Vec<SampleSettings> = bytemuck::pod_collect_to_vec(case.memory[2].bytes());
    let with = |change: &dyn Fn(usize, &mut SampleSettings)| {
        let mut settings = valid.clone();
        for row in (1..rows).step_by(2) {
            change(row, &mut settings[row]);
        }
        let mut case = case.clone();
        case.memory[2] = exact(&settings);
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
    hostile.overrides.push((3, 0, bytes));
    let bytes = bytemuck::cast_slice(&index).to_vec();
    hostile.overrides.push((6, 0, bytes));
    hostile
}

fn invalid(row: usize) -> u32 {
    // No sequence, step or bias has a number from 60 on.
    let all = invalid_indices(60);
    all[row / 2 % all.len()]
}

#[test]
fn settings_of_an_invalid_sequence_apply_no_penalties_biases_and_masks() {
    let without = |_: usize, s: &mut SampleSettings| {
        (
            s.repetition_penalty,
            s.presence_penalty,
            s.frequency_penalty,
        ) = (1.0, 0.0, 0.0);
        (s.biases, s.masked) = (0, 0);
    };
    let sequence = |row: usize, s: &mut SampleSettings| s.sequence = invalid(row);
    check_hostile("sample_scan", &[hostile_scan(sequence, without)]);
    check_hostile("sample", &[hostile(sequence, without)]);
}

#[test]
fn settings_of_an_invalid_step_write_no_output() {
    let rows = 2 * invalid_indices(1).len();
    // The reference writes to a step that no valid row uses.
    let mut hostile = hostile(|row, s| s.step = invalid(row), |_, s| s.step = STEPS as u32);
    for row in (1..rows).step_by(2) {
        let at = STEPS * rows + row;
        hostile = hostile.unwritten(7, 4 * at..4 * at + 4);
        let words = at * LOGPROB_WORDS..(at + 1) * LOGPROB_WORDS;
        hostile = hostile.unwritten(8, 4 * words.start..4 * words.end);
    }
    check_hostile("sample", &[hostile]);
}

#[test]
fn biases_beyond_the_buffer_are_ignored() {
    let hostile = hostile_scan(
        |row, s| s.biases = invalid(row),
        |_, s| s.biases = MAX_BIASES,
    );
    check_hostile("sample_scan", &[hostile]);
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
        let mut hostile = hostile_scan(|_, s| s.biases = 1, |_, s| s.biases = 1);
        let batch = hostile.case.memory[3].bytes().len() / size_of::<LogitBias>();
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
        hostile.case.memory[3] = exact(&biases);
        hostile
    };
    let (mut hostile, reference) = (biased(&invalid), biased(&|_| 59));
    hostile.reference = reference.case;
    hostile.refused = false;
    check_hostile("sample_scan", &[hostile]);
}
