//! Turns tokens back into text while they arrive.

use std::{collections::BTreeSet, sync::Arc};

use super::backend::LoadedTokenizer;

/// Bytes of the longest character in UTF-8.
const MAX_CHARACTER_BYTES: usize = 4;

/// An incremental detokenizer: the pieces that it returns make up the text that
/// [`Tokenizer::decode`](super::Tokenizer::decode) returns for all tokens together.
///
/// A character whose bytes are spread over several tokens is returned with the last of them. Bytes
/// that are not UTF-8 become U+FFFD.
#[derive(Clone)]
pub struct Detokenizer {
    tokenizer: Arc<LoadedTokenizer>,
    skip_special: bool,
    /// Special tokens that have text although others are skipped.
    visible: BTreeSet<u32>,
    /// Whether no character was decoded yet.
    at_start: bool,
    /// Up to three bytes of an incomplete character.
    pending: Vec<u8>,
}

impl Detokenizer {
    /// Starts at the beginning of a text, where SentencePiece's leading space is dropped.
    pub(crate) fn new(tokenizer: Arc<LoadedTokenizer>, skip_special: bool) -> Self {
        Self {
            tokenizer,
            skip_special,
            visible: BTreeSet::new(),
            at_start: true,
            pending: Vec::new(),
        }
    }

    /// Gives special tokens text although others are skipped.
    #[must_use]
    pub fn with_visible(mut self, tokens: &BTreeSet<u32>) -> Self {
        self.visible.clone_from(tokens);
        self
    }

    /// Decodes tokens without returning their text, such as the prompt before a generation. If its
    /// last character is incomplete, later tokens complete it.
    pub fn skip(&mut self, tokens: &[u32]) {
        // An incomplete character is among the last bytes, so the tokens before them need no decoding: prompts are long.
        let mut bytes = Vec::new();
        let first = tokens.iter().rposition(|id| {
            if !self.is_hidden(*id) {
                self.tokenizer.backend.append_bytes(*id, &mut bytes);
            }
            bytes.len() >= MAX_CHARACTER_BYTES
        });
        for id in &tokens[first.unwrap_or(0)..] {
            self.push(*id);
        }
    }

    /// Returns whether a token has no text because it is special.
    fn is_hidden(&self, id: u32) -> bool {
        let is_special = self.skip_special && self.tokenizer.backend.is_special(id);
        is_special && !self.visible.contains(&id)
    }

    /// Drops the bytes of an incomplete character: what follows does not complete it.
    pub fn drop_incomplete(&mut self) {
        self.pending.clear();
    }

    /// Decodes a token and returns the text that is complete with it, if any. An id outside the
    /// vocabulary has no text.
    pub fn push(&mut self, id: u32) -> Option<String> {
        if self.is_hidden(id) {
            return None;
        }
        let backend = &self.tokenizer.backend;
        let start = self.pending.len();
        backend.append_bytes(id, &mut self.pending);
        if self.at_start && self.pending.len() > start {
            self.at_start = false;
            if backend.strips_first_space() && self.pending.first() == Some(&b' ') {
                self.pending.remove(0);
            }
        }
        let text = self.take_complete();
        (!text.is_empty()).then_some(text)
    }

    /// Ends the text and returns the rest: an incomplete character becomes U+FFFD. The next token
    /// starts a new text.
    pub fn finish(&mut self) -> Option<String> {
        self.at_start = true;
        let rest = std::mem::take(&mut self.pending);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }

    /// Takes the longest prefix of `pending` that later bytes cannot change.
    fn take_complete(&mut self) -> String {
        let mut text = String::new();
        let mut complete = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            complete += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = complete + invalid.len() == self.pending.len();
            if invalid.is_empty() || (at_end && is_incomplete(invalid)) {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            complete += invalid.len();
        }
        self.pending.drain(..complete);
        text
    }
}

impl std::fmt::Debug for Detokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Detokenizer")
            .field("skip_special", &self.skip_special)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

/// Returns whether bytes that are not UTF-8 could become a character with more bytes.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
