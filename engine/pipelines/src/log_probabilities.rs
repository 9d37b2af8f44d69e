//! Log-probabilities of tokens: the log-softmax of the logits as the model gave them.

/// The most of the likeliest tokens that can be told of a place.
pub const MAX_TOP: u32 = 20;

/// Words that the sampler writes of a place.
pub(crate) const SCORE_WORDS: u64 = 1 + 2 * MAX_TOP as u64;

/// How likely a token was, and which ones were the likeliest at its place.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TokenScore {
    /// The natural logarithm of the token's probability.
    pub log_probability: f32,
    /// The likeliest tokens with the logarithms of their probabilities, the likeliest first.
    pub top: Vec<(u32, f32)>,
}

impl TokenScore {
    /// From what the sampler wrote of a place.
    pub(crate) fn from_words(words: &[u32], top: u32) -> TokenScore {
        let (own, pairs) = words.split_first().unwrap_or((&0, &[]));
        let pairs = pairs.chunks_exact(2).take(top as usize);
        TokenScore {
            log_probability: f32::from_bits(*own),
            top: pairs
                .map(|pair| (pair[0], f32::from_bits(pair[1])))
                .take_while(|(token, _)| *token != u32::MAX)
                .collect(),
        }
    }
}

/// The log-probabilities of one sequence of a batch, as MAX's class of that name has them.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LogProbabilities {
    /// Of each token.
    pub token_log_probabilities: Vec<f32>,
    /// Of the likeliest tokens at each place, the likeliest first.
    pub top_log_probabilities: Vec<Vec<(u32, f32)>>,
}

impl FromIterator<TokenScore> for LogProbabilities {
    fn from_iter<I: IntoIterator<Item = TokenScore>>(scores: I) -> LogProbabilities {
        let pairs = scores.into_iter().map(|s| (s.log_probability, s.top));
        let (token_log_probabilities, top_log_probabilities) = pairs.unzip();
        LogProbabilities {
            token_log_probabilities,
            top_log_probabilities,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_scores() {
        let words = [(-0.5f32).to_bits(), 7, (-0.25f32).to_bits(), u32::MAX, 0];
        let score = TokenScore::from_words(&words, 2);
        assert_eq!(
            (score.log_probability, &*score.top),
            (-0.5, &[(7, -0.25)][..])
        );
        assert!(TokenScore::from_words(&words, 0).top.is_empty());
        let all: LogProbabilities = [score.clone(), score].into_iter().collect();
        assert_eq!(all.token_log_probabilities, [-0.5, -0.5]);
        assert_eq!(all.top_log_probabilities[1], [(7, -0.25)]);
    }
}
