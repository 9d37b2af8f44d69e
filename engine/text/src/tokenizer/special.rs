//! Cuts text at the tokens that are matched before anything else.

use aho_corasick::{AhoCorasick, MatchKind};

use super::error::TokenizerError;
use super::vocabulary::{TokenKind, Vocabulary};

/// A piece of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Fragment<'t> {
    /// Text to be tokenised.
    Text(&'t str),
    /// A token already found.
    Token(u32),
}

/// Finds added tokens in text, the leftmost and then the longest first.
///
/// llama.cpp looks for the longest token in the whole text first; the two differ only where two
/// added tokens overlap in a text without containing each other. Hugging Face does it as here.
#[derive(Debug)]
pub struct SpecialTokens {
    /// With control tokens, and without: only user-defined ones.
    all: Matcher,
    user_defined: Matcher,
}

#[derive(Debug)]
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

/// Which white space a special token swallows; GGUF does not carry it, so it goes by model name.
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
    /// Collects the added tokens of a vocabulary.
    pub fn new(vocabulary: &Vocabulary, stripping: Stripping) -> Result<Self, TokenizerError> {
        let matcher = |wanted: fn(TokenKind) -> bool| {
            let tokens = vocabulary.iter().filter(|(_, _, kind)| wanted(*kind));
            Matcher::new(tokens.map(|(id, text, _)| (id, text)), stripping)
        };
        Ok(Self {
            all: matcher(|kind| {
                matches!(
                    kind,
                    TokenKind::Control | TokenKind::UserDefined | TokenKind::Unknown
                )
            })?,
            user_defined: matcher(|kind| kind == TokenKind::UserDefined)?,
        })
    }

    /// Cuts `text`; control tokens count only with `parse_special`.
    pub fn split<'t>(&self, text: &'t str, parse_special: bool) -> Vec<Fragment<'t>> {
        let matcher = if parse_special {
            &self.all
        } else {
            &self.user_defined
        };
        matcher.split(text)
    }
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

    fn split<'t>(&self, text: &'t str) -> Vec<Fragment<'t>> {
        let mut fragments = Vec::new();
        let mut start = 0;
        let found = self.automaton.iter().flat_map(|a| a.find_iter(text));
        for found in found {
            // `None` when the token begins in white space that the one before it swallowed.
            let Some(before) = text.get(start..found.start()) else {
                continue;
            };
            // The pattern index comes from the automaton that was built over `tokens`.
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

fn push_text<'t>(text: &'t str, fragments: &mut Vec<Fragment<'t>>) {
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

    fn vocabulary() -> Vocabulary {
        use TokenKind::{Control, Normal, UserDefined};
        let tokens = [
            ("a", Normal),
            ("<s>", Control),
            ("<|end|>", Control),
            ("  ", UserDefined),
            ("    ", UserDefined),
        ];
        let texts: Vec<String> = tokens.iter().map(|(text, _)| text.to_string()).collect();
        Vocabulary::new(&texts, tokens.map(|(_, kind)| kind).to_vec()).unwrap()
    }

    #[test]
    fn control_tokens_are_text_unless_asked_for() {
        let special = SpecialTokens::new(&vocabulary(), Stripping::None).unwrap();
        assert_eq!(special.split("<s>a", false), [Fragment::Text("<s>a")]);
        assert_eq!(
            special.split("<s>a", true),
            [Fragment::Token(1), Fragment::Text("a")]
        );
    }

    #[test]
    fn user_defined_tokens_always_match_the_longest_first() {
        let special = SpecialTokens::new(&vocabulary(), Stripping::None).unwrap();
        let expected = [
            Fragment::Text("a"),
            Fragment::Token(4),
            Fragment::Token(3),
            Fragment::Text(" b"),
        ];
        assert_eq!(special.split("a       b", false), expected);
    }

    #[test]
    fn phi3_swallows_the_space_after_a_token() {
        let special = SpecialTokens::new(&vocabulary(), Stripping::Phi3).unwrap();
        let expected = [
            Fragment::Token(1),
            Fragment::Text(" a"),
            Fragment::Token(2),
            Fragment::Text("b"),
        ];
        assert_eq!(special.split("<s> a<|end|> \n  b", true), expected);
    }
}
