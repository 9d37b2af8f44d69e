//! Log-probabilities in the shape of OpenAI's completions.

use serde::Serialize;
use serde_json::{Map, Value};
use wisp_engine::{Completion, TokenScore, pipelines::tokenizer::Tokenizer};

/// One entry a token, of the prompt's first if it is echoed.
#[derive(Serialize)]
pub struct Logprobs {
    /// Their texts.
    tokens: Vec<String>,
    /// Their log-probabilities; none of the first of all.
    token_logprobs: Vec<Option<f32>>,
    /// The likeliest tokens at their places, by text.
    top_logprobs: Vec<Option<Map<String, Value>>>,
    /// Where their texts begin, in characters.
    text_offset: Vec<usize>,
}

impl Logprobs {
    /// Those of a completion, and of its prompt with `echo`.
    pub fn new(
        tokenizer: Option<&Tokenizer>,
        prompt: &[u32],
        completion: &Completion,
        echo: bool,
    ) -> Logprobs {
        let known = |scores: &[TokenScore]| scores.iter().cloned().map(Some).collect::<Vec<_>>();
        let (mut tokens, mut scores) = (Vec::new(), Vec::new());
        if echo {
            tokens.extend(prompt);
            scores.push(None);
            scores.extend(known(&completion.prompt_scores));
            scores.resize(prompt.len(), None);
        }
        tokens.extend(&completion.tokens);
        scores.extend(known(&completion.scores));
        let tokens: Vec<String> = tokens.iter().map(|token| text(tokenizer, *token)).collect();
        let text_offset = tokens
            .iter()
            .scan(0, |end, token| {
                let start = *end;
                *end += token.chars().count();
                Some(start)
            })
            .collect();
        let top = |score: &TokenScore| {
            let pairs = score.top.iter();
            pairs
                .map(|(token, log_probability)| {
                    (text(tokenizer, *token), (*log_probability).into())
                })
                .collect()
        };
        Logprobs {
            tokens,
            token_logprobs: scores
                .iter()
                .map(|score| Some(score.as_ref()?.log_probability))
                .collect(),
            top_logprobs: scores.iter().map(|score| score.as_ref().map(top)).collect(),
            text_offset,
        }
    }
}

/// A token's text; as OpenAI has it, bytes that are no text by themselves as `bytes:\\xf0\\x9f`, and a
/// token without a text by its id.
fn text(tokenizer: Option<&Tokenizer>, token: u32) -> String {
    let Some(tokenizer) = tokenizer else {
        return token.to_string();
    };
    let bytes = tokenizer.token_bytes(token);
    match String::from_utf8(bytes) {
        Ok(text) if text.is_empty() => tokenizer.token(token).unwrap_or_else(|| token.to_string()),
        Ok(text) => text,
        Err(error) => {
            let hex = error.as_bytes().iter().map(|byte| format!("\\x{byte:02x}"));
            format!("bytes:{}", hex.collect::<String>())
        }
    }
}
