//! What normalizers and pre-tokenizers search for.

use fancy_regex::Regex;
use serde_json::Value;
use tokenizers::Offsets;
use tokenizers::tokenizer::pattern::Pattern;

use super::deadline::Deadline;
use super::json::invalid;
use crate::tokenizer::error::TokenizerError;

/// The longest expression in bytes. The longest ones of models have some thousand.
const MAX_LENGTH: usize = 1 << 14;

/// A string or a regular expression. Neither matches an empty text, but an expression may have empty matches in others.
#[derive(Debug)]
pub enum SearchPattern {
    Text(String),
    Regex(Box<Regex>),
}

impl SearchPattern {
    /// Reads `{"String": "a"}` or `{"Regex": "a+"}`.
    pub fn parse(json: &Value, what: &str) -> Result<Self, TokenizerError> {
        let (text, regex) = (json["String"].as_str(), json["Regex"].as_str());
        let source = text.or(regex).unwrap_or_default();
        if source.is_empty() || source.len() > MAX_LENGTH {
            let expected = format!("a string or an expression of 1 to {MAX_LENGTH} bytes");
            return Err(invalid(what, &expected, json));
        }
        if let Some(text) = text {
            return Ok(Self::Text(text.to_owned()));
        }
        let regex = Regex::new(source);
        let regex = regex.map_err(|error| invalid(what, "a regular expression", error))?;
        match regex.is_match("") {
            Ok(false) => Ok(Self::Regex(Box::new(regex))),
            _ => Err(invalid(
                what,
                "an expression that matches something",
                source,
            )),
        }
    }

    /// Searches in a text. Matches may be empty. A text in which the expression backtracks too often stays in one piece
    /// from there on.
    fn find(
        &self,
        text: &str,
        deadline: &Deadline,
        mut found: impl FnMut(usize, usize),
    ) -> Result<(), TokenizerError> {
        match self {
            Self::Text(pattern) => {
                let matches = text.match_indices(pattern.as_str());
                matches.for_each(|(start, part)| found(start, start + part.len()));
            }
            Self::Regex(regex) => {
                for (index, part) in regex.find_iter(text).enumerate() {
                    if index % 64 == 63 {
                        deadline.check()?;
                    }
                    let Ok(part) = part else {
                        break;
                    };
                    found(part.start(), part.end());
                }
                deadline.check()?;
            }
        }
        Ok(())
    }

    /// Counts the matches and their bytes.
    pub fn count(&self, text: &str, deadline: &Deadline) -> Result<(usize, usize), TokenizerError> {
        let (mut count, mut bytes) = (0_usize, 0_usize);
        self.find(text, deadline, |start, end| {
            count += 1;
            bytes += end - start;
        })?;
        Ok((count, bytes))
    }

    /// Returns the pattern for the `tokenizers` crate.
    pub fn timed<'p>(&'p self, deadline: &'p Deadline) -> TimedPattern<'p> {
        TimedPattern {
            pattern: self,
            deadline,
        }
    }
}

/// A pattern that is searched up to a deadline.
#[derive(Debug, Clone, Copy)]
pub struct TimedPattern<'p> {
    pattern: &'p SearchPattern,
    deadline: &'p Deadline,
}

impl Pattern for TimedPattern<'_> {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let mut parts = Vec::new();
        let mut end = 0;
        self.pattern.find(inside, self.deadline, |from, to| {
            if end < from {
                parts.push(((end, from), false));
            }
            parts.push(((from, to), true));
            end = to;
        })?;
        if end < inside.len() {
            parts.push(((end, inside.len()), false));
        }
        Ok(parts)
    }
}
