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
    /// only where the text may end; if only such tokens may follow elsewhere, the constraint fails.
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
        self.has_failed |= words.iter().all(|word| *word == 0);
    }

    /// Returns up to `most` tokens that must follow, and takes notice of them. Tokens that end the sequence for another
    /// reason are left to be sampled.
    pub fn take_forced(&mut self, most: usize, stop_tokens: &[u32]) -> Vec<u32> {
        let forced = match self.jumps && most > 0 && !self.has_failed {
            true => self.matcher.forced_tokens(),
            false => Vec::new(),
        };
        self.take(forced, most, stop_tokens)
    }

    /// Returns up to `most` tokens with which the text must begin as [`Self::take_forced`] does. At least one token is
    /// left to be sampled.
    pub fn take_first_forced(&mut self, most: usize, stop_tokens: &[u32]) -> Vec<u32> {
        let mut forced = match self.jumps {
            true => self.matcher.forced_tokens(),
            false => Vec::new(),
        };
        forced.pop();
        self.take(forced, most, stop_tokens)
    }

    fn take(&mut self, mut forced: Vec<u32>, most: usize, stop_tokens: &[u32]) -> Vec<u32> {
        forced.truncate(most);
        // A token that ends texts is not forced, but sampled: it is no part of the text.
        let ends = |token: &u32| self.ends_with(*token) || stop_tokens.contains(token);
        if let Some(end) = forced.iter().position(ends) {
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

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;
    use wisp_text::{
        grammar::{Constraint, GrammarCompiler},
        tokenizer::{HuggingFaceFiles, Tokenizer},
    };

    use super::*;

    /// Returns a tokenizer of the letters a, b and c, which are the tokens 0, 1 and 2. Token 3 ends texts.
    pub(crate) fn letters() -> Tokenizer {
        let control = json!({"id": 3, "content": "<|end|>", "special": true, "normalized": false,
                             "single_word": false, "lstrip": false, "rstrip": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let file = json!({
            "added_tokens": [control], "pre_tokenizer": bytes, "decoder": bytes,
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}
        });
        let tokenizer = Tokenizer::from_files(&HuggingFaceFiles {
            tokenizer: file.to_string().as_bytes(),
            ..HuggingFaceFiles::default()
        });
        tokenizer.unwrap()
    }

    /// Begins an answer in letters.
    fn constrained(regex: &str, jumps: bool) -> Constrained {
        let compiler = GrammarCompiler::new(&letters(), &[3]).unwrap();
        let grammar = compiler.compile(&Constraint::Regex(regex.into()));
        Constrained::new(&grammar.unwrap(), jumps)
    }

    #[test]
    fn tokens_that_end_the_text_are_not_forced() {
        for (stop_tokens, expected) in [(&[][..], &[0, 1][..]), (&[1], &[0]), (&[0], &[])] {
            assert_eq!(
                constrained("abc", true).take_first_forced(8, stop_tokens),
                expected
            );
        }
    }

    #[test]
    fn constraint_fails_where_only_a_token_that_ends_the_text_too_early_may_follow() {
        for (regex, stop_tokens, expected, has_failed) in [
            ("ab", &[][..], 0b0001, false),
            ("ab", &[0], 0, true),
            ("(a|b)c", &[0], 0b0010, false),
            ("(ab)?", &[0], 0b1001, false),
        ] {
            let mut constrained = constrained(regex, false);
            let mut words = [0];
            constrained.mask(&mut words, stop_tokens);
            assert_eq!(words, [expected], "{regex}");
            assert_eq!(constrained.has_failed(), has_failed, "{regex}");
        }
    }
}
