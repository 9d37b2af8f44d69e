//! Encoding and decoding with a `tokenizer.json`.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::OnceLock;

use tokenizers::{
    Model as _, NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType,
    PreTokenizer as _, tokenizer::pre_tokenizer::PreTokenizedString,
};

use super::added_tokens::vocab_size;
use super::decoder::Decoder;
use crate::tokenizer::backend::Backend;
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::marks::Marks;

/// A tokenizer from a `tokenizer.json`.
pub struct HuggingFaceTokenizer {
    tokenizer: tokenizers::Tokenizer,
    /// The same tokenizer, which takes special tokens in the text for plain text. Built at the first
    /// use.
    plain: OnceLock<tokenizers::Tokenizer>,
    decoder: Decoder,
    /// The ids of special tokens.
    special: HashSet<u32>,
    /// The texts of special tokens.
    spellings: Vec<String>,
    /// Whether some special tokens are searched in normalized text.
    normalizes_special: bool,
    bos: Option<u32>,
    /// Whether BOS is added, if `add_bos_token` says so.
    add_bos: Option<bool>,
    size: usize,
}

impl HuggingFaceTokenizer {
    pub fn new(
        tokenizer: tokenizers::Tokenizer,
        decoder: Decoder,
        bos: Option<u32>,
        add_bos: Option<bool>,
    ) -> Self {
        let added = tokenizer.get_added_tokens_decoder();
        let special = || added.iter().filter(|(_, token)| token.special);
        Self {
            special: special().map(|(&id, _)| id).collect(),
            spellings: special().map(|(_, token)| token.content.clone()).collect(),
            normalizes_special: special().any(|(_, token)| token.normalized),
            plain: OnceLock::new(),
            size: vocab_size(&tokenizer),
            decoder,
            bos,
            add_bos,
            tokenizer,
        }
    }

    fn plain(&self) -> &tokenizers::Tokenizer {
        self.plain.get_or_init(|| {
            let mut plain = self.tokenizer.clone();
            plain.set_encode_special_tokens(true);
            plain
        })
    }

    /// Splits marked text at the added tokens, normalizes the rest and removes the marks.
    fn split_marked(
        &self,
        text: &str,
        marks: &Marks,
    ) -> Result<PreTokenizedString, tokenizers::Error> {
        let vocabulary = self.tokenizer.get_added_vocabulary();
        let normalizer = self.tokenizer.get_normalizer();
        if !self.normalizes_special {
            let normalizer = Unmark { marks, normalizer };
            return Ok(vocabulary.extract_and_normalize(Some(&normalizer), text));
        }
        // The marks are needed until special tokens were searched in the normalized text.
        let mut split = vocabulary.extract_and_normalize(normalizer, text);
        let normalizer = None;
        split.normalize(|text| Unmark { marks, normalizer }.normalize(text))?;
        Ok(split)
    }

    /// Tokenizes text that is split at added tokens; the steps of `Tokenizer::encode` after that.
    fn encode_split(&self, mut split: PreTokenizedString) -> Result<Vec<u32>, tokenizers::Error> {
        if let Some(pre_tokenizer) = self.tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut split)?;
        }
        let model = self.tokenizer.get_model();
        split.tokenize(|text| model.tokenize(text.get()))?;
        let encoding = split.into_encoding(None, 0, OffsetType::None)?;
        let encoding = self.tokenizer.post_process(encoding, None, false)?;
        Ok(encoding.get_ids().to_vec())
    }
}

/// A normalizer that removes marks first.
struct Unmark<'m> {
    marks: &'m Marks,
    normalizer: Option<&'m NormalizerWrapper>,
}

impl Normalizer for Unmark<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        if self.marks.are_in(text.get()) {
            text.filter(|character| self.marks.original(character).is_some());
            text.map(|character| self.marks.original(character).unwrap_or(character));
        }
        match self.normalizer {
            Some(normalizer) => normalizer.normalize(text),
            None => Ok(()),
        }
    }
}

impl Backend for HuggingFaceTokenizer {
    fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let tokenizer = if parse_special {
            &self.tokenizer
        } else {
            self.plain()
        };
        let encoding = tokenizer
            .encode_fast(text, add_special)
            .map_err(TokenizerError::library)?;
        let mut ids = encoding.get_ids().to_vec();
        let Some(bos) = self.bos.filter(|_| add_special) else {
            return Ok(ids);
        };
        // The mask tells a BOS of the post-processor from one that the text spells.
        let mask = encoding.get_special_tokens_mask();
        let added = ids.first() == Some(&bos) && mask.first() == Some(&1);
        match (self.add_bos, added) {
            (Some(true), false) => ids.insert(0, bos),
            (Some(false), true) => drop(ids.remove(0)),
            _ => {}
        }
        Ok(ids)
    }

    fn encode_marked(&self, text: &str, marks: &Marks) -> Result<Vec<u32>, TokenizerError> {
        let split = self.split_marked(text, marks);
        let ids = split.and_then(|split| self.encode_split(split));
        ids.map_err(TokenizerError::library)
    }

    fn control_spans(&self, text: &str) -> Vec<Range<usize>> {
        let vocabulary = self.tokenizer.get_added_vocabulary();
        let split = vocabulary.extract_and_normalize(self.tokenizer.get_normalizer(), text);
        let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let spans = splits.into_iter().filter_map(|(_, (start, end), tokens)| {
            let mut ids = tokens.iter().flatten().map(|token| token.id);
            ids.any(|id| self.special.contains(&id))
                .then_some(start..end)
        });
        spans
            .filter(|span| text.get(span.clone()).is_some())
            .collect()
    }

    fn control_spellings(&self) -> Vec<&str> {
        self.spellings.iter().map(String::as_str).collect()
    }

    fn append_bytes(&self, id: u32, out: &mut Vec<u8>) {
        if let Some(token) = self.tokenizer.id_to_token(id) {
            self.decoder.decode(token, out);
        }
    }

    fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    fn strips_first_space(&self) -> bool {
        self.decoder.strips_first_space()
    }

    fn token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    fn id(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_to_id(text)
    }

    fn vocab_size(&self) -> usize {
        self.size
    }
}
