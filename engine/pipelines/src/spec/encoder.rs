//! What an encoder has besides a decoder's parts, and heads that score texts.

/// What an encoder has besides a decoder's parts: a model that computes the hidden states of whole texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderSpec {
    /// True if a token attends only to itself and to earlier ones, as in a decoder that embeds texts; false if
    /// every token attends to the whole text.
    pub causal: bool,
    /// True if the embedding is normalized before the first block.
    pub embedding_norm: bool,
    /// Segment types, each with an embedding that is added to the token's; 0 if there are none.
    pub token_types: u64,
    /// The padding token, if learned positions start after its id (RoBERTa): the first token's
    /// position is `padding + 1`.
    pub padding: Option<u32>,
    /// The head that scores a text, which classifiers and rerankers have.
    pub score: Option<ScoreHead>,
}

impl EncoderSpec {
    /// Returns an encoder like BERT, but without segment types and a head: its embedding is normalized, and every
    /// token attends to the whole text.
    pub fn bidirectional() -> EncoderSpec {
        EncoderSpec {
            causal: false,
            embedding_norm: true,
            token_types: 0,
            padding: None,
            score: None,
        }
    }

    /// Returns a decoder that embeds texts.
    pub fn causal() -> EncoderSpec {
        EncoderSpec {
            causal: true,
            embedding_norm: false,
            ..EncoderSpec::bidirectional()
        }
    }
}

/// A head that scores a text by the hidden state of its first token or, where attention is causal, its last one:
/// perhaps a linear layer with an activation and a norm, and a linear layer with a row for each label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreHead {
    /// The scores of a text: 1 for a reranker.
    pub labels: u64,
    /// The activation after the first linear layer; `None` if there is no such layer.
    pub activation: Option<ScoreActivation>,
    /// True if there is a norm after it.
    pub norm: bool,
    /// The tokens whose logits are the scores, if the output layer takes the place of the last linear layer: an
    /// answer that speaks for the text, and one against it (Qwen3-Reranker's `yes` and `no`).
    pub answers: Option<[u32; 2]>,
}

impl ScoreHead {
    /// Returns the head of BERT: without a norm, with the hyperbolic tangent.
    pub fn bert(labels: u64) -> ScoreHead {
        ScoreHead {
            labels,
            activation: Some(ScoreActivation::Tanh),
            norm: false,
            answers: None,
        }
    }

    /// Returns the head of decoders: one linear layer.
    pub fn linear(labels: u64) -> ScoreHead {
        ScoreHead {
            activation: None,
            ..ScoreHead::bert(labels)
        }
    }

    /// Returns a head of the logits of two answers, the affirmative one first.
    pub fn answers(tokens: [u32; 2]) -> ScoreHead {
        ScoreHead {
            answers: Some(tokens),
            ..ScoreHead::linear(2)
        }
    }
}

/// The activation of a [`ScoreHead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreActivation {
    /// The hyperbolic tangent (BERT, RoBERTa).
    Tanh,
    /// GELU (ModernBERT).
    Gelu,
}
