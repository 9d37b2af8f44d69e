//! Grammars, and the state of a text that follows one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::Matcher;
use llguidance::api::StopReason;

use super::error::GrammarError;
use super::thoughts::{ThoughtCounter, TokenLimit};

/// A constraint compiled for a tokenizer. Clones are cheap, and one grammar serves any number of texts.
#[derive(Clone)]
pub struct Grammar {
    start: Arc<Mutex<Matcher>>,
    stop_tokens: Arc<[u32]>,
    thought_limit: Option<Arc<TokenLimit>>,
}

impl Grammar {
    /// Takes a matcher that has read nothing yet.
    pub(super) fn new(start: Matcher, stop_tokens: Vec<u32>) -> Grammar {
        Grammar {
            start: Arc::new(Mutex::new(start)),
            stop_tokens: stop_tokens.into(),
            thought_limit: None,
        }
    }

    /// Limits the thought at the beginning of texts.
    pub(super) fn with_thought_limit(self, limit: TokenLimit) -> Grammar {
        Grammar {
            thought_limit: Some(Arc::new(limit)),
            ..self
        }
    }

    /// Returns a matcher at the beginning of a text.
    pub fn matcher(&self) -> GrammarMatcher {
        // Poisoning is harmless: the matcher is only cloned.
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        GrammarMatcher {
            inner: start.deep_clone(),
            stop_tokens: self.stop_tokens.clone(),
            thought: self.thought_limit.clone().map(ThoughtCounter::new),
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
    /// Counts the tokens of the thought, if they are limited.
    thought: Option<ThoughtCounter>,
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
        if let Some(token) = self.closing_tokens().first() {
            if let Some(word) = words.get_mut(*token as usize / 32) {
                *word |= 1 << (token % 32);
            }
            return Ok(());
        }
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
        if let Some(thought) = &mut self.thought {
            thought.consume(token);
        }
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
        if self.is_complete {
            return Vec::new();
        }
        match self.closing_tokens() {
            closing if closing.is_empty() => self.inner.compute_ff_tokens(),
            closing => closing,
        }
    }

    /// Returns the tokens that end a thought which is as long as it may be; empty elsewhere, and as long as the thought
    /// ends within a character.
    fn closing_tokens(&mut self) -> Vec<u32> {
        let due = self.thought.as_ref().map(ThoughtCounter::due);
        let due = due.unwrap_or_default();
        match due.is_empty() || self.inner.validate_tokens(&due).ok() == Some(due.len()) {
            true => due,
            false => Vec::new(),
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
