//! What is known of a request when its answer has ended: for the log, and for traces.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::error::ApiError;

/// The facts about a request, which the parts of its answer share.
#[derive(Clone, Debug, Default)]
pub struct RequestFacts(Arc<Mutex<Facts>>);

/// Facts about a request.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name under which the client asked for the model.
    pub model: Option<String>,
    /// Tokens of prompts, or of texts to embed.
    pub prompt_tokens: usize,
    /// Generated tokens.
    pub completion_tokens: usize,
    /// From the arrival of its first text at the model to the first step that computed something of it.
    pub queued: Option<Duration>,
    /// From the arrival of its first text at the model to the text's first token.
    pub first_token: Option<Duration>,
    /// The error that is the answer, or that ends a stream whose status has been sent.
    pub error: Option<ApiError>,
}

impl RequestFacts {
    /// Takes note of the model and of the tokens of the prompts.
    pub fn set_prompt(&self, model: &str, tokens: usize) {
        let mut facts = self.lock();
        facts.model = Some(model.into());
        facts.prompt_tokens = tokens;
    }

    /// Returns the facts, to be changed.
    pub fn lock(&self) -> MutexGuard<'_, Facts> {
        // Poisoning is harmless: nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
