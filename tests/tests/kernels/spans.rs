//! Ragged batches over a recurrent state, which the tests of several ops share.

use wisp_shaders::params::NO_STATE;
use wisp_tests::guarded::invalid_indices;

/// Rows of the state in all cases.
pub(crate) const ROWS: usize = 5;

/// The tokens of each sequence that is in a batch, and the row of the state that it continues.
pub(crate) type Sequences = &'static [(usize, Option<u32>)];

/// Batches: a sequence begins or continues its own row or another one, with more or fewer tokens than a
/// state holds, and some take no part.
pub(crate) const BATCHES: &[Sequences] = &[
    &[(1, None)],
    &[(1, Some(0))],
    &[(2, Some(4)), (9, None), (0, None), (1, Some(3))],
    &[(0, None), (3, Some(1)), (70, Some(2))],
    &[(5, None), (1, Some(1)), (1, Some(2)), (1, None)],
];

/// A batch whose second of three sequences a hostile case spoils.
pub(crate) const HOSTILE: Sequences = &[(4, Some(3)), (3, Some(1)), (2, None)];

/// The index of a batch, `[tokens]` of (sequence, position), and the spans of its sequences.
pub(crate) type Spans = (Vec<[u32; 2]>, Vec<[u32; 4]>);

/// Returns the index, `[tokens]` of (sequence, position), and the spans. Sequence `i` writes row `i`. The
/// last sequence's tokens come first.
pub(crate) fn ragged(sequences: &[(usize, Option<u32>)]) -> Spans {
    let mut index = Vec::new();
    let mut spans = vec![[0; 4]; sequences.len()];
    for (sequence, (tokens, read)) in sequences.iter().enumerate().rev() {
        let read = read.unwrap_or(NO_STATE);
        spans[sequence] = [index.len() as u32, *tokens as u32, read, sequence as u32];
        index.extend((0..*tokens as u32).map(|position| [sequence as u32, position]));
    }
    (index, spans)
}

/// Returns the index and the spans of hostile cases, in which no token of the second sequence is valid.
pub(crate) fn hostile_spans() -> Vec<Spans> {
    let (index, spans) = ragged(HOSTILE);
    let [first, len, read, written] = spans[1];
    let mut wrong = vec![
        [index.len() as u32, len, read, written],
        [first, u32::MAX, read, written],
    ];
    let firsts = invalid_indices(index.len() as u32).into_iter();
    wrong.extend(firsts.map(|first| [first, len, read, written]));
    for row in invalid_indices(ROWS as u32) {
        wrong.push([first, len, read, row]);
        if row != NO_STATE {
            wrong.push([first, len, row, written]);
        }
    }
    let cases = wrong.into_iter().map(|span| {
        let mut spans = spans.clone();
        spans[1] = span;
        (index.clone(), spans)
    });
    let mut cases: Vec<_> = cases.collect();
    for sequence in invalid_indices(HOSTILE.len() as u32) {
        let mut index = index.clone();
        let own = index.iter_mut().filter(|token| token[0] == 1);
        own.for_each(|token| token[0] = sequence);
        cases.push((index, spans.clone()));
    }
    cases
}
