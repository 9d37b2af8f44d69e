//! Events of requests, as JavaScript receives them.

use serde::Serialize;
use wisp_engine::{EndingToken, Event, FinishReason, TokenScore, pipelines::tokenizer::Tokenizer};

/// A token with its log-probability, as OpenAI's API has it.
#[derive(Serialize)]
struct TokenLogprob {
    /// The name of the token.
    token: String,
    logprob: f32,
    /// The bytes of its text.
    bytes: Vec<u8>,
}

impl TokenLogprob {
    fn new(token: u32, logprob: f32, tokenizer: Option<&Tokenizer>) -> TokenLogprob {
        TokenLogprob {
            token: tokenizer.map_or_else(|| token.to_string(), |tokenizer| tokenizer.label(token)),
            logprob,
            bytes: tokenizer.map_or_else(Vec::new, |tokenizer| tokenizer.token_bytes(token)),
        }
    }
}

/// The log-probabilities of a sampled token and of the most likely ones.
#[derive(Serialize)]
pub struct Score {
    #[serde(flatten)]
    own: TokenLogprob,
    top_logprobs: Vec<TokenLogprob>,
}

impl Score {
    fn new(token: u32, score: TokenScore, tokenizer: Option<&Tokenizer>) -> Score {
        let top = score.top.iter();
        Score {
            own: TokenLogprob::new(token, score.log_probability, tokenizer),
            top_logprobs: top
                .map(|(token, logprob)| TokenLogprob::new(*token, *logprob, tokenizer))
                .collect(),
        }
    }
}

/// An event of a request.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum RequestEvent {
    Prompt {
        tokens: usize,
    },
    Prefill {
        done: usize,
        total: usize,
    },
    Token {
        token: u32,
        /// The number of characters that begin in it, without those of special tokens, which the text leaves out.
        characters: usize,
        score: Option<Score>,
    },
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    Call(CallPart),
    Stop,
    End {
        reason: FinishReason,
        cached_tokens: usize,
        reasoning_tokens: usize,
    },
}

/// A part of a call of a tool.
#[derive(Serialize)]
pub struct CallPart {
    /// The number of the call in the answer.
    index: usize,
    /// The name of the tool, in the first part.
    name: Option<String>,
    /// The next piece of the arguments.
    arguments: String,
}

impl RequestEvent {
    /// Converts an event to the form in which the page receives it, with tokens named by `tokenizer`; `None` for
    /// events that the package does not use.
    pub fn of(event: Event, tokenizer: Option<&Tokenizer>) -> Option<RequestEvent> {
        Some(match event {
            Event::Prefill { done, total } => RequestEvent::Prefill { done, total },
            Event::Token { token, score } => RequestEvent::Token {
                token,
                characters: tokenizer.map_or(0, |tokenizer| tokenizer.characters(token)),
                score: score.map(|score| Score::new(token, score, tokenizer)),
            },
            // It is counted and scored as the others, but is not part of the text.
            Event::Ending(EndingToken { token, score }) => RequestEvent::Token {
                token,
                characters: 0,
                score: score.map(|score| Score::new(token, score, tokenizer)),
            },
            Event::Text(text) => RequestEvent::Text { text },
            Event::Reasoning(text) => RequestEvent::Reasoning { text },
            Event::ToolCall(call) => RequestEvent::Call(CallPart {
                index: call.index,
                name: call.name,
                arguments: call.arguments,
            }),
            Event::StopString(_) => RequestEvent::Stop,
            Event::End { reason, usage } => RequestEvent::End {
                reason,
                cached_tokens: usage.cached_tokens,
                reasoning_tokens: usage.reasoning_tokens,
            },
            _ => return None,
        })
    }
}
