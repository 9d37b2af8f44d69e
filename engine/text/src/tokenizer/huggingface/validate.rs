//! Validates a `tokenizer.json` before the `tokenizers` crate reads it.
//!
//! The crate panics on some truncated files, and on merges that are longer than every token. This
//! module reads the file once, keeps almost nothing, and turns both into errors.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::tokenizer::error::TokenizerError;

const FILE: &str = "tokenizer.json";

#[derive(Deserialize)]
struct TokenizerJson {
    #[serde(default)]
    decoder: Value,
    model: ModelJson,
}

#[derive(Deserialize)]
struct ModelJson {
    #[serde(default)]
    vocab: LongestToken,
    #[serde(default)]
    merges: Option<Merges>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
}

/// The length of the longest key of a map in bytes; 0 for a list (unigram).
#[derive(Default)]
struct LongestToken(usize);

/// The lengths of the longest merge and of the shortest right half, in bytes.
struct Merges {
    longest: usize,
    shortest_right: usize,
}

/// The lengths of a merge's halves in bytes.
struct Merge(usize, usize);

/// Checks the file and returns its `decoder`.
pub fn check(bytes: &[u8]) -> Result<Value, TokenizerError> {
    let json: TokenizerJson = serde_json::from_slice(bytes)
        .map_err(|source| TokenizerError::Json { file: FILE, source })?;
    if let Some(merges) = json.model.merges {
        let prefix = json
            .model
            .continuing_subword_prefix
            .unwrap_or_default()
            .len();
        let longest = json.model.vocab.0;
        if merges.shortest_right < prefix || merges.longest > longest + prefix {
            return Err(TokenizerError::invalid(
                "tokenizer.json: model.merges",
                format!("merges that make tokens of at most {longest} bytes"),
                format!("one of {} bytes", merges.longest),
            ));
        }
    }
    Ok(json.decoder)
}

impl<'de> Deserialize<'de> for LongestToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = LongestToken;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map of tokens or a list of pieces")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LongestToken, A::Error> {
                let mut longest = 0;
                while let Some((token, _)) = map.next_entry::<String, IgnoredAny>()? {
                    longest = longest.max(token.len());
                }
                Ok(LongestToken(longest))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<LongestToken, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(LongestToken(0))
            }
        }
        deserializer.deserialize_any(Keys)
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
                    shortest_right: usize::MAX,
                };
                while let Some(Merge(left, right)) = seq.next_element()? {
                    merges.longest = merges.longest.max(left.saturating_add(right));
                    merges.shortest_right = merges.shortest_right.min(right);
                }
                Ok(merges)
            }
        }
        deserializer.deserialize_seq(List)
    }
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
                let halves = halves.ok_or_else(|| E::custom("a merge without a space"))?;
                Ok(Merge(halves.0.len(), halves.1.len()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let missing = || serde::de::Error::custom("a merge of fewer than two tokens");
                let left: String = seq.next_element()?.ok_or_else(missing)?;
                let right: String = seq.next_element()?.ok_or_else(missing)?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Merge(left.len(), right.len()))
            }
        }
        deserializer.deserialize_any(Pair)
    }
}
