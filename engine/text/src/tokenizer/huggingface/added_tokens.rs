//! Tokens that are found in a text before it is split, and their ids.

use std::collections::HashMap;
use std::sync::LazyLock;

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};
use regex::Regex;
use serde::Deserialize;
use tokenizers::normalizer::Range;
use tokenizers::{Model as _, ModelWrapper, NormalizedString, Token};

use super::deadline::Deadline;
use super::json::invalid;
use super::normalizer::Normalizer;
use crate::tokenizer::error::TokenizerError;

const WHAT: &str = "added_tokens";

/// The most added tokens. Models have some thousand.
const MAX_TOKENS: usize = 1 << 17;

/// The longest added token in bytes.
const MAX_LENGTH: usize = 1 << 12;

/// The bytes of all tokens that are searched together, which decide how long a matcher takes to build.
const MAX_BYTES: usize = 3 << 19;

/// An added token, as `tokenizer.json` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AddedToken {
    pub content: String,
    /// Whether it only matches whole words.
    pub single_word: bool,
    /// Whether it takes the white space before it.
    pub lstrip: bool,
    /// Whether it takes the white space after it.
    pub rstrip: bool,
    /// Whether it is searched in the normalized text.
    pub normalized: bool,
    /// Whether it is a control token.
    pub special: bool,
}

/// A part of a text: plain text, or a token.
pub type Part = (NormalizedString, Option<Vec<Token>>);

/// The added tokens of a tokenizer.
pub struct AddedTokens {
    tokens: HashMap<u32, AddedToken>,
    ids: HashMap<String, u32>,
    /// The texts of tokens that normalization changes.
    normalized: HashMap<u32, String>,
    plain: Option<Matcher>,
    in_normalized: Option<Matcher>,
}

/// Finds some of the tokens, as the `tokenizers` crate does.
type Matcher = DoubleArrayAhoCorasick<u32>;

impl AddedTokens {
    /// Numbers tokens as the `tokenizers` crate does: by the model's vocabulary, then behind it.
    pub fn new(
        listed: Vec<AddedToken>,
        model: &ModelWrapper,
        normalizer: &Normalizer,
    ) -> Result<Self, TokenizerError> {
        let mut tokens = Self {
            tokens: HashMap::new(),
            ids: HashMap::new(),
            normalized: HashMap::new(),
            plain: None,
            in_normalized: None,
        };
        tokens.add(listed, model, normalizer)?;
        Ok(tokens)
    }

    /// Adds tokens. Later ones with the same text replace earlier ones.
    pub fn add(
        &mut self,
        listed: Vec<AddedToken>,
        model: &ModelWrapper,
        normalizer: &Normalizer,
    ) -> Result<(), TokenizerError> {
        let bytes: usize = listed.iter().map(|token| token.content.len()).sum();
        let deadline = Deadline::new(bytes);
        let size = u32::try_from(model.get_vocab_size()).unwrap_or(u32::MAX);
        let mut next = self
            .tokens
            .keys()
            .max()
            .map_or(size, |&last| size.max(last + 1));
        if listed.len() + self.tokens.len() > MAX_TOKENS {
            return Err(invalid(
                WHAT,
                &format!("at most {MAX_TOKENS} tokens"),
                "more",
            ));
        }
        for token in listed {
            if token.content.is_empty() {
                continue;
            }
            if token.content.len() > MAX_LENGTH {
                let expected = format!("tokens of at most {MAX_LENGTH} bytes");
                return Err(invalid(WHAT, &expected, &token.content));
            }
            let known = self.ids.get(&token.content).copied();
            let id = known.or_else(|| model.token_to_id(&token.content));
            let id = id.unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            if token.normalized {
                let mut text = NormalizedString::from(token.content.as_str());
                normalizer.normalize(&mut text, &deadline)?;
                if text.get() != token.content {
                    self.normalized.insert(id, text.get().to_owned());
                }
            }
            self.ids.insert(token.content.clone(), id);
            self.tokens.insert(id, token);
        }
        self.plain = self.matcher(false)?;
        self.in_normalized = self.matcher(true)?;
        Ok(())
    }

    fn matcher(&self, normalized: bool) -> Result<Option<Matcher>, TokenizerError> {
        let tokens = self
            .tokens
            .iter()
            .filter(|(_, token)| token.normalized == normalized);
        let mut patterns: Vec<(u32, &str)> = tokens
            .map(|(&id, _)| (id, self.text(id).unwrap_or_default()))
            .filter(|(_, text)| !text.is_empty())
            .collect();
        // Of two tokens that normalization makes equal, the first one is found.
        patterns.sort_unstable_by(|(a_id, a), (b_id, b)| (a, a_id).cmp(&(b, b_id)));
        patterns.dedup_by_key(|(_, text)| *text);
        let bytes: usize = patterns.iter().map(|(_, text)| text.len()).sum();
        if bytes > MAX_BYTES {
            let expected = format!("tokens of at most {MAX_BYTES} bytes in all");
            return Err(invalid(WHAT, &expected, bytes));
        }
        if patterns.is_empty() {
            return Ok(None);
        }
        let builder = DoubleArrayAhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest);
        let patterns = patterns.into_iter().map(|(id, text)| (text, id));
        let matcher = builder.build_with_values(patterns);
        let matcher = matcher.map_err(|error| invalid(WHAT, "tokens to search for", error))?;
        Ok(Some(matcher))
    }

    /// Returns the text of an added token, normalized if it is searched so.
    pub fn text(&self, id: u32) -> Option<&str> {
        let token = self.tokens.get(&id)?;
        Some(self.normalized.get(&id).unwrap_or(&token.content))
    }

    pub fn id(&self, content: &str) -> Option<u32> {
        self.ids.get(content).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &AddedToken)> {
        self.tokens.iter().map(|(&id, token)| (id, token))
    }

    /// Splits text that is not normalized yet.
    pub fn split_plain(&self, text: NormalizedString, parse_special: bool) -> Vec<Part> {
        self.split(text, self.plain.as_ref(), parse_special)
    }

    /// Splits normalized text.
    pub fn split_normalized(&self, text: NormalizedString, parse_special: bool) -> Vec<Part> {
        self.split(text, self.in_normalized.as_ref(), parse_special)
    }

    fn split(
        &self,
        text: NormalizedString,
        matcher: Option<&Matcher>,
        parse_special: bool,
    ) -> Vec<Part> {
        let Some(matcher) = matcher.filter(|_| !text.get().is_empty()) else {
            return vec![(text, None)];
        };
        let mut parts = Vec::new();
        let mut push = |id: Option<u32>, start: usize, end: usize| {
            if let Some(part) = text.slice(Range::Normalized(start..end)) {
                let token = id.map(|id| {
                    let value = part.get().to_owned();
                    let length = value.len();
                    vec![Token::new(id, value, (0, length))]
                });
                parts.push((part, token));
            }
        };
        let whole = text.get();
        let mut end = 0;
        for found in matcher.leftmost_find_iter(whole) {
            let id = found.value();
            let token = self.tokens.get(&id).filter(|_| found.start() >= end);
            let Some(token) = token else {
                continue;
            };
            let (start, after) = (found.start(), &whole[found.end()..]);
            if (token.special && !parse_special)
                || (token.single_word
                    && (ends_with_word(&whole[..start]) || begins_with_word(after)))
            {
                continue;
            }
            // White space before it may belong to the token before.
            let start = match token.lstrip {
                true => end + whole[end..start].trim_end().len(),
                false => start,
            };
            if end < start {
                push(None, end, start);
            }
            end = match token.rstrip {
                true => whole.len() - after.trim_start().len(),
                false => found.end(),
            };
            push(Some(id), start, end);
        }
        if end < whole.len() {
            push(None, end, whole.len());
        }
        parts
    }
}

static WORD_CHARACTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\w").ok());

fn begins_with_word(text: &str) -> bool {
    WORD_CHARACTER
        .as_ref()
        .is_some_and(|word| word.is_match(text))
}

fn ends_with_word(text: &str) -> bool {
    let last = text.char_indices().next_back();
    last.is_some_and(|(start, _)| begins_with_word(&text[start..]))
}
