//! The spans of a ragged batch, for ops with a recurrent state.

use wisp_shaders::params::NO_STATE;

use super::args::Args;
use super::error::HostError;

/// The tokens of one sequence in a batch, and the rows of its state.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// The index of the first token in the batch.
    pub(super) first: usize,
    /// The number of tokens, at least 1.
    pub(super) len: usize,
    /// The row of the state that the sequence continues; `None` if it begins.
    pub(super) read: Option<usize>,
    /// The row that the new state is written to.
    pub(super) written: usize,
}

/// Reads the spans of `batch` sequences, `[batch]` of (first token, tokens, row read, row written); `None` for a
/// sequence without tokens. Checks that they lie within a batch of `tokens` tokens and a state of `rows`
/// rows, that no two have tokens or a written row in common, and that none reads a row that another one writes.
pub(super) fn spans(
    args: &Args,
    binding: usize,
    batch: u32,
    tokens: usize,
    rows: usize,
) -> Result<Vec<Option<Span>>, HostError> {
    let words: &[[u32; 4]] = args.read(binding, batch as usize)?;
    let (mut taken, mut written) = (vec![false; tokens], vec![false; rows]);
    let mut spans = Vec::with_capacity(words.len());
    for &[first, len, read, row] in words {
        if len == 0 {
            spans.push(None);
            continue;
        }
        let span = Span {
            first: first as usize,
            len: len as usize,
            read: (read != NO_STATE).then_some(read as usize),
            written: row as usize,
        };
        let end = span.first.saturating_add(span.len);
        match taken.get_mut(span.first..end) {
            Some(own) if own.iter().all(|taken| !taken) => own.fill(true),
            _ => {
                let expected = format!("within {tokens} tokens, each of one sequence");
                return Err(args.value("a span's end", expected, end as u64));
            }
        }
        if let Some(read) = span.read.filter(|row| *row >= rows) {
            return Err(args.value("a row read", format!("less than {rows}"), read as u64));
        }
        match written.get_mut(span.written) {
            Some(own) if !*own => *own = true,
            _ => {
                let expected = format!("less than {rows}, each of one sequence");
                return Err(args.value("a row written", expected, row));
            }
        }
        spans.push(Some(span));
    }
    // A device runs the sequences at the same time.
    for span in spans.iter().flatten() {
        if let Some(read) = span
            .read
            .filter(|row| *row != span.written && written[*row])
        {
            let expected = "a row that no other sequence writes";
            return Err(args.value("a row read", expected, read as u64));
        }
    }
    Ok(spans)
}
