//! Tokenises texts for encoders.

use wisp_text::tokenizer::{PairTokens, Tokenizer};

use super::{EncodeError, RerankOptions, judge, rerank::check_head};
use crate::{
    ModelFiles, PipelineError, TextProcessor, model_files::SentenceTransformer, spec::ScoreHead,
};

/// The tokens of a text, ready for an encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizedText {
    /// The tokens, including special ones.
    pub tokens: Vec<u32>,
    /// The number of tokens cut from the end of the text, because the model's files or the limits with
    /// which it was loaded bound its length.
    pub cut: usize,
}

/// The tokenizer of an encoder with the settings in its files: the maximum length of texts, and
/// whether they are lower-cased.
#[derive(Clone, Debug)]
pub struct EncoderTokenizer {
    text: TextProcessor,
    settings: SentenceTransformer,
    max_positions: u64,
    /// True if a query and a document are joined by a prompt instead of the tokenizer's template.
    judges: bool,
    /// The model's head that scores texts.
    head: Option<ScoreHead>,
}

impl EncoderTokenizer {
    /// Returns the tokenizer of a checkpoint.
    pub fn of(files: &ModelFiles) -> EncoderTokenizer {
        EncoderTokenizer {
            text: TextProcessor::of(files),
            settings: files.sentence_transformer.clone(),
            max_positions: files.model_spec.spec.max_positions,
            judges: judge::judges(&files.model_spec.spec),
            head: files
                .model_spec
                .spec
                .encoder
                .and_then(|encoder| encoder.score),
        }
    }

    /// Returns the tokenizer of an encoder that was loaded for texts of at most `most` tokens.
    pub(super) fn within(mut self, most: u64) -> EncoderTokenizer {
        let own = self.settings.max_length.unwrap_or(most);
        self.settings.max_length = Some(own.min(most));
        self
    }

    /// Returns the settings for embeddings in the model's files.
    pub(super) fn settings(&self) -> &SentenceTransformer {
        &self.settings
    }

    /// Returns the tokens of texts as [`Self::tokenize`] does. With `truncate`, texts that are too
    /// long for the model are cut.
    ///
    /// # Errors
    ///
    /// As [`Self::tokenize`]; if a text has no tokens, not even special ones; if one is too long and `truncate` is
    /// false.
    pub fn tokenize_all<T: AsRef<str>>(
        &self,
        texts: &[T],
        truncate: bool,
    ) -> Result<Vec<TokenizedText>, PipelineError> {
        let texts = (1..).zip(texts);
        let texts = texts.map(|(number, text)| self.tokenize_one(number, text.as_ref(), truncate));
        texts.collect()
    }

    /// Returns the tokens of one text as [`Self::tokenize_all`] does; `number` counts it in errors.
    ///
    /// # Errors
    ///
    /// As [`Self::tokenize_all`].
    pub fn tokenize_one(
        &self,
        number: usize,
        text: &str,
        truncate: bool,
    ) -> Result<TokenizedText, PipelineError> {
        let tokenized = self.tokenize(text)?;
        if tokenized.tokens.is_empty() {
            return Err(EncodeError::Empty { text: number }.into());
        }
        if tokenized.cut > 0 && !truncate {
            let most = tokenized.tokens.len() as u64;
            let (text, tokens) = (number, tokenized.tokens.len() + tokenized.cut);
            return Err(EncodeError::TooLong { text, tokens, most }.into());
        }
        Ok(tokenized)
    }

    /// Returns the tokens of a query and a document as one text, with the special tokens and segment types
    /// that the tokenizer gives to pairs; `number` counts the document in errors. With `truncate`, texts
    /// that are too long for the model are cut, the longer one first.
    ///
    /// # Errors
    ///
    /// If there is no tokenizer, it has no template for pairs, or a text is empty or too long.
    pub fn tokenize_pair(
        &self,
        number: usize,
        query: &str,
        document: &str,
        truncate: bool,
    ) -> Result<PairTokens, PipelineError> {
        if query.trim().is_empty() || document.trim().is_empty() {
            return Err(EncodeError::Empty { text: number }.into());
        }
        let most = self.settings.max_length.unwrap_or(u64::MAX);
        let most = most.min(self.max_positions) as usize;
        let texts = [query, document].map(|text| match self.settings.lowercases {
            true => text.to_lowercase(),
            false => text.to_string(),
        });
        let tokenizer = self.tokenizer()?;
        let pair = match self.judges {
            true => Some(judge::prompt(tokenizer, &texts[0], &texts[1], most)?),
            false => tokenizer.encode_pair(&texts[0], &texts[1], Some(most))?,
        };
        let pair = pair.ok_or_else(|| EncodeError::NotAReranker {
            problem: "the model's tokenizer does not say how two texts are joined".into(),
        })?;
        if pair.cut > 0 && !truncate {
            let (tokens, most) = (pair.tokens.len() + pair.cut, most as u64);
            let text = number;
            return Err(EncodeError::TooLong { text, tokens, most }.into());
        }
        Ok(pair)
    }

    /// Checks that the model scores pairs of texts with one number, as a reranker does.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NotAReranker`] if it does not.
    pub fn check_reranker(&self) -> Result<(), EncodeError> {
        check_head(self.head)
    }

    /// Returns the tokens of pairs of a query and a document as [`Self::tokenize_pair`] does, for a reranker.
    ///
    /// # Errors
    ///
    /// As [`Self::check_reranker`] and [`Self::tokenize_pair`].
    pub fn tokenize_pairs(
        &self,
        pairs: &[(&str, &str)],
        options: RerankOptions,
    ) -> Result<Vec<PairTokens>, PipelineError> {
        self.check_reranker()?;
        let pairs = (1..).zip(pairs);
        let pairs = pairs.map(|(number, (query, document))| {
            self.tokenize_pair(number, query, document, options.truncate)
        });
        pairs.collect()
    }

    fn tokenizer(&self) -> Result<&Tokenizer, PipelineError> {
        self.text.tokenizer().map_err(|error| match error {
            PipelineError::NoTokenizer { model, problem } => {
                EncodeError::NoTokenizer { model, problem }.into()
            }
            other => other,
        })
    }

    /// Returns a text's tokens with the special tokens that the tokenizer adds, cut to the maximum
    /// length in the model's files (as sentence-transformers does), and to the one with which the
    /// encoder was loaded if it is the tokenizer of one. Special tokens at the end are kept.
    ///
    /// # Errors
    ///
    /// If there is no tokenizer, or it has no token for a part of the text.
    pub fn tokenize(&self, text: &str) -> Result<TokenizedText, PipelineError> {
        let tokenizer = self.tokenizer()?;
        let text = match self.settings.lowercases {
            true => &text.to_lowercase(),
            false => text,
        };
        let mut tokens = tokenizer.encode(text, true, true)?;
        let most = self.settings.max_length;
        let most = most.map(|most| most.min(self.max_positions) as usize);
        let cut = most.map_or(0, |most| tokens.len().saturating_sub(most));
        if cut > 0 {
            let bare = tokenizer.encode(text, false, true)?;
            let end = end_of(&tokens, &bare);
            tokens.drain(end.saturating_sub(cut)..end);
        }
        Ok(TokenizedText { tokens, cut })
    }
}

/// Returns the end of the text within its tokens with surrounding special tokens, given the same
/// tokens without them (`bare`). Returns the end of `tokens` if they differ in other ways.
fn end_of(tokens: &[u32], bare: &[u32]) -> usize {
    let found = match bare.len() {
        0 => None,
        len => tokens.windows(len).position(|part| part == bare),
    };
    found.map_or(tokens.len(), |start| start + bare.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wisp_text::tokenizer::HuggingFaceFiles;

    use super::*;

    /// The tokens 5 and 6 are words, and 1 and 2 surround texts.
    fn tokenizer() -> EncoderTokenizer {
        let special = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
        let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
        let vocab = json!({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 5, "b": 6});
        let file = json!({
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [special("[CLS]"), text("A"), special("[SEP]")],
                "pair": [special("[CLS]"), text("A"), special("[SEP]"), text("B"), special("[SEP]")],
                "special_tokens": {"[CLS]": {"ids": [1]}, "[SEP]": {"ids": [2]}}
            },
            "model": {
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": vocab
            }
        });
        let tokenizer = Tokenizer::from_files(&HuggingFaceFiles {
            tokenizer: file.to_string().as_bytes(),
            ..HuggingFaceFiles::default()
        });
        EncoderTokenizer {
            text: TextProcessor::new("words", tokenizer.unwrap(), []),
            settings: SentenceTransformer::default(),
            max_positions: 8,
            judges: false,
            head: None,
        }
    }

    #[test]
    fn texts_are_cut_to_the_limit_that_the_encoder_was_loaded_with() {
        for (files, loaded, expected) in [
            (None, 100, 8),
            (None, 6, 6),
            (Some(7), 6, 6),
            (Some(5), 6, 5),
        ] {
            let mut tokenizer = tokenizer();
            tokenizer.settings.max_length = files;
            let tokenizer = tokenizer.within(loaded);
            let text = tokenizer.tokenize_one(1, "a b a b a b a b", true).unwrap();
            assert_eq!((text.tokens.len(), text.cut), (expected, 10 - expected));
            let pair = tokenizer.tokenize_pair(1, "a", "b b b b b b b", true);
            let pair = pair.unwrap();
            assert_eq!((pair.tokens.len(), pair.cut), (expected, 11 - expected));
            assert!(tokenizer.tokenize_one(1, "a b a b a b a b", false).is_err());
            let pair = tokenizer.tokenize_pair(1, "a", "b b b b b b b", false);
            assert!(pair.is_err());
        }
    }

    #[test]
    fn blank_texts_are_their_special_tokens() {
        for blank in ["", " \n"] {
            let text = tokenizer().tokenize_one(1, blank, false).unwrap();
            assert_eq!((text.tokens, text.cut), (vec![1, 2], 0), "{blank:?}");
            assert!(tokenizer().tokenize_pair(1, "a", blank, false).is_err());
        }
    }

    #[test]
    fn special_tokens_at_the_end_are_not_part_of_the_text() {
        assert_eq!(end_of(&[9, 1, 2, 8], &[1, 2]), 3);
        assert_eq!(end_of(&[9, 8], &[]), 2);
        assert_eq!(end_of(&[9, 1, 2, 8], &[2, 1]), 4);
    }
}
