//! The constraint of one sequence.

use wisp_text::grammar::{Grammar, GrammarMatcher};

/// The state of a sequence's constraint, which knows all tokens of its answer.
#[derive(Clone, Debug)]
pub(crate) struct Constrained {
    matcher: GrammarMatcher,
    /// Whether forced tokens are appended without being sampled.
    jumps: bool,
    has_failed: bool,
}

impl Constrained {
    /// Begins an answer. With `jumps`, tokens that are forced need not be sampled.
    pub fn new(grammar: &Grammar, jumps: bool) -> Constrained {
        Constrained {
            matcher: grammar.matcher(),
            jumps,
            has_failed: false,
        }
    }

    /// Returns whether the constraint cannot be followed any further.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns whether nothing else can follow.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_complete()
    }

    /// Returns whether a token ends texts of the constraint.
    pub fn ends_with(&self, token: u32) -> bool {
        self.matcher.is_stop_token(token)
    }

    /// Takes notice of a sampled token. Returns false if it may not follow.
    pub fn consume(&mut self, token: u32) -> bool {
        self.has_failed |= self.matcher.consume(token).is_err();
        !self.has_failed
    }

    /// Computes which tokens may follow; none if that fails. Tokens that end the sequence for another reason may follow
    /// only where the text may end.
    pub fn mask(&mut self, words: &mut [u32], stop_tokens: &[u32]) {
        // Before the mask: where no token may follow, the matcher cannot be used any longer.
        let may_end = self.matcher.is_accepting();
        if self.matcher.mask(words).is_err() {
            self.has_failed = true;
            words.fill(0);
            return;
        }
        for token in stop_tokens {
            let word = words.get_mut(*token as usize / 32);
            if let Some(word) = word.filter(|_| !may_end) {
                *word &= !(1 << (token % 32));
            }
        }
    }

    /// Returns up to `most` tokens that must follow, and takes notice of them.
    pub fn take_forced(&mut self, most: usize) -> Vec<u32> {
        let forced = match self.jumps && most > 0 && !self.has_failed {
            true => self.matcher.forced_tokens(),
            false => Vec::new(),
        };
        self.take(forced, most)
    }

    /// Returns up to `most` tokens with which the text must begin, and takes notice of them. At least one token is
    /// left to be sampled.
    pub fn take_first_forced(&mut self, most: usize) -> Vec<u32> {
        let mut forced = match self.jumps {
            true => self.matcher.forced_tokens(),
            false => Vec::new(),
        };
        forced.pop();
        self.take(forced, most)
    }

    fn take(&mut self, mut forced: Vec<u32>, most: usize) -> Vec<u32> {
        forced.truncate(most);
        // A token that ends texts is not forced, but sampled: it is no part of the text.
        if let Some(end) = forced.iter().position(|token| self.ends_with(*token)) {
            forced.truncate(end);
        }
        for (at, token) in forced.iter().enumerate() {
            if !self.consume(*token) || self.is_complete() {
                forced.truncate(at + 1);
                break;
            }
        }
        forced
    }
}
