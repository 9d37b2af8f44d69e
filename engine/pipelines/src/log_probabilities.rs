//! Log-probabilities of tokens: the log-softmax of the model's unmodified logits.

/// The largest number of most likely tokens that can be reported per position.
pub const MAX_TOP: u32 = 20;

/// The 32-bit words that the sampler writes per position.
pub(crate) const SCORE_WORDS: u64 = 1 + 2 * MAX_TOP as u64;

/// The log-probabilities of a token and of the most likely tokens at its position.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TokenScore {
    /// The natural logarithm of the token's probability.
    pub log_probability: f32,
    /// The most likely tokens with their log-probabilities, in descending order.
    pub top: Vec<(u32, f32)>,
}

impl TokenScore {
    /// Reads the words that the sampler wrote for a position.
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

/// The log-probabilities of one sequence of a batch, in the form of MAX's class of the same name.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LogProbabilities {
    /// The log-probability of each token.
    pub token_log_probabilities: Vec<f32>,
    /// The log-probabilities of the most likely tokens at each position, in descending order.
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
