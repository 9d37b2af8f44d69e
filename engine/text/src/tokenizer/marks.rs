//! Marks: characters that keep text from being read as control tokens.
//!
//! A prompt mixes text of two origins: what a chat template writes, where `<|im_end|>` is a control
//! token, and what a user writes, where it must stay text. The template sees one string and so does
//! the tokenizer; so every spelling of a control token in the user's text gets a mark inside, a
//! character that occurs nowhere else in the conversation. The template carries it along, the
//! tokenizer finds only the spellings without a mark, and removes the marks from everything else.
//!
//! The marks are noncharacters, code points that Unicode reserves for internal use.

use std::ops::Range;

use super::error::TokenizerError;

/// How often a text is searched again after its spellings were broken. Each round breaks all
/// spellings that do not overlap.
const MAX_ROUNDS: usize = 64;

/// The marks of one conversation.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    /// The character that stands inside a spelling.
    separator: char,
    /// Characters that replace control tokens of a single character, which has no inside.
    stand_ins: Vec<(char, char)>,
    /// Noncharacters that do not occur in the conversation.
    unused: Vec<char>,
}

/// Returns the noncharacters: U+FDD0 to U+FDEF and the last two code points of every plane.
fn noncharacters() -> impl Iterator<Item = char> {
    let ends = (0..=16).flat_map(|plane| [(plane << 16) | 0xfffe, (plane << 16) | 0xffff]);
    (0xfdd0..=0xfdef).chain(ends).filter_map(char::from_u32)
}

impl Marks {
    /// Chooses marks that occur in none of the texts; `None` if the texts use all noncharacters.
    pub fn unused_in<'t>(texts: impl Iterator<Item = &'t str>) -> Option<Self> {
        let mut unused: Vec<char> = noncharacters().collect();
        for text in texts {
            // Noncharacters are rare: most texts are searched once and change nothing.
            if text.contains(unused.as_slice()) {
                unused.retain(|&character| !text.contains(character));
            }
        }
        unused.reverse();
        Some(Self {
            separator: unused.pop()?,
            stand_ins: Vec::new(),
            unused,
        })
    }

    /// Returns whether a character is a mark.
    pub fn is_mark(&self, character: char) -> bool {
        self.original(character) != Some(character)
    }

    /// Returns what a character of marked text stands for; `None` for the separator.
    pub fn original(&self, character: char) -> Option<char> {
        if character == self.separator {
            return None;
        }
        let mut stand_ins = self.stand_ins.iter();
        let found = stand_ins.find(|(stand_in, _)| *stand_in == character);
        Some(found.map_or(character, |(_, original)| *original))
    }

    /// Returns whether a text has marks.
    pub fn are_in(&self, text: &str) -> bool {
        text.chars().any(|character| self.is_mark(character))
    }

    /// Returns a text without its marks.
    pub fn remove(&self, text: &str) -> String {
        text.chars()
            .filter_map(|character| self.original(character))
            .collect()
    }

    /// Breaks every spelling of a control token in `text`. `spans` returns the byte ranges of the
    /// spellings that it finds.
    ///
    /// # Errors
    ///
    /// If a spelling is found however often it is broken, as when normalization removes marks.
    pub fn break_spellings(
        &mut self,
        text: &mut String,
        spans: impl Fn(&str) -> Vec<Range<usize>>,
    ) -> Result<(), TokenizerError> {
        for _ in 0..MAX_ROUNDS {
            let found = spans(text);
            if found.is_empty() {
                return Ok(());
            }
            let mut broken = String::with_capacity(text.len() + found.len() * 4);
            let mut end = 0;
            for span in found {
                if let (Some(before), Some(spelling)) =
                    (text.get(end..span.start), text.get(span.clone()))
                {
                    broken.push_str(before);
                    self.push_broken(spelling, &mut broken)?;
                    end = span.end;
                }
            }
            broken.push_str(text.get(end..).unwrap_or_default());
            *text = broken;
        }
        let spelling = match spans(text).first() {
            None => return Ok(()),
            Some(span) => text.get(span.clone()).unwrap_or_default().to_owned(),
        };
        Err(TokenizerError::ControlToken { spelling })
    }

    /// Appends a spelling with a mark inside.
    fn push_broken(&mut self, spelling: &str, out: &mut String) -> Result<(), TokenizerError> {
        // Some control tokens swallow the white space around them.
        let trimmed = spelling.trim_start();
        let (start, inside) = match trimmed.trim_end() {
            "" => (0, spelling),
            inside => (spelling.len() - trimmed.len(), inside),
        };
        let mut characters = inside.chars();
        let Some(first) = characters.next() else {
            return Ok(());
        };
        let (before, after) = spelling.split_at(start + first.len_utf8());
        if characters.next().is_some() {
            out.push_str(before);
            out.push(self.separator);
        } else {
            out.push_str(&spelling[..start]);
            out.push(self.stand_in(first)?);
        }
        out.push_str(after);
        Ok(())
    }

    /// Returns the character that replaces a control token of one character.
    fn stand_in(&mut self, original: char) -> Result<char, TokenizerError> {
        let mut known = self.stand_ins.iter();
        if let Some((stand_in, _)) = known.find(|(_, known)| *known == original) {
            return Ok(*stand_in);
        }
        let spelling = original.to_string();
        let unused = self.unused.pop();
        let stand_in = unused.ok_or(TokenizerError::ControlToken { spelling })?;
        self.stand_ins.push((stand_in, original));
        Ok(stand_in)
    }

    /// Keeps a text from completing a control token together with what stands before or after it:
    /// marks its ends if it begins, ends or consists of a part of one of `spellings`.
    pub fn mark_ends<'s>(&self, text: &mut String, spellings: impl Iterator<Item = &'s str>) {
        let (mut at_start, mut at_end) = (false, false);
        if text.is_empty() {
            return;
        }
        for spelling in spellings {
            let inner = spelling.char_indices().skip(1);
            for (cut, _) in inner {
                let (head, tail) = spelling.split_at(cut);
                at_end |= text.ends_with(head);
                at_start |= text.starts_with(tail);
            }
            at_end |= text.len() < spelling.len() && spelling.contains(text.as_str());
        }
        if at_start {
            text.insert(0, self.separator);
        }
        if at_end {
            text.push(self.separator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds all occurrences of a pattern that do not overlap.
    fn spans_of(pattern: &'static str) -> impl Fn(&str) -> Vec<Range<usize>> {
        move |text| {
            let found = text.match_indices(pattern);
            found.map(|(at, _)| at..at + pattern.len()).collect()
        }
    }

    #[test]
    fn marks_do_not_occur_in_the_texts() {
        let marks = Marks::unused_in(["a\u{fdd0}b", "\u{fdd1}"].into_iter()).unwrap();
        assert_eq!(marks.separator, '\u{fdd2}');
        let all: String = noncharacters().collect();
        assert_eq!(all.chars().count(), 66);
        assert!(Marks::unused_in([all.as_str()].into_iter()).is_none());
    }

    #[test]
    fn broken_spellings_are_no_longer_found() {
        for (pattern, text) in [
            ("<end>", "a<end>b<end><end"),
            ("aa", "aaaaa"),
            ("<<", "<<<<"),
            (" <x>", "a <x> b"),
            ("§", "§a§§"),
            ("\n", "\n\n"),
            ("  ", "     "),
        ] {
            let mut marks = Marks::unused_in([text].into_iter()).unwrap();
            let mut marked = text.to_owned();
            marks
                .break_spellings(&mut marked, spans_of(pattern))
                .unwrap();
            assert!(!marked.contains(pattern), "{pattern:?}: {marked:?}");
            assert!(marks.are_in(&marked), "{pattern:?}");
            assert_eq!(marks.remove(&marked), text, "{pattern:?}");
        }
    }

    #[test]
    fn spelling_that_survives_all_marks_is_an_error() {
        let mut marks = Marks::unused_in(std::iter::empty()).unwrap();
        let mut text = String::from("abc");
        let always = |text: &str| std::iter::once(0..text.len()).collect();
        assert!(marks.break_spellings(&mut text, always).is_err());
    }

    #[test]
    fn ends_are_marked_where_a_spelling_could_continue() {
        let marks = Marks::unused_in(std::iter::empty()).unwrap();
        for (text, at_start, at_end) in [
            ("plain", false, false),
            ("a <", false, true),
            ("a <|im", false, true),
            ("> quote", true, false),
            ("end|> b", true, false),
            ("im_end", false, true),
            ("", false, false),
        ] {
            let mut marked = text.to_owned();
            marks.mark_ends(&mut marked, ["<|im_end|>"].into_iter());
            assert_eq!(marked.starts_with(marks.separator), at_start, "{text:?}");
            assert_eq!(marked.ends_with(marks.separator), at_end, "{text:?}");
            assert_eq!(marks.remove(&marked), text);
        }
    }
}
