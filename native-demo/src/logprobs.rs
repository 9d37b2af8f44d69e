//! Log-probabilities in the format of OpenAI's completions.

use serde::Serialize;
use serde_json::{Map, Value};
use wisp_engine::{
    Completion, TokenScore,
    pipelines::tokenizer::{Tokenizer, characters_in},
};

/// A prompt that the text begins with.
#[derive(Clone, Copy)]
pub struct Echoed<'e> {
    /// The tokens of the prompt.
    pub tokens: &'e [u32],
    /// The beginning of the text. Tokens such as BOS need not be in it.
    pub text: &'e str,
}

/// One entry per token. The prompt's tokens come first if it is echoed, and the one that ended the text last.
#[derive(Serialize)]
pub struct Logprobs {
    /// The text of each token.
    tokens: Vec<String>,
    /// The log-probability of each token. The first token of an echoed prompt has none.
    token_logprobs: Vec<Option<f32>>,
    /// The log-probabilities of the most likely tokens at each position and of the token itself, by text.
    top_logprobs: Vec<Option<Map<String, Value>>>,
    /// Where each token begins in the whole text, in characters. Those that are left out of it take no room.
    text_offset: Vec<usize>,
    /// The characters that all tokens take in the text.
    #[serde(skip)]
    pub length: usize,
}

impl Logprobs {
    /// Returns the entries of a completion, and before them those of its prompt if that is echoed.
    ///
    /// They begin `offset` characters into the whole text.
    pub fn new(
        tokenizer: Option<&Tokenizer>,
        echo: Option<Echoed<'_>>,
        completion: &Completion,
        offset: usize,
    ) -> Logprobs {
        let known = |scores: &[TokenScore]| scores.iter().cloned().map(Some).collect::<Vec<_>>();
        let (mut tokens, mut scores) = (Vec::new(), Vec::new());
        let mut offsets = Offsets::new(offset);
        if let Some(prompt) = echo {
            tokens.extend(prompt.tokens);
            scores.push(None);
            scores.extend(known(&completion.prompt_scores));
            scores.resize(prompt.tokens.len(), None);
            offsets.add_prompt(tokenizer, prompt);
        }
        offsets.add_generated(tokenizer, &completion.tokens);
        tokens.extend(&completion.tokens);
        scores.extend(known(&completion.scores));
        // The token that ended the text takes no room in it.
        if let Some(ending) = &completion.ending {
            offsets.add(0);
            tokens.push(ending.token);
            scores.push(ending.score.clone());
        }
        let tokens: Vec<String> = tokens
            .iter()
            .map(|token| label(tokenizer, *token))
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
            length: offsets.end - offset,
            tokens,
            token_logprobs: scores
                .iter()
                .map(|score| Some(score.as_ref()?.log_probability))
                .collect(),
            top_logprobs,
            text_offset: offsets.all,
        }
    }
}

/// Where tokens begin in a text, in characters.
struct Offsets {
    all: Vec<usize>,
    /// Where the next token begins.
    end: usize,
}

impl Offsets {
    fn new(end: usize) -> Offsets {
        let all = Vec::new();
        Offsets { all, end }
    }

    fn add_prompt(&mut self, tokenizer: Option<&Tokenizer>, prompt: Echoed<'_>) {
        let end = self.end + prompt.text.chars().count();
        let mut rest = prompt.text.as_bytes();
        for token in prompt.tokens {
            let (own, after) = rest.split_at(taken(tokenizer, *token, rest));
            self.add(characters_in(own));
            rest = after;
        }
        self.end = end;
    }

    /// Adds generated tokens, whose text is without control tokens.
    fn add_generated(&mut self, tokenizer: Option<&Tokenizer>, tokens: &[u32]) {
        for token in tokens {
            self.add(tokenizer.map_or(0, |tokenizer| tokenizer.characters(*token)));
        }
    }

    /// Adds a token in which so many characters of the text begin.
    fn add(&mut self, characters: usize) {
        self.all.push(self.end);
        self.end += characters;
    }
}

/// Returns how many bytes a token takes of the rest of a prompt.
fn taken(tokenizer: Option<&Tokenizer>, token: u32, rest: &[u8]) -> usize {
    let Some(tokenizer) = tokenizer else {
        return 0;
    };
    let bytes = tokenizer.token_bytes(token);
    // Tokenizers may add a space at the beginning, and change characters.
    let without_space = bytes.strip_prefix(b" ").unwrap_or(&bytes);
    if rest.starts_with(&bytes) {
        bytes.len()
    } else if tokenizer.is_special(token) {
        0
    } else if rest.starts_with(without_space) {
        without_space.len()
    } else {
        bytes.len().min(rest.len())
    }
}

/// Returns the name of a token: its id if there is no tokenizer.
pub fn label(tokenizer: Option<&Tokenizer>, token: u32) -> String {
    tokenizer.map_or_else(|| token.to_string(), |tokenizer| tokenizer.label(token))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wisp_engine::{EndingToken, pipelines::tokenizer::HuggingFaceFiles};

    use super::*;

    /// Token 0 begins texts, and 4 and 5 are the halves of a character.
    fn tokenizer() -> Tokenizer {
        let control = json!({"id": 0, "content": "<s>", "special": true, "normalized": false,
                             "single_word": false, "lstrip": false, "rstrip": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let vocab = json!({"<s>": 0, "Ġa": 1, "b": 2, "cd": 3, "Ã": 4, "¤": 5, "c": 6, "d": 7, "Ġ": 8, "a": 9});
        let file = json!({
            "added_tokens": [control], "pre_tokenizer": bytes, "decoder": bytes,
            "model": {"type": "BPE", "vocab": vocab, "merges": [["c", "d"], ["Ġ", "a"]]}
        });
        let tokenizer = Tokenizer::from_files(&HuggingFaceFiles {
            tokenizer: file.to_string().as_bytes(),
            ..HuggingFaceFiles::default()
        });
        tokenizer.unwrap()
    }

    fn completion(tokens: &[u32]) -> Completion {
        let mut completion = Completion::default();
        completion.tokens.extend(tokens);
        completion
    }

    #[test]
    fn token_that_ended_the_text_is_the_last_and_takes_no_room() {
        let tokenizer = tokenizer();
        let score = |log_probability| TokenScore {
            log_probability,
            top: Vec::new(),
        };
        let mut ended = completion(&[2, 3]);
        ended.scores = vec![score(-1.0), score(-2.0)];
        ended.ending = Some(EndingToken {
            token: 2,
            score: Some(score(-3.0)),
        });
        let scores = Logprobs::new(Some(&tokenizer), None, &ended, 0);
        assert_eq!(scores.tokens, ["b", "cd", "b"]);
        let expected = [-1.0, -2.0, -3.0].map(Some);
        assert_eq!(scores.token_logprobs, expected);
        assert_eq!((scores.text_offset, scores.length), (vec![0, 1, 3], 3));
    }

    #[test]
    fn offsets_index_the_text_that_control_tokens_are_left_out_of() {
        let tokenizer = tokenizer();
        for (prompt, text, expected) in [
            (&[0, 2, 1][..], "b a", &[0, 0, 1, 3, 5, 5][..]),
            // Spelled, as prompts of tokens are.
            (&[0, 2, 1], "<s>b a", &[0, 3, 4, 6, 8, 8]),
            // Without the space that the tokenizer added.
            (&[0, 1, 2], "ab", &[0, 0, 1, 2, 4, 4]),
            (&[4, 5, 2], "äb", &[0, 1, 1, 2, 4, 4]),
            // Changed before it was tokenized.
            (&[0, 3, 2], "CDB", &[0, 0, 2, 3, 5, 5]),
        ] {
            let tokens = prompt;
            let echo = Some(Echoed { tokens, text });
            let echoed = Logprobs::new(Some(&tokenizer), echo, &completion(&[3, 0, 2]), 0);
            assert_eq!(echoed.text_offset, expected, "{text}");
            assert_eq!(echoed.length, expected[5] + 1);
        }
    }

    #[test]
    fn offsets_of_a_later_part_follow_those_before() {
        let tokenizer = tokenizer();
        let later = Logprobs::new(Some(&tokenizer), None, &completion(&[2, 3]), 7);
        assert_eq!((later.text_offset, later.length), (vec![7, 8], 3));
    }
}
