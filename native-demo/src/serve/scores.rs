//! Log-probabilities in the format of OpenAI's chats.

use serde_json::{Value, json};
use wisp_engine::{Completion, pipelines::tokenizer::Tokenizer};

use crate::logprobs::label;

/// The least log-probability that is written: JSON has no infinity, and OpenAI writes this for it.
const LEAST: f32 = -9999.0;

/// Returns the log-probabilities of a completion's tokens as those of a choice.
pub fn content(tokenizer: Option<&Tokenizer>, completion: &Completion) -> Value {
    let entries: Vec<Value> = entries(tokenizer, completion).collect();
    json!({ "content": entries, "refusal": null })
}

/// Returns the log-probability of each of a completion's tokens, and of the one that ended its text.
pub fn entries(
    tokenizer: Option<&Tokenizer>,
    completion: &Completion,
) -> impl Iterator<Item = Value> {
    let entry = move |token: u32, log_probability: f32| {
        let bytes = tokenizer.map(|tokenizer| tokenizer.token_bytes(token));
        json!({
            "token": label(tokenizer, token),
            "logprob": log_probability.max(LEAST),
            "bytes": bytes,
        })
    };
    completion.scored_tokens().map(move |(token, score)| {
        let top = score.top.iter().map(|(token, score)| entry(*token, *score));
        let mut own = entry(token, score.log_probability);
        own["top_logprobs"] = top.collect();
        own
    })
}
