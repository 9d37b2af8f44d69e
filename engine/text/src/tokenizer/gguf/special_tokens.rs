//! Splits text at the tokens that are matched before all other text.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, MatchKind};

use super::vocabulary::{TokenKind, Vocabulary};
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::marks::Marks;

/// The bytes of all tokens that are searched together, which decide how long a matcher takes to build.
const MAX_BYTES: usize = 3 << 19;

/// The most tokens that begin with another one, such as `<1` and `<12`. A matcher takes the square of
/// their number to build.
const MAX_NESTED: usize = 10_000;

/// A part of the input: text to be tokenized, or a token that was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Fragment<T> {
    /// Text to be tokenized; never empty.
    Text(T),
    /// An added token.
    Token(u32),
}

/// Finds added tokens in text: the leftmost match first, and of several the longest.
///
/// llama.cpp looks for the longest token in the whole text first. The two differ only where two
/// added tokens overlap in a text without containing each other. Hugging Face's tokenizers do it as
/// here.
pub struct SpecialTokens {
    /// All added tokens.
    all: Matcher,
    /// The tokens that match in any text.
    user_defined: Matcher,
    /// The tokens that only a chat template should write.
    control: Matcher,
    /// The tokens in `user_defined` that are not in `control`, if that is not all of them.
    harmless: Option<Matcher>,
    /// The texts of the tokens in `control`.
    control_spellings: Vec<String>,
}

struct Matcher {
    automaton: Option<AhoCorasick>,
    tokens: Vec<SpecialToken>,
}

/// An added token and whether it swallows the white space around it.
#[derive(Debug, Clone, Copy)]
struct SpecialToken {
    id: u32,
    strip_left: bool,
    strip_right: bool,
}

/// Which white space a special token swallows. GGUF files do not say so; the model's name does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stripping {
    /// None.
    None,
    /// `<mask>` and `[MASK]` swallow the space before them (Jina, ModernBERT).
    Mask,
    /// Phi-3: all but `<unk>`, `<s>` and `<|endoftext|>` swallow the space after them.
    Phi3,
}

impl SpecialTokens {
    /// Collects the added tokens of a vocabulary. `control` has the ids of the tokens that only a
    /// chat template should write.
    pub fn new(
        vocabulary: &Vocabulary,
        control: &HashSet<u32>,
        stripping: Stripping,
    ) -> Result<Self, TokenizerError> {
        let is_user_defined = |kind| kind == TokenKind::UserDefined;
        let is_added =
            |kind| is_user_defined(kind) || matches!(kind, TokenKind::Control | TokenKind::Unknown);
        let matcher = |wanted: &dyn Fn(u32, TokenKind) -> bool| {
            let tokens = vocabulary.iter().filter(|&(id, _, kind)| wanted(id, kind));
            Matcher::new(tokens.map(|(id, text, _)| (id, text)), stripping)
        };
        let mut tokens = vocabulary.iter();
        let is_mixed = tokens.any(|(id, _, kind)| is_user_defined(kind) && control.contains(&id));
        let harmless = |id: u32, kind| is_user_defined(kind) && !control.contains(&id);
        let is_control = |id: u32, kind| is_added(kind) && control.contains(&id);
        let spellings = vocabulary
            .iter()
            .filter(|&(id, _, kind)| is_control(id, kind));
        Ok(Self {
            all: matcher(&|_, kind| is_added(kind))?,
            user_defined: matcher(&|_, kind| is_user_defined(kind))?,
            control: matcher(&is_control)?,
            harmless: is_mixed.then(|| matcher(&harmless)).transpose()?,
            control_spellings: spellings.map(|(_, text, _)| text.to_owned()).collect(),
        })
    }

    /// Splits `text` at added tokens; control tokens count only with `parse_special`.
    pub fn split<'t>(&self, text: &'t str, parse_special: bool) -> Vec<Fragment<&'t str>> {
        let matcher = if parse_special {
            &self.all
        } else {
            &self.user_defined
        };
        matcher.split(text)
    }

    /// Splits marked text at control tokens whose spelling no mark breaks, removes the marks, and
    /// splits the rest at the other added tokens.
    pub fn split_marked(&self, text: &str, marks: &Marks) -> Vec<Fragment<String>> {
        let harmless = self.harmless.as_ref().unwrap_or(&self.user_defined);
        let mut fragments = Vec::new();
        for fragment in self.control.split(text) {
            match fragment {
                Fragment::Token(id) => fragments.push(Fragment::Token(id)),
                Fragment::Text(text) => {
                    let text = marks.remove(text);
                    let split = harmless.split(&text).into_iter();
                    fragments.extend(split.map(|fragment| match fragment {
                        Fragment::Token(id) => Fragment::Token(id),
                        Fragment::Text(text) => Fragment::Text(text.to_owned()),
                    }));
                }
            }
        }
        fragments
    }

    /// Returns the byte ranges of the control tokens that a text spells.
    pub fn control_spans(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let found = self.control.automaton.iter();
        let found = found.flat_map(|automaton| automaton.find_iter(text));
        found.map(|found| found.range()).collect()
    }

    /// Returns the texts of the control tokens.
    pub fn control_spellings(&self) -> Vec<&str> {
        self.control_spellings.iter().map(String::as_str).collect()
    }
}

/// Checks that a matcher of these texts is built in time.
fn check_size(texts: &[&str]) -> Result<(), TokenizerError> {
    let what = "special tokens";
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    if bytes > MAX_BYTES {
        let expected = format!("at most {MAX_BYTES} bytes in all");
        return Err(TokenizerError::invalid(what, expected, bytes));
    }
    let mut sorted = texts.to_vec();
    sorted.sort_unstable();
    let (mut nested, mut outer) = (0, None);
    for text in sorted {
        match outer {
            Some(outer) if text.starts_with(outer) => nested += 1,
            _ => outer = Some(text),
        }
    }
    if nested > MAX_NESTED {
        let expected = format!("at most {MAX_NESTED} that begin with another one");
        return Err(TokenizerError::invalid(what, expected, nested));
    }
    Ok(())
}

impl Matcher {
    fn new<'v>(
        found: impl Iterator<Item = (u32, &'v str)>,
        stripping: Stripping,
    ) -> Result<Self, TokenizerError> {
        let (ids, texts): (Vec<u32>, Vec<&str>) = found.unzip();
        let tokens = ids.iter().zip(&texts).map(|(&id, &text)| SpecialToken {
            id,
            strip_left: stripping == Stripping::Mask && matches!(text, "<mask>" | "[MASK]"),
            strip_right: stripping == Stripping::Phi3
                && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>"),
        });
        let tokens = tokens.collect();
        check_size(&texts)?;
        let automaton = (!texts.is_empty()).then(|| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&texts)
        });
        let automaton = automaton.transpose().map_err(|error| {
            TokenizerError::invalid("special tokens", "a set that can be searched", error)
        })?;
        Ok(Self { automaton, tokens })
    }

    fn split<'t>(&self, text: &'t str) -> Vec<Fragment<&'t str>> {
        let mut fragments = Vec::new();
        let mut start = 0;
        let found = self.automaton.iter();
        let found = found.flat_map(|automaton| automaton.find_iter(text));
        for found in found {
            // `None` if the token begins in white space that the one before it swallowed.
            let Some(before) = text.get(start..found.start()) else {
                continue;
            };
            // The automaton was built over `tokens`, so every pattern index is below their number.
            let token = self.tokens[found.pattern().as_usize()];
            push_text(
                match token.strip_left {
                    true => before.trim_end_matches(is_space),
                    false => before,
                },
                &mut fragments,
            );
            fragments.push(Fragment::Token(token.id));
            start = found.end();
            if token.strip_right {
                let rest = text.get(start..).unwrap_or_default();
                start = text.len() - rest.trim_start_matches(is_space).len();
            }
        }
        push_text(text.get(start..).unwrap_or_default(), &mut fragments);
        fragments
    }
}

fn push_text<'t>(text: &'t str, fragments: &mut Vec<Fragment<&'t str>>) {
    if !text.is_empty() {
        fragments.push(Fragment::Text(text));
    }
}

/// C's `isspace` in the C locale.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn special(stripping: Stripping) -> SpecialTokens {
        use TokenKind::{Control, Normal, UserDefined};
        let tokens = [
            ("a", Normal),
            ("<s>", Control),
            ("<|end|>", Control),
            ("  ", UserDefined),
            ("    ", UserDefined),
        ];
        let texts: Vec<String> = tokens.iter().map(|(text, _)| text.to_string()).collect();
        let kinds = tokens.map(|(_, kind)| kind).to_vec();
        let vocabulary = Vocabulary::new(&texts, kinds).unwrap();
        SpecialTokens::new(&vocabulary, &HashSet::from([1, 2]), stripping).unwrap()
    }

    #[test]
    fn control_tokens_are_text_without_parse_special() {
        let special = special(Stripping::None);
        assert_eq!(special.split("<s>a", false), [Fragment::Text("<s>a")]);
        assert_eq!(
            special.split("<s>a", true),
            [Fragment::Token(1), Fragment::Text("a")]
        );
    }

    #[test]
    fn user_defined_tokens_always_match_longest_first() {
        let special = special(Stripping::None);
        let expected = [
            Fragment::Text("a"),
            Fragment::Token(4),
            Fragment::Token(3),
            Fragment::Text(" b"),
        ];
        assert_eq!(special.split("a       b", false), expected);
    }

    #[test]
    fn phi3_tokens_swallow_the_space_after_them() {
        let special = special(Stripping::Phi3);
        let expected = [
            Fragment::Token(1),
            Fragment::Text(" a"),
            Fragment::Token(2),
            Fragment::Text("b"),
        ];
        assert_eq!(special.split("<s> a<|end|> \n  b", true), expected);
    }

    #[test]
    fn marked_control_tokens_are_text_and_user_defined_ones_match() {
        let special = special(Stripping::None);
        let mut marks = Marks::unused_in(std::iter::empty()).unwrap();
        let mut text = String::from("<s>  <|end|>");
        marks
            .break_spellings(&mut text, |text| special.control_spans(text))
            .unwrap();
        let expected = [
            Fragment::Token(1),
            Fragment::Text("<s>".to_owned()),
            Fragment::Token(3),
            Fragment::Text("<|end|>".to_owned()),
            Fragment::Token(2),
        ];
        let prompt = format!("<s>{text}<|end|>");
        assert_eq!(special.split_marked(&prompt, &marks), expected);
    }
}
