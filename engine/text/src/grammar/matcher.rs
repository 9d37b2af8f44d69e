//! Grammars, and the state of a text that follows one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::Matcher;
use llguidance::api::StopReason;

use super::error::GrammarError;

/// A constraint compiled for a tokenizer. Clones are cheap, and one grammar serves any number of texts.
#[derive(Clone)]
pub struct Grammar {
    start: Arc<Mutex<Matcher>>,
    stop_tokens: Arc<[u32]>,
}

impl Grammar {
    /// Takes a matcher that has read nothing yet.
    pub(super) fn new(start: Matcher, stop_tokens: Vec<u32>) -> Grammar {
        Grammar {
            start: Arc::new(Mutex::new(start)),
            stop_tokens: stop_tokens.into(),
        }
    }

    /// Returns a matcher at the beginning of a text.
    pub fn matcher(&self) -> GrammarMatcher {
        // Poisoning is harmless: the matcher is only cloned.
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        GrammarMatcher {
            inner: start.deep_clone(),
            stop_tokens: self.stop_tokens.clone(),
            is_complete: false,
        }
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Grammar").finish_non_exhaustive()
    }
}

/// The state of one text that follows a [`Grammar`].
#[derive(Clone)]
pub struct GrammarMatcher {
    inner: Matcher,
    stop_tokens: Arc<[u32]>,
    is_complete: bool,
}

impl GrammarMatcher {
    /// Computes which tokens may follow: bit `token % 32` of `words[token / 32]` is set if the token may. Bits
    /// beyond the tokenizer's vocabulary are 0. Tokens that end a text may follow where the text may end.
    ///
    /// # Errors
    ///
    /// If no token may follow, or the computation exceeds the parser's limits. The text cannot be continued then.
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), GrammarError> {
        words.fill(0);
        let mask = self.inner.compute_mask().map_err(failed)?;
        for (word, bits) in words.iter_mut().zip(mask.as_slice()) {
            *word = *bits;
        }
        Ok(())
    }

    /// Appends a token to the text.
    ///
    /// # Errors
    ///
    /// If the token may not follow.
    pub fn consume(&mut self, token: u32) -> Result<(), GrammarError> {
        self.inner.consume_token(token).map_err(failed)?;
        self.is_complete = self.stop_tokens.contains(&token)
            || (self.inner.is_stopped() && self.inner.stop_reason().is_ok());
        Ok(())
    }

    /// Returns whether the text has ended: by a token that ends texts, or because nothing else can follow.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns whether the text may end here.
    pub fn is_accepting(&mut self) -> bool {
        self.is_complete
            || (self.inner.stop_reason() == StopReason::NotStopped
                && self.inner.is_accepting().unwrap_or(false))
    }

    /// Returns the tokens that must follow, as the tokenizer encodes the text that must follow; empty if there is a
    /// choice. They are not appended.
    pub fn forced_tokens(&mut self) -> Vec<u32> {
        match self.is_complete {
            true => Vec::new(),
            false => self.inner.compute_ff_tokens(),
        }
    }

    /// Returns whether a token ends texts.
    pub fn is_stop_token(&self, token: u32) -> bool {
        self.stop_tokens.contains(&token)
    }
}

impl fmt::Debug for GrammarMatcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GrammarMatcher")
            .field("is_complete", &self.is_complete)
            .finish_non_exhaustive()
    }
}

/// Makes the error of a text that cannot be continued.
fn failed(error: impl fmt::Display) -> GrammarError {
    let problem = error.to_string();
    let problem = problem.lines().next().unwrap_or_default();
    let problem = match problem {
        "NoExtensionBias" | "\"NoExtensionBias\"" => "no token of the vocabulary can follow",
        problem => problem,
    };
    GrammarError::Failed {
        problem: problem.into(),
    }
}
