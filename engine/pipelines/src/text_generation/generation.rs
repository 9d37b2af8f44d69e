//! Options, events and results of requests for text.

use std::collections::BTreeSet;

use wisp_text::grammar::Grammar;

use crate::{
    ClientId, FinishReason, PrefillProgress, RequestId, SamplingParams, TokenScore,
    stoppable_text::StoppableText,
};

/// The text of a running request.
#[derive(Debug)]
pub(super) struct Stream {
    pub text: StoppableText,
    /// No token was requested: sampled tokens are by-products of the prompt's log-probabilities.
    pub empty: bool,
}

/// The results of a step for one request.
#[derive(Clone, Debug, PartialEq)]
pub struct TextEvent {
    /// The request that this event belongs to.
    pub id: RequestId,
    /// The sampled token; `None` if the event only ends the text.
    pub token: Option<u32>,
    /// The token that ended the text with this event, if one did.
    pub ending: Option<EndingToken>,
    /// The text that is final with this token: empty while a character or a possible stop string is
    /// incomplete.
    pub text: String,
    /// The token's log-probability, if requested.
    pub score: Option<TokenScore>,
    /// With the first event, if requested: the log-probabilities of the prompt's tokens from the
    /// second on.
    pub prompt_scores: Vec<TokenScore>,
    /// Tokens of the prompt that the prefix cache held.
    pub cached_tokens: usize,
    /// The stop string that ended the text with this event, if one did.
    pub stop_string: Option<String>,
    /// Why the text ended with this event, if it did.
    pub finish: Option<FinishReason>,
}

/// The token that ended a text: one of the model's or of [`GenerateOptions::stop_tokens`]. It was sampled, but is not
/// part of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct EndingToken {
    /// The token's id.
    pub token: u32,
    /// Its log-probability, if requested.
    pub score: Option<TokenScore>,
}

/// The results of a step for all requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextEvents {
    /// The progress of prompts that are not complete yet.
    pub prefill: Vec<PrefillProgress>,
    /// Tokens and texts; those of one request are in order.
    pub texts: Vec<TextEvent>,
}

/// The options of one generated text.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// Who asks for the text: clients share the model fairly.
    pub client: ClientId,
    /// How tokens are sampled.
    pub sampling: SamplingParams,
    /// The largest number of tokens to generate; `None` means until the context is full.
    pub max_new_tokens: Option<usize>,
    /// Strings that end the text; they are not part of it.
    pub stop: Vec<String>,
    /// Whether to continue after tokens that end a text.
    pub ignore_eos: bool,
    /// Tokens that end the text besides the model's own, also with [`Self::ignore_eos`]; they are not part of it.
    pub stop_tokens: Vec<u32>,
    /// The name of the low-rank adapter to apply.
    pub adapter: Option<String>,
    /// Control tokens that have text, such as markers of tool calls; others have none.
    pub visible_tokens: BTreeSet<u32>,
    /// What the text must match: [`TextProcessor::grammar`](crate::TextProcessor::grammar) compiles it. Tokens that
    /// end a text end it where it may end, also with [`Self::ignore_eos`], and it ends where nothing else can
    /// follow. A text that reaches the token limit or a stop string may be incomplete.
    pub constraint: Option<Grammar>,
}

/// A generated text.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// Their text; empty if the model has no tokenizer.
    pub text: String,
    /// Why the text ended.
    pub finish_reason: FinishReason,
    /// The tokens' log-probabilities, if requested.
    pub scores: Vec<TokenScore>,
    /// The log-probabilities of the prompt's tokens from the second on, if requested.
    pub prompt_scores: Vec<TokenScore>,
    /// Bytes of the text that have been passed to the callback.
    pub(super) shown: usize,
}

impl Default for Generation {
    fn default() -> Generation {
        Generation {
            tokens: Vec::new(),
            text: String::new(),
            finish_reason: FinishReason::Length,
            scores: Vec::new(),
            prompt_scores: Vec::new(),
            shown: 0,
        }
    }
}

impl Generation {
    /// Appends an event; returns true if it is the last one.
    pub(super) fn take(&mut self, event: TextEvent) -> bool {
        self.tokens.extend(event.token);
        self.text.push_str(&event.text);
        self.scores.extend(event.score);
        self.prompt_scores.extend(event.prompt_scores);
        if let Some(reason) = event.finish {
            self.finish_reason = reason;
        }
        event.finish.is_some()
    }
}
