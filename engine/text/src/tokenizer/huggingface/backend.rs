//! Encoding and decoding with a `tokenizer.json`.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokenizers::tokenizer::pre_tokenizer::PreTokenizedString;
use tokenizers::{Model as _, ModelWrapper, NormalizedString, OffsetReferential, OffsetType};

use super::added_tokens::AddedTokens;
use super::deadline::Deadline;
use super::decoder::Decoder;
use super::normalizer::Normalizer;
use super::post_processor::PostProcessor;
use super::pre_tokenizer::PreTokenizer;
use crate::tokenizer::backend::Backend;
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::marks::Marks;
use crate::tokenizer::pair::PairTemplate;

/// The checked components of a `tokenizer.json`.
pub struct Components {
    pub added: AddedTokens,
    pub normalizer: Normalizer,
    pub pre_tokenizer: PreTokenizer,
    pub model: ModelWrapper,
    pub post_processor: PostProcessor,
    pub decoder: Decoder,
}

/// BOS or EOS, which a configuration adds or leaves out, whatever the post-processor does.
#[derive(Clone, Copy)]
pub struct AddedEnd {
    pub id: Option<u32>,
    /// Whether it is added; `None` if the configuration does not say so.
    pub is_added: Option<bool>,
}

/// A tokenizer from a `tokenizer.json`.
pub struct HuggingFaceTokenizer {
    components: Components,
    /// The ids of special tokens.
    special: HashSet<u32>,
    /// The texts of special tokens.
    spellings: Vec<String>,
    /// Whether some special tokens are searched in normalized text.
    normalizes_special: bool,
    bos: AddedEnd,
    eos: AddedEnd,
    size: usize,
}

impl Components {
    /// Returns one more than the largest id of an added token, or the number of tokens. If some ids have
    /// no token, the former is more.
    pub fn vocab_size(&self) -> usize {
        let largest = self.added.iter().map(|(id, _)| id as usize + 1).max();
        let mut contents = self.added.iter().map(|(_, token)| token.content.as_str());
        let further = contents
            .by_ref()
            .filter(|content| self.model.token_to_id(content).is_none());
        (self.model.get_vocab_size() + further.count()).max(largest.unwrap_or(0))
    }

    pub fn token_to_id(&self, text: &str) -> Option<u32> {
        let added = self.added.id(text);
        added.or_else(|| self.model.token_to_id(text))
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        let added = self.added.text(id).map(str::to_owned);
        added.or_else(|| self.model.id_to_token(id))
    }
}

impl HuggingFaceTokenizer {
    pub fn new(components: Components, bos: AddedEnd, eos: AddedEnd) -> Self {
        let mut special = HashSet::new();
        let mut spellings = Vec::new();
        let mut normalizes_special = false;
        for (id, token) in components.added.iter().filter(|(_, token)| token.special) {
            special.insert(id);
            spellings.push(token.content.clone());
            normalizes_special |= token.normalized;
        }
        Self {
            size: components.vocab_size(),
            special,
            spellings,
            normalizes_special,
            bos,
            eos,
            components,
        }
    }

    /// Splits text at the added tokens and normalizes the rest. Marks are removed.
    fn split(
        &self,
        text: &str,
        parse_special: bool,
        marks: Option<&Marks>,
        deadline: &Deadline,
    ) -> Result<PreTokenizedString, TokenizerError> {
        let components = &self.components;
        let mut split = PreTokenizedString::from(text);
        let split_plain = |_, part| Ok(components.added.split_plain(part, parse_special));
        split.split(split_plain).map_err(TokenizerError::library)?;
        // The marks are needed until special tokens were searched in the normalized text.
        let (before, after) = match self.normalizes_special {
            true => (None, marks),
            false => (marks, None),
        };
        let normalized = split.split(|_, mut part| {
            unmark(&mut part, before);
            components.normalizer.normalize(&mut part, deadline)?;
            Ok(components.added.split_normalized(part, parse_special))
        });
        normalized.map_err(TokenizerError::library)?;
        if after.is_some() {
            let unmarked = split.normalize(|part| {
                unmark(part, after);
                Ok(())
            });
            unmarked.map_err(TokenizerError::library)?;
        }
        Ok(split)
    }

    fn tokens(
        &self,
        text: &str,
        parse_special: bool,
        marks: Option<&Marks>,
    ) -> Result<Vec<u32>, TokenizerError> {
        let deadline = Deadline::new(text.len());
        let encode = || {
            let mut split = self.split(text, parse_special, marks, &deadline)?;
            self.components.pre_tokenizer.split(&mut split, &deadline)?;
            let parts = Cell::new(0_usize);
            let tokenized = split.tokenize(|part| {
                parts.set(parts.get() + 1);
                if parts.get().is_multiple_of(16) {
                    deadline.check()?;
                }
                self.components.model.tokenize(part.get())
            });
            tokenized.map_err(TokenizerError::library)?;
            let encoding = split.into_encoding(None, 0, OffsetType::None);
            let encoding = encoding.map_err(TokenizerError::library)?;
            Ok(encoding.get_ids().to_vec())
        };
        // The components are checked so that the crate does not panic; this is the last defence.
        let encoded = catch_unwind(AssertUnwindSafe(encode));
        encoded.unwrap_or_else(|_| {
            let message = "the library that reads it panicked on this text";
            Err(TokenizerError::Library(message.to_owned()))
        })
    }

    /// Puts the special tokens around those of a text.
    fn add_special(&self, ids: &mut Vec<u32>) {
        let PostProcessor { before, after, .. } = &self.components.post_processor;
        let (mut before, mut after) = (before.clone(), after.clone());
        if let (Some(bos), Some(is_added)) = (self.bos.id, self.bos.is_added) {
            match before.first() == Some(&bos) {
                true if !is_added => drop(before.remove(0)),
                false if is_added => before.insert(0, bos),
                _ => {}
            }
        }
        if let (Some(eos), Some(is_added)) = (self.eos.id, self.eos.is_added) {
            match after.last() == Some(&eos) {
                true if !is_added => drop(after.pop()),
                false if is_added => after.push(eos),
                _ => {}
            }
        }
        ids.splice(0..0, before);
        ids.extend(after);
    }
}

/// Removes marks from a text.
fn unmark(text: &mut NormalizedString, marks: Option<&Marks>) {
    let Some(marks) = marks.filter(|marks| marks.are_in(text.get())) else {
        return;
    };
    text.filter(|character| marks.original(character).is_some());
    text.map(|character| marks.original(character).unwrap_or(character));
}

impl Backend for HuggingFaceTokenizer {
    fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = self.tokens(text, parse_special, None)?;
        if add_special {
            self.add_special(&mut ids);
        }
        Ok(ids)
    }

    fn pair_template(&self) -> Option<PairTemplate> {
        self.components.post_processor.pair.clone()
    }

    fn encode_marked(&self, text: &str, marks: &Marks) -> Result<Vec<u32>, TokenizerError> {
        self.tokens(text, true, Some(marks))
    }

    fn control_spans(&self, text: &str) -> Vec<Range<usize>> {
        let deadline = Deadline::new(text.len());
        let split = || self.split(text, true, None, &deadline);
        // A text that cannot be split cannot be encoded either.
        let Ok(Ok(split)) = catch_unwind(AssertUnwindSafe(split)) else {
            return Vec::new();
        };
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
        if let Some(token) = self.components.id_to_token(id) {
            self.components.decoder.decode(token, out);
        }
    }

    fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    fn strips_first_space(&self) -> bool {
        self.components.decoder.strips_first_space()
    }

    fn token(&self, id: u32) -> Option<String> {
        self.components.id_to_token(id)
    }

    fn id(&self, text: &str) -> Option<u32> {
        self.components.token_to_id(text)
    }

    fn vocab_size(&self) -> usize {
        self.size
    }
}
