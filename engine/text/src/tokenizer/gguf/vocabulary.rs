//! The tokens of a GGUF file: their texts, kinds and ids.

use std::collections::HashMap;
use std::sync::Arc;

use crate::tokenizer::byte_tokens::parse_byte_token;
use crate::tokenizer::error::TokenizerError;

/// The character that SentencePiece writes for a space: U+2581.
pub const SPACE: char = '▁';

/// The purpose of a token (`tokenizer.ggml.token_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Replaces text that has no token.
    Unknown,
    /// Steers the model (BOS, end of turn); never a part of plain text.
    Control,
    /// Added text that is matched before all other text.
    UserDefined,
    /// An id without a token.
    Unused,
    /// One byte, spelled `<0xHH>`.
    Byte(u8),
}

impl TokenKind {
    /// Returns the kind of a number in a GGUF file. Unknown numbers are unused ids, as in llama.cpp.
    pub fn from_number(number: i64, text: &str) -> Self {
        match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            6 => parse_byte_token(text).map_or(Self::Unused, Self::Byte),
            _ => Self::Unused,
        }
    }
}

/// Tokens by id and by text.
#[derive(Debug)]
pub struct Vocabulary {
    texts: Vec<Arc<str>>,
    kinds: Vec<TokenKind>,
    ids: HashMap<Arc<str>, u32>,
    /// The ids of the byte tokens.
    bytes: Box<[Option<u32>; 256]>,
    /// The length of the longest text in bytes.
    longest: usize,
}

impl Vocabulary {
    /// Builds the tables; `kinds` has one entry per token.
    pub fn new(texts: &[String], kinds: Vec<TokenKind>) -> Result<Self, TokenizerError> {
        let size = u32::try_from(texts.len()).ok().filter(|&size| size > 0);
        let Some(size) = size else {
            return Err(TokenizerError::VocabularySize {
                actual: texts.len(),
            });
        };
        let mut vocabulary = Self {
            texts: Vec::with_capacity(texts.len()),
            kinds,
            ids: HashMap::with_capacity(texts.len()),
            bytes: Box::new([None; 256]),
            longest: 0,
        };
        for (id, text) in (0..size).zip(texts) {
            vocabulary.add(id, text)?;
        }
        Ok(vocabulary)
    }

    fn add(&mut self, id: u32, text: &str) -> Result<(), TokenizerError> {
        // An empty text would match everywhere; llama.cpp gives it this name.
        let text: Arc<str> = match text {
            "" => format!("[EMPTY_{id}]").into(),
            text => text.into(),
        };
        if let Some(&first) = self.ids.get(&text) {
            return Err(TokenizerError::DuplicateToken {
                text: text.to_string(),
                first,
                second: id,
            });
        }
        if let Some(byte) = parse_byte_token(&text) {
            self.bytes[usize::from(byte)] = Some(id);
        }
        self.longest = self.longest.max(text.len());
        self.ids.insert(text.clone(), id);
        self.texts.push(text);
        Ok(())
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns the length of the longest token in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the id of a token's text.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// Returns the id of the token of one byte.
    pub fn byte(&self, byte: u8) -> Option<u32> {
        self.bytes[usize::from(byte)]
    }

    /// Returns a token's text.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts
            .get(usize::try_from(id).ok()?)
            .map(|text| &**text)
    }

    /// Returns a token's kind; [`TokenKind::Unused`] for an id outside the vocabulary.
    pub fn kind(&self, id: u32) -> TokenKind {
        let index = usize::try_from(id).ok();
        index
            .and_then(|index| self.kinds.get(index).copied())
            .unwrap_or(TokenKind::Unused)
    }

    /// Changes a token's kind.
    pub fn set_kind(&mut self, id: u32, kind: TokenKind) {
        let index = usize::try_from(id).ok();
        if let Some(slot) = index.and_then(|index| self.kinds.get_mut(index)) {
            *slot = kind;
        }
    }

    /// Returns the ids, texts and kinds of all tokens, by id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str, TokenKind)> {
        let tokens = self.texts.iter().zip(&self.kinds);
        (0..)
            .zip(tokens)
            .map(|(id, (text, &kind))| (id, &**text, kind))
    }
}
