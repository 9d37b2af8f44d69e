//! Turns tokens back into text as they come.

use super::Tokenizer;

/// An incremental detokeniser: what it gives out, piece by piece, is what [`Tokenizer::decode`]
/// makes of all tokens together.
///
/// A character whose bytes are spread over several tokens comes out with the last of them; bytes
/// that are no UTF-8 come out as U+FFFD, never as broken text.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    skip_special: bool,
    /// Whether the first character is still to come.
    at_start: bool,
    /// Up to three bytes of a character that is not complete.
    pending: Vec<u8>,
}

impl Detokenizer {
    /// Starts at the beginning of a text, where SentencePiece's leading space is dropped.
    pub fn new(tokenizer: Tokenizer, skip_special: bool) -> Self {
        Self {
            tokenizer,
            skip_special,
            at_start: true,
            pending: Vec::new(),
        }
    }

    /// Takes tokens as read without giving out their text: the prompt that a generation goes on
    /// from. Its last character may be incomplete; the tokens to come then complete it.
    pub fn skip(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.push(token);
        }
    }

    /// Takes a token and gives the text that is complete with it, if any. An id that the vocabulary
    /// does not have is no text.
    pub fn push(&mut self, id: u32) -> Option<String> {
        let backend = self.tokenizer.backend();
        if self.skip_special && backend.is_special(id) {
            return None;
        }
        let start = self.pending.len();
        backend.piece(id, &mut self.pending);
        if self.at_start && self.pending.len() > start {
            self.at_start = false;
            if backend.strips_first_space() && self.pending.first() == Some(&b' ') {
                self.pending.remove(0);
            }
        }
        let text = self.take_complete();
        (!text.is_empty()).then_some(text)
    }

    /// Ends the text: what was incomplete comes out as U+FFFD. The next token starts a new text.
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

/// Whether bytes that are not UTF-8 could become a character with more bytes.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
