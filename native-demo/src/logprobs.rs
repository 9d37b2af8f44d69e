//! Log-probabilities in the format of OpenAI's completions.

use serde::Serialize;
use serde_json::{Map, Value};
use wisp_engine::{Completion, TokenScore, pipelines::tokenizer::Tokenizer};

/// One entry per token. The prompt's tokens come first if it is echoed.
#[derive(Serialize)]
pub struct Logprobs {
    /// The text of each token.
    tokens: Vec<String>,
    /// The log-probability of each token. The first token of an echoed prompt has none.
    token_logprobs: Vec<Option<f32>>,
    /// The log-probabilities of the most likely tokens at each position and of the token itself, by text.
    top_logprobs: Vec<Option<Map<String, Value>>>,
    /// The offset of each text in characters.
    text_offset: Vec<usize>,
    /// The length of all texts in characters.
    #[serde(skip)]
    pub length: usize,
}

impl Logprobs {
    /// Returns the entries of a completion, and with `echo` those of its prompt.
    ///
    /// The texts begin `offset` characters into the whole text.
    pub fn new(
        tokenizer: Option<&Tokenizer>,
        prompt: &[u32],
        completion: &Completion,
        echo: bool,
        offset: usize,
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
        let tokens: Vec<String> = tokens
            .iter()
            .map(|token| label(tokenizer, *token))
            .collect();
        let text_offset = tokens
            .iter()
            .scan(offset, |end, token| {
                let start = *end;
                *end += token.chars().count();
                Some(start)
            })
            .collect();
        // The token itself is among them even if others are more likely.
        let top = |(label_of_own, score): (&String, &Option<TokenScore>)| {
            let score = score.as_ref()?;
            let pairs = score.top.iter();
            let pairs = pairs.map(|(token, score)| (label(tokenizer, *token), *score));
            let own = (label_of_own.clone(), score.log_probability);
            let pairs = pairs.chain([own]);
            Some(pairs.map(|(label, score)| (label, score.into())).collect())
        };
        let top_logprobs = tokens.iter().zip(&scores).map(top).collect();
        Logprobs {
            length: tokens.iter().map(|token| token.chars().count()).sum(),
            tokens,
            token_logprobs: scores
                .iter()
                .map(|score| Some(score.as_ref()?.log_probability))
                .collect(),
            top_logprobs,
            text_offset,
        }
    }
}

/// Returns the name of a token: its id if there is no tokenizer.
pub fn label(tokenizer: Option<&Tokenizer>, token: u32) -> String {
    tokenizer.map_or_else(|| token.to_string(), |tokenizer| tokenizer.label(token))
}
