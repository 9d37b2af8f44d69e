//! Checks the model of a `tokenizer.json` before the `tokenizers` crate reads it.
//!
//! The crate panics on some truncated files, on merges that are longer than every token, and on tokens
//! that are empty; and some settings make it take the square of a text's length. This module reads the
//! file once, keeps almost nothing, and turns all that into errors.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json::invalid;
use crate::tokenizer::error::TokenizerError;

/// The longest prefix or suffix of tokens inside of a word, in bytes.
const MAX_AFFIX: usize = 64;

/// The longest word that WordPiece looks up, in characters. It takes the square of it.
const MAX_WORD: u64 = 256;

/// The longest piece of a unigram model in bytes. Each position of a text takes the square of it.
const MAX_PIECE: usize = 160;

/// One more than the largest id of a token.
const MAX_IDS: u64 = 1 << 30;

/// What the checks need of a model.
#[derive(Deserialize)]
pub struct ModelJson {
    #[serde(default)]
    vocab: Vocabulary,
    #[serde(default)]
    merges: Option<Merges>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    max_input_chars_per_word: Option<u64>,
}

/// What the checks need of a vocabulary: a map, or a list for unigram.
#[derive(Default)]
struct Vocabulary {
    is_list: bool,
    has_empty: bool,
    /// The length of the longest token in bytes.
    longest: usize,
    largest_id: u64,
    has_infinite_score: bool,
}

/// What the checks need of merges.
struct Merges {
    /// The length of the longest merge in bytes.
    longest: usize,
    /// What all right halves begin with.
    common_prefix: Option<String>,
}

/// A merge: the length of the left half, and the right half.
struct Merge(usize, String);

impl ModelJson {
    /// Checks the model.
    pub fn check(&self) -> Result<(), TokenizerError> {
        let prefix = self
            .continuing_subword_prefix
            .as_deref()
            .unwrap_or_default();
        let suffix = self.end_of_word_suffix.as_deref().unwrap_or_default();
        if prefix.len().max(suffix.len()) > MAX_AFFIX {
            let expected = format!("a prefix and suffix of at most {MAX_AFFIX} bytes");
            let length = prefix.len().max(suffix.len());
            return Err(invalid(
                "model",
                &expected,
                format!("one of {length} bytes"),
            ));
        }
        if let Some(word) = self
            .max_input_chars_per_word
            .filter(|&word| word > MAX_WORD)
        {
            let expected = format!("at most {MAX_WORD}");
            return Err(invalid("model.max_input_chars_per_word", &expected, word));
        }
        self.check_vocabulary()?;
        match &self.merges {
            Some(merges) => self.check_merges(merges, prefix),
            None => Ok(()),
        }
    }

    fn check_vocabulary(&self) -> Result<(), TokenizerError> {
        let vocabulary = &self.vocab;
        if vocabulary.largest_id >= MAX_IDS {
            let expected = format!("ids below {MAX_IDS}");
            return Err(invalid("model.vocab", &expected, vocabulary.largest_id));
        }
        if !vocabulary.is_list {
            return Ok(());
        }
        let longest = vocabulary.longest;
        if vocabulary.has_empty || longest > MAX_PIECE {
            let expected = format!("pieces of 1 to {MAX_PIECE} bytes");
            let found = if vocabulary.has_empty { 0 } else { longest };
            return Err(invalid(
                "model.vocab",
                &expected,
                format!("one of {found} bytes"),
            ));
        }
        match vocabulary.has_infinite_score {
            true => Err(invalid("model.vocab", "finite scores", "an infinite one")),
            false => Ok(()),
        }
    }

    fn check_merges(&self, merges: &Merges, prefix: &str) -> Result<(), TokenizerError> {
        let what = "model.merges";
        let common = merges.common_prefix.as_deref();
        if common.is_some_and(|common| !common.starts_with(prefix)) {
            let expected = format!("right halves that begin with {prefix:?}");
            return Err(invalid(what, &expected, "others"));
        }
        let longest = self.vocab.longest;
        if merges.longest > longest + prefix.len() {
            let expected = format!("merges that make tokens of at most {longest} bytes");
            return Err(invalid(
                what,
                &expected,
                format!("one of {} bytes", merges.longest),
            ));
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;
        impl<'de> Visitor<'de> for Tokens {
            type Value = Vocabulary;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map of tokens or a list of pieces")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut vocabulary = Vocabulary::default();
                while let Some((token, id)) = map.next_entry::<String, u64>()? {
                    vocabulary.longest = vocabulary.longest.max(token.len());
                    vocabulary.largest_id = vocabulary.largest_id.max(id);
                }
                Ok(vocabulary)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocabulary, A::Error> {
                let mut vocabulary = Vocabulary {
                    is_list: true,
                    ..Vocabulary::default()
                };
                while let Some((piece, score)) = seq.next_element::<(String, f64)>()? {
                    vocabulary.longest = vocabulary.longest.max(piece.len());
                    vocabulary.has_empty |= piece.is_empty();
                    vocabulary.has_infinite_score |= !score.is_finite();
                }
                Ok(vocabulary)
            }
        }
        deserializer.deserialize_any(Tokens)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Merges;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merges, A::Error> {
                let mut merges = Merges {
                    longest: 0,
                    common_prefix: None,
                };
                while let Some(Merge(left, right)) = seq.next_element()? {
                    merges.longest = merges.longest.max(left.saturating_add(right.len()));
                    match &mut merges.common_prefix {
                        Some(common) => common.truncate(common_length(common, &right)),
                        None => merges.common_prefix = Some(right),
                    }
                }
                Ok(merges)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// Returns the length of what two texts begin with, in bytes.
fn common_length(a: &str, b: &str) -> usize {
    let mut pairs = a.char_indices().zip(b.chars());
    let different = pairs.find(|((_, a), b)| a != b);
    different.map_or(a.len().min(b.len()), |((at, _), _)| at)
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Merge;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a merge: \"left right\" or [\"left\", \"right\"]")
            }

            fn visit_str<E: serde::de::Error>(self, merge: &str) -> Result<Merge, E> {
                let halves = merge.split_once(' ');
                let (left, right) = halves.ok_or_else(|| E::custom("a merge without a space"))?;
                Ok(Merge(left.len(), right.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let missing = || serde::de::Error::custom("a merge of fewer than two tokens");
                let left: String = seq.next_element()?.ok_or_else(missing)?;
                let right: String = seq.next_element()?.ok_or_else(missing)?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Merge(left.len(), right))
            }
        }
        deserializer.deserialize_any(Pair)
    }
}
