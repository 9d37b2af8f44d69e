//! Splits text into the words within which BPE merges.
//!
//! Each split of a pre-tokenizer divides every piece that the split before it left into matches and
//! the text between them. The expressions run on the `regex` crate in time linear in the text, so no
//! prompt can make them backtrack. That crate has no look-ahead. The one that nearly all expressions
//! have, `\s+(?!\S)` (white space except its last character before a word), is a rule here; the few
//! others are variants of [`Split`].

use regex::Regex;

use super::pre_tokenizer_table::{PreTokenizerRules, Split};
use crate::tokenizer::error::TokenizerError;

/// A compiled pre-tokenizer.
pub struct PreTokenizer {
    splitters: Vec<Splitter>,
}

enum Splitter {
    Expression(Expression),
    DigitGroups { word_end: bool },
}

struct Expression {
    regex: Regex,
    white_space: WhiteSpace,
}

/// What happens to white space that an expression matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhiteSpace {
    /// It stays as matched.
    AsMatched,
    /// Its last character goes to the word that follows; with `newlines`, unless it ends with a
    /// newline.
    LeaveOne { newlines: bool },
    /// As above, and the rest is split into runs of 512, 256, ... 1 characters.
    LeaveOneAndHalve,
}

/// The endings of expressions that match white space but leave one character.
const LEAVE_ONE: [&str; 2] = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)"];

impl PreTokenizer {
    /// Compiles the expressions of a pre-tokenizer.
    pub fn new(rules: &PreTokenizerRules) -> Result<Self, TokenizerError> {
        let splitters = rules.splits.iter().map(|split| match *split {
            Split::Regex(pattern) => Expression::new(pattern, false).map(Splitter::Expression),
            Split::RegexHalvingSpaces(pattern) => {
                Expression::new(pattern, true).map(Splitter::Expression)
            }
            Split::DigitGroups => Ok(Splitter::DigitGroups { word_end: false }),
            Split::DigitGroupsAtWordEnd => Ok(Splitter::DigitGroups { word_end: true }),
        });
        Ok(Self {
            splitters: splitters.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the words of `text` in order; concatenated they are the text.
    pub fn split<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = vec![text];
        for splitter in &self.splitters {
            let mut finer = Vec::with_capacity(pieces.len() * 2);
            for piece in pieces {
                splitter.split(piece, &mut finer);
            }
            pieces = finer;
        }
        pieces
    }
}

impl Splitter {
    fn split<'t>(&self, text: &'t str, out: &mut Vec<&'t str>) {
        match self {
            Self::Expression(expression) => expression.split(text, out),
            Self::DigitGroups { word_end } => split_digits(text, *word_end, out),
        }
    }
}

impl Expression {
    fn new(pattern: &str, halve: bool) -> Result<Self, TokenizerError> {
        let head = LEAVE_ONE.iter().find_map(|end| pattern.strip_suffix(end));
        let newlines = pattern.contains(r"|\s*[\r\n]");
        let (pattern, white_space) = match (head, halve) {
            (None, _) => (pattern.to_owned(), WhiteSpace::AsMatched),
            (Some(head), false) => (format!(r"{head}|\s+"), WhiteSpace::LeaveOne { newlines }),
            (Some(head), true) => (format!(r"{head}|\s+"), WhiteSpace::LeaveOneAndHalve),
        };
        let regex = Regex::new(&pattern).map_err(|error| {
            TokenizerError::invalid("pre-tokenizer", "a regular expression", error)
        })?;
        Ok(Self { regex, white_space })
    }

    fn split<'t>(&self, text: &'t str, out: &mut Vec<&'t str>) {
        let mut done = 0;
        let mut at = 0;
        while let Some(found) = self.regex.find_at(text, at) {
            let (start, mut end) = (found.start(), found.end());
            if end == start {
                // No expression of the table matches the empty string. If one did, this would step
                // over a character.
                let Some(next) = text[end..].chars().next() else {
                    break;
                };
                at = end + next.len_utf8();
                continue;
            }
            if let Some(shorter) = self.leave_one(text, start, end) {
                end = shorter;
            }
            push(&text[done..start], out);
            self.push_match(&text[start..end], out);
            (done, at) = (end, end);
        }
        push(&text[done..], out);
    }

    /// Returns where a match of white space ends if it leaves its last character to the next word.
    fn leave_one(&self, text: &str, start: usize, end: usize) -> Option<usize> {
        let newlines = match self.white_space {
            WhiteSpace::AsMatched => return None,
            WhiteSpace::LeaveOne { newlines } => newlines,
            WhiteSpace::LeaveOneAndHalve => true,
        };
        let matched = &text[start..end];
        let last = matched.chars().next_back().filter(|c| c.is_whitespace())?;
        let word_follows = text[end..]
            .chars()
            .next()
            .is_some_and(|c| !c.is_whitespace());
        // A match that ends with a newline comes from `\s*[\r\n]+`, which has no look-ahead.
        let by_newline = newlines && matches!(last, '\r' | '\n');
        let longer = matched.len() > last.len_utf8();
        let applies = word_follows && longer && !by_newline && is_white_space(matched);
        applies.then(|| end - last.len_utf8())
    }

    fn push_match<'t>(&self, matched: &'t str, out: &mut Vec<&'t str>) {
        let halve = self.white_space == WhiteSpace::LeaveOneAndHalve
            && is_white_space(matched)
            && !matched.ends_with(['\r', '\n']);
        if !halve {
            return push(matched, out);
        }
        let mut rest = matched;
        let mut left = rest.chars().count();
        for size in (0..=9).rev().map(|bits| 1 << bits) {
            while left >= size {
                let cut = rest
                    .char_indices()
                    .nth(size)
                    .map_or(rest.len(), |(at, _)| at);
                let (run, after) = rest.split_at(cut);
                push(run, out);
                rest = after;
                left -= size;
            }
        }
    }
}

fn is_white_space(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

fn push<'t>(piece: &'t str, out: &mut Vec<&'t str>) {
    if !piece.is_empty() {
        out.push(piece);
    }
}

/// Separates numbers from other text and groups their digits by three from the right, as in
/// 1 234 567. With `word_end`, only numbers that no word character follows:
/// `\d{1,3}(?=(?:\d{3})*\b)`.
fn split_digits<'t>(text: &'t str, word_end: bool, out: &mut Vec<&'t str>) {
    let mut done = 0;
    let mut at = 0;
    let digit = |c: char| c.is_numeric();
    while let Some(start) = text[at..].find(digit).map(|found| at + found) {
        let end = text[start..]
            .find(|c| !digit(c))
            .map_or(text.len(), |found| start + found);
        at = end;
        let next = text[end..].chars().next();
        if word_end && next.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        push(&text[done..start], out);
        let number = &text[start..end];
        let digits = number.chars().count();
        let mut group = start;
        for (index, (offset, _)) in number.char_indices().enumerate().skip(1) {
            if (digits - index).is_multiple_of(3) {
                push(&text[group..start + offset], out);
                group = start + offset;
            }
        }
        push(&text[group..end], out);
        done = end;
    }
    push(&text[done..], out);
}

#[cfg(test)]
mod tests {
    use super::super::pre_tokenizer_table::{PRE_TOKENIZERS, find};
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    fn split<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        PreTokenizer::new(find(name).unwrap()).unwrap().split(text)
    }

    #[test]
    fn white_space_leaves_one_character_to_the_word() {
        assert_eq!(
            split("gpt-2", "a   b\t\tc  "),
            ["a", "  ", " b", "\t", "\t", "c", "  "]
        );
        assert_eq!(split("llama-bpe", "a \n\n  b"), ["a", " \n\n", " ", " b"]);
        assert_eq!(split("llama-bpe", "a  \n"), ["a", "  \n"]);
        // GPT-2 has no rule for newlines.
        assert_eq!(split("gpt-2", "a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(split("llama-bpe", "a\n\nb"), ["a", "\n\n", "b"]);
    }

    #[test]
    fn contractions_and_numbers_are_split() {
        assert_eq!(
            split("llama-bpe", "I'Ll pay 12345"),
            ["I", "'Ll", " pay", " ", "123", "45"]
        );
        assert_eq!(split("qwen2", "x12"), ["x", "1", "2"]);
        assert_eq!(split("falcon", "12345"), ["123", "45"]);
        assert_eq!(split("gpt-4o", "ÉCOLEs it's"), ["ÉCOLEs", " it's"]);
        assert_eq!(split("tekken", "HelloWorld"), ["Hello", "World"]);
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(
            split("superbpe", "a 1234567 b"),
            ["a ", "1", "234", "567", " b"]
        );
        assert_eq!(split("afmoe", "x12345"), ["x", "12", "345"]);
        assert_eq!(
            split("tiny_aya", "12345 1234x"),
            ["12", "345", " ", "123", "4", "x"]
        );
    }

    #[test]
    fn jais_splits_white_space_into_powers_of_two() {
        let text = format!("a{}b", " ".repeat(14));
        let lengths: Vec<usize> = split("jais-2", &text).iter().map(|s| s.len()).collect();
        assert_eq!(lengths, [1, 8, 4, 1, 2]);
    }

    #[test]
    fn kimi_separates_han_characters() {
        assert_eq!(
            split("kimi-k2", "abc你好def 1234"),
            ["abc", "你好", "def", " ", "123", "4"]
        );
    }

    /// Splits text by `patterns` with a backtracking engine, which has look-ahead.
    fn backtrack<'t>(patterns: &[fancy_regex::Regex], text: &'t str) -> Vec<&'t str> {
        let mut pieces = vec![text];
        for pattern in patterns {
            let mut finer = Vec::new();
            for piece in pieces {
                let mut done = 0;
                for found in pattern.find_iter(piece) {
                    let found = found.unwrap();
                    push(&piece[done..found.start()], &mut finer);
                    push(found.as_str(), &mut finer);
                    done = found.end();
                }
                push(&piece[done..], &mut finer);
            }
            pieces = finer;
        }
        pieces
    }

    /// Returns the patterns of a pre-tokenizer as the models' files have them.
    fn original(rules: &PreTokenizerRules) -> Vec<fancy_regex::Regex> {
        let patterns = rules.splits.iter().flat_map(|split| match split {
            Split::Regex(pattern) => vec![(*pattern).to_owned()],
            Split::RegexHalvingSpaces(pattern) => {
                let head = pattern.strip_suffix(LEAVE_ONE[0]).unwrap();
                let sizes = [512, 256, 128, 64, 32, 16, 8, 4];
                let sizes = sizes.map(|size| format!(r"|\s{{{size}}}(?!\S)")).concat();
                vec![format!(r"{head}{sizes}|\s{{1,2}}(?!\S)|\s{{1}}")]
            }
            Split::DigitGroups => [r"\p{N}+", r"(?=(\p{N}{3})+(?!\p{N}))"]
                .map(str::to_owned)
                .to_vec(),
            Split::DigitGroupsAtWordEnd => vec![r"\d{1,3}(?=(?:\d{3})*\b)".to_owned()],
        });
        patterns
            .map(|pattern| fancy_regex::Regex::new(&pattern).unwrap())
            .collect()
    }

    /// Such texts would stall a backtracking engine.
    #[test]
    fn long_runs_are_split_in_linear_time() {
        for rules in PRE_TOKENIZERS {
            let splitter = PreTokenizer::new(rules).unwrap();
            for unit in [" ", "\n", "a", "1", "!", "é", " \n", "'"] {
                let text = unit.repeat(100_000);
                assert_eq!(splitter.split(&text).concat(), text);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn splits_equal_those_of_a_backtracking_engine(
            text in "([ \\t\\r\\n\u{a0}\u{3000}]|[ ]{1,9}|'(s|T|re|LL)|[a-cA-C]|[0-9]|[!-/]|é|É|你|か|한|\u{301}|½|।){0,24}",
        ) {
            static ALL: LazyLock<Vec<(PreTokenizer, Vec<fancy_regex::Regex>)>> =
                LazyLock::new(|| {
                    let row = |rules| (PreTokenizer::new(rules).unwrap(), original(rules));
                    PRE_TOKENIZERS.iter().map(row).collect()
                });
            for (rules, (splitter, patterns)) in PRE_TOKENIZERS.iter().zip(ALL.iter()) {
                // `\d` does not match fractions, and engines differ on `\b` beside combining marks.
                let text = match rules.names.contains(&"tiny_aya") {
                    true => text.replace(['½', '\u{301}'], ""),
                    false => text.clone(),
                };
                let expected = backtrack(patterns, &text);
                prop_assert_eq!(splitter.split(&text), expected, "{:?}", rules.names);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn concatenated_pieces_equal_the_text(text in "(\\PC|[ \\t\\r\\n'a-c0-9]){0,40}") {
            static ALL: LazyLock<Vec<PreTokenizer>> =
                LazyLock::new(|| PRE_TOKENIZERS.iter().map(|r| PreTokenizer::new(r).unwrap()).collect());
            for splitter in ALL.iter() {
                let pieces = splitter.split(&text);
                prop_assert_eq!(pieces.concat(), text.as_str());
                prop_assert!(pieces.iter().all(|piece| !piece.is_empty()) || text.is_empty());
            }
        }
    }
}
