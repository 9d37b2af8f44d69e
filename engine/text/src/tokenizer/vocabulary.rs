//! The tokens of a GGUF file: their texts, kinds and ids.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::TokenizerError;

/// What a token is for (`tokenizer.ggml.token_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Stands for what no token stands for.
    Unknown,
    /// Steers the model (BOS, end of turn); never part of plain text.
    Control,
    /// Added text that is matched before anything else.
    UserDefined,
    /// A hole in the table.
    Unused,
    /// One byte, written `<0xHH>`.
    Byte(u8),
}

impl TokenKind {
    /// From the number in a GGUF file. Unknown numbers are holes, as in llama.cpp.
    pub fn from_number(number: i64, text: &str) -> Self {
        match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            6 => byte_of(text).map_or(Self::Unused, Self::Byte),
            _ => Self::Unused,
        }
    }
}

/// The byte of a token written `<0xHH>`.
pub fn byte_of(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let digits = hex.len() == 2 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}

/// Tokens by id and by text.
#[derive(Debug)]
pub struct Vocabulary {
    texts: Vec<Arc<str>>,
    kinds: Vec<TokenKind>,
    ids: HashMap<Arc<str>, u32>,
    bytes: Box<[Option<u32>; 256]>,
    longest: usize,
}

impl Vocabulary {
    /// Builds the tables; `kinds` has one entry a token.
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
        // An empty text would match everywhere; it gets the name that llama.cpp gives it.
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
        if let Some(byte) = byte_of(&text) {
            self.bytes[usize::from(byte)] = Some(id);
        }
        self.longest = self.longest.max(text.len());
        self.ids.insert(text.clone(), id);
        self.texts.push(text);
        Ok(())
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// The longest token's length in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The id of a text.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// The id of the token for one byte.
    pub fn byte(&self, byte: u8) -> Option<u32> {
        self.bytes[usize::from(byte)]
    }

    /// The text of an id.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts
            .get(usize::try_from(id).ok()?)
            .map(|text| &**text)
    }

    /// The kind of an id; a hole if there is no such id.
    pub fn kind(&self, id: u32) -> TokenKind {
        let index = usize::try_from(id).ok();
        index
            .and_then(|index| self.kinds.get(index).copied())
            .unwrap_or(TokenKind::Unused)
    }

    /// Changes what a token is for.
    pub fn set_kind(&mut self, id: u32, kind: TokenKind) {
        let index = usize::try_from(id).ok();
        if let Some(slot) = index.and_then(|index| self.kinds.get_mut(index)) {
            *slot = kind;
        }
    }

    /// All tokens in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str, TokenKind)> {
        let tokens = self.texts.iter().zip(&self.kinds);
        (0..)
            .zip(tokens)
            .map(|(id, (text, &kind))| (id, &**text, kind))
    }
}
