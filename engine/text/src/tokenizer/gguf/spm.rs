//! SentencePiece's byte-pair merges as in llama.cpp: of all neighbouring pieces whose concatenation
//! is a token, the pair with the best score merges first, the leftmost on a tie.
//!
//! The `tokenizers` crate cannot replace this module, because its BPE ranks *pairs*. Ranks rebuilt
//! from scores order pieces of equal score differently, as well as several pairs that make the same
//! piece, and the rebuilding takes a second for a large vocabulary.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::vocabulary::{SPACE, Vocabulary};
use crate::tokenizer::error::TokenizerError;

/// An SPM model.
#[derive(Debug)]
pub struct Spm {
    /// One score per token.
    scores: Vec<f32>,
    /// The token of text that has neither tokens nor byte tokens.
    unknown: Option<u32>,
}

/// A piece of the text in a linked list. A piece that was merged into its left neighbour is empty.
struct Symbol {
    start: usize,
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// Two neighbouring symbols whose concatenation is a token.
struct Bigram {
    score: f32,
    left: usize,
    right: usize,
    length: usize,
}

impl Ord for Bigram {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Bigram {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bigram {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bigram {}

impl Spm {
    /// Builds a model; `scores` has one entry per token.
    pub fn new(scores: Vec<f32>, unknown: Option<u32>) -> Self {
        // `total_cmp` would order -0.0 below +0.0 and NaN above all numbers.
        let clean = |score: f32| {
            if score.is_nan() {
                f32::NEG_INFINITY
            } else {
                score + 0.0
            }
        };
        Self {
            scores: scores.into_iter().map(clean).collect(),
            unknown,
        }
    }

    /// Appends the tokens of `text` to `out`; `prefix` puts a space before it.
    pub fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        prefix: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut escaped = String::with_capacity(text.len() + 3);
        if prefix {
            escaped.push(SPACE);
        }
        escaped.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        for symbol in self.merge(vocabulary, &escaped) {
            self.push(vocabulary, &escaped[symbol.start..symbol.end], out)?;
        }
        Ok(())
    }

    /// Merges until no pair is a token, and returns the symbols that are not empty.
    fn merge(&self, vocabulary: &Vocabulary, text: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(index, (start, character))| Symbol {
                start,
                end: start + character.len_utf8(),
                previous: index.checked_sub(1),
                next: Some(index + 1),
            })
            .collect();
        if let Some(last) = symbols.last_mut() {
            last.next = None;
        }
        let mut queue = BinaryHeap::new();
        for left in 0..symbols.len() {
            queue.extend(self.bigram(vocabulary, text, &symbols, Some(left), symbols[left].next));
        }
        // All indices in `symbols` and `queue` are below `symbols.len()`, which does not change here.
        while let Some(Bigram {
            left,
            right,
            length,
            ..
        }) = queue.pop()
        {
            let (from, to) = (symbols[left].start, symbols[right].end);
            let is_outdated = is_empty(&symbols[left]) || is_empty(&symbols[right]);
            if is_outdated || to - from != length {
                continue;
            }
            let next = symbols[right].next;
            symbols[right].start = to;
            symbols[left].end = to;
            symbols[left].next = next;
            if let Some(next) = next {
                symbols[next].previous = Some(left);
            }
            let previous = symbols[left].previous;
            queue.extend(self.bigram(vocabulary, text, &symbols, previous, Some(left)));
            queue.extend(self.bigram(vocabulary, text, &symbols, Some(left), next));
        }
        symbols.retain(|symbol| !is_empty(symbol));
        symbols
    }

    /// Returns the pair of two symbols, if both exist and their concatenation is a token.
    fn bigram(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        symbols: &[Symbol],
        left: Option<usize>,
        right: Option<usize>,
    ) -> Option<Bigram> {
        let (left, right) = (left?, right?);
        let merged = &text[symbols[left].start..symbols[right].end];
        if merged.len() > vocabulary.longest() {
            return None;
        }
        let id = vocabulary.id(merged)?;
        Some(Bigram {
            score: *self.scores.get(usize::try_from(id).ok()?)?,
            left,
            right,
            length: merged.len(),
        })
    }

    /// Appends the token of a piece, else the tokens of its bytes, else the unknown token.
    fn push(
        &self,
        vocabulary: &Vocabulary,
        piece: &str,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        if let Some(id) = vocabulary.id(piece) {
            out.push(id);
            return Ok(());
        }
        let bytes: Option<Vec<u32>> = piece.bytes().map(|byte| vocabulary.byte(byte)).collect();
        match (bytes, self.unknown) {
            (Some(bytes), _) => out.extend(bytes),
            (None, Some(unknown)) => out.push(unknown),
            (None, None) => {
                return Err(TokenizerError::NoTokenFor {
                    text: piece.to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn is_empty(symbol: &Symbol) -> bool {
    symbol.start == symbol.end
}
