//! Regular expressions: from ECMAScript's syntax, which JSON Schema uses, to that of Rust's crate `regex`.
//!
//! The same characters mean different things in both: `.` and `\s` match other characters, `\d` and `\w` are ASCII
//! in ECMAScript, and `[a&&b]` is an intersection in Rust.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

/// What `\d`, `\w` and `\s` match, as the inside of a class. ECMA-262, 22.2.2.9 and 12.2.
const DIGITS: &str = "0-9";
const WORDS: &str = "0-9A-Za-z_";
const SPACES: &str =
    r"\t-\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";

/// What `.` does not match.
const LINE_ENDS: &str = r"\n\r\u{2028}\u{2029}";

/// The longest pattern, in bytes.
const MAX_BYTES: usize = 8 << 10;

/// The largest number of repetitions.
const MAX_REPETITIONS: u32 = 1 << 16;

/// Rewrites a pattern. An error says as the rest of a sentence what is wrong with it.
pub(super) fn rewrite(pattern: &str) -> Result<String, String> {
    if pattern.len() > MAX_BYTES {
        return Err(format!("has more than {MAX_BYTES} bytes"));
    }
    let mut rewriter = Rewriter {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len() + 16),
    };
    rewriter.pattern()?;
    Ok(rewriter.out)
}

struct Rewriter<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
}

/// A part of a class.
enum ClassAtom {
    Character(char),
    /// The inside of a class, negated or not.
    Class(&'static str, bool),
    /// A class by property, such as `\p{L}`.
    Property(String),
}

impl Rewriter<'_> {
    fn pattern(&mut self) -> Result<(), String> {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => match self.escape(false)? {
                    ClassAtom::Character(character) => push_character(&mut self.out, character),
                    ClassAtom::Class(class, negated) => self.push_class(class, negated),
                    ClassAtom::Property(property) => self.out.push_str(&property),
                },
                '.' => self.push_class(LINE_ENDS, true),
                '[' => self.class()?,
                '(' => self.group()?,
                '{' => self.repetition()?,
                '^' | '$' | '|' | ')' | '*' | '+' | '?' => self.out.push(character),
                character => push_character(&mut self.out, character),
            }
        }
        Ok(())
    }

    fn push_class(&mut self, class: &str, negated: bool) {
        let negation = if negated { "^" } else { "" };
        let _ = write!(self.out, "[{negation}{class}]");
    }

    /// Begins a group. None captures, because captures mean other things to `llguidance`.
    fn group(&mut self) -> Result<(), String> {
        self.out.push_str("(?:");
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.rest.next() {
            Some(':') => Ok(()),
            Some('<') if !matches!(self.rest.peek(), Some('=' | '!')) => {
                let name = self.rest.by_ref().take_while(|character| *character != '>');
                match name.count() {
                    0 => Err("has a group without a name".into()),
                    _ => Ok(()),
                }
            }
            Some('=' | '!' | '<') => Err("looks ahead or behind, which is not supported".into()),
            _ => Err("has a group with flags, which are not supported".into()),
        }
    }

    /// Reads what follows `{`, which is a character unless it is a repetition.
    fn repetition(&mut self) -> Result<(), String> {
        let text: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let mut numbers = text.splitn(2, ',');
        let (from, to) = (numbers.next().unwrap_or_default(), numbers.next());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_closed = self.rest.clone().nth(text.chars().count()) == Some('}');
        if !is_closed || !is_number(from) || !to.is_none_or(|to| to.is_empty() || is_number(to)) {
            self.out.push_str("\\{");
            return Ok(());
        }
        let fits = |text: &str| {
            text.parse()
                .is_ok_and(|number: u32| number <= MAX_REPETITIONS)
        };
        if !fits(from) || !to.is_none_or(|to| to.is_empty() || fits(to)) {
            return Err(format!("repeats more than {MAX_REPETITIONS} times"));
        }
        let _ = write!(self.out, "{{{text}}}");
        self.rest.nth(text.chars().count());
        Ok(())
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, in_class: bool) -> Result<ClassAtom, String> {
        let escaped = self.rest.next().ok_or("ends with a backslash")?;
        let character = match escaped {
            'd' | 'D' => return Ok(ClassAtom::Class(DIGITS, escaped == 'D')),
            'w' | 'W' => return Ok(ClassAtom::Class(WORDS, escaped == 'W')),
            's' | 'S' => return Ok(ClassAtom::Class(SPACES, escaped == 'S')),
            'p' | 'P' => return self.property(escaped),
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'b' if in_class => '\u{8}',
            'b' | 'B' => return Err("has a boundary of words, which is not supported".into()),
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => '\0',
            '0'..='9' | 'k' => return Err("refers to a group, which is not supported".into()),
            'c' => match self.rest.next() {
                Some(letter) if letter.is_ascii_alphabetic() => char::from(letter as u8 % 32),
                _ => return Err("has `\\c` without a letter".into()),
            },
            'x' => character(self.digits(2)?)?,
            'u' => self.unicode()?,
            letter if letter.is_ascii_alphabetic() => {
                return Err(format!("has the unknown escape `\\{letter}`"));
            }
            character => character,
        };
        Ok(ClassAtom::Character(character))
    }

    /// Reads `{…}` after `\p`.
    fn property(&mut self, escaped: char) -> Result<ClassAtom, String> {
        let problem = || format!("has `\\{escaped}` without the name of a property");
        self.rest.next_if_eq(&'{').ok_or_else(problem)?;
        let name: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '=';
        match !name.is_empty() && name.chars().all(is_name) {
            true => Ok(ClassAtom::Property(format!("\\{escaped}{{{name}}}"))),
            false => Err(problem()),
        }
    }

    fn digits(&mut self, count: usize) -> Result<u32, String> {
        let mut number = 0;
        for _ in 0..count {
            let digit = self.rest.next().and_then(|c| c.to_digit(16));
            number = number * 16 + digit.ok_or("has an escape with too few digits")?;
        }
        Ok(number)
    }

    /// Reads what follows `\u`.
    fn unicode(&mut self) -> Result<char, String> {
        if self.rest.next_if_eq(&'{').is_some() {
            let digits: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
            let number = u32::from_str_radix(&digits, 16);
            return character(number.map_err(|_| "has an escape with wrong digits")?);
        }
        let unit = self.digits(4)?;
        if !(0xd800..0xdc00).contains(&unit) {
            return character(unit);
        }
        let is_pair = self.rest.next() == Some('\\') && self.rest.next() == Some('u');
        let low = if is_pair { self.digits(4)? } else { 0 };
        match (0xdc00..0xe000).contains(&low) {
            true => character(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)),
            false => Err("has a surrogate without its other half".into()),
        }
    }

    /// Reads what follows `[`.
    fn class(&mut self) -> Result<(), String> {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let start = self.out.len();
        self.out.push_str(if negated { "[^" } else { "[" });
        let mut is_empty = true;
        loop {
            let atom = match self.rest.next() {
                None => return Err("has a `[` without `]`".into()),
                Some(']') => break,
                Some('\\') => self.escape(true)?,
                Some(character) => ClassAtom::Character(character),
            };
            is_empty = false;
            match atom {
                ClassAtom::Character(from) => self.range(from)?,
                ClassAtom::Class(class, false) => self.out.push_str(class),
                ClassAtom::Class(class, true) => self.push_class(class, true),
                ClassAtom::Property(property) => self.out.push_str(&property),
            }
        }
        if is_empty {
            self.out.truncate(start);
            match negated {
                true => self.out.push_str("(?s:.)"),
                false => return Err("has a class without characters".into()),
            }
        } else {
            self.out.push(']');
        }
        Ok(())
    }

    /// Reads the rest of a range of a class, if there is one.
    fn range(&mut self, from: char) -> Result<(), String> {
        push_character(&mut self.out, from);
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && !matches!(ahead.next(), None | Some(']'));
        if !is_range {
            return Ok(());
        }
        self.rest.next();
        let to = match self.rest.next() {
            Some('\\') => self.escape(true)?,
            Some(character) => ClassAtom::Character(character),
            None => return Err("has a `[` without `]`".into()),
        };
        match to {
            ClassAtom::Character(to) if to < from => {
                Err("has a range that ends before it begins".into())
            }
            ClassAtom::Character(to) => {
                self.out.push('-');
                push_character(&mut self.out, to);
                Ok(())
            }
            _ => Err("has a range that ends with a class".into()),
        }
    }
}

fn character(number: u32) -> Result<char, String> {
    char::from_u32(number).ok_or_else(|| "has an escape that is no character".into())
}

/// Appends a character that stands for itself.
fn push_character(out: &mut String, character: char) {
    match character {
        character if character.is_alphanumeric() || character == ' ' || character == '_' => {
            out.push(character);
        }
        character => {
            let _ = write!(out, "\\x{{{:x}}}", u32::from(character));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_ecmascript() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], &[&str]); 14] = [
            ("^a.c$", &["abc", "a\u{85}c"], &["a\nc", "a\rc", "a\u{2028}c"]),
            (r"^\d\w\s$", &["1a ", "1_\u{feff}"], &["\u{663}a ", "1é ", "1a\u{85}"]),
            (r"^\D\W\S$", &["\u{663}é\u{85}"], &["1é-", "x_-"]),
            ("^[a&&b]$", &["a", "&", "b"], &["c"]),
            ("^[[a]$", &["[", "a"], &["b"]),
            (r"^[a\]-]$", &["a", "]", "-"], &["\\"]),
            (r"^[\d-x]$", &["1", "-", "x"], &["y"]),
            (r"^[^\s]{2,3}$", &["ab", "abc"], &["a", "a b"]),
            ("^a{,2}{$", &["a{,2}{"], &["aa"]),
            (r"^\u0041\x42\cA\u{1F600}\ud83d\ude00$", &["AB\u{1}😀😀"], &["AB"]),
            (r"^\/\-\.$", &["/-."], &["/--"]),
            ("^(?<year>a)(?:b)(c)$", &["abc"], &["ab"]),
            ("^[^]$", &["\n", "x"], &[""]),
            (r"^\p{Lu}\P{Lu}$", &["Aa"], &["aA"]),
        ];
        for (source, matching, others) in cases {
            let pattern = rewrite(source).unwrap();
            let regex = regex::Regex::new(&pattern).unwrap();
            for text in matching {
                assert!(regex.is_match(text), "{source} as {pattern}: {text:?}");
            }
            for text in others {
                assert!(!regex.is_match(text), "{source} as {pattern}: {text:?}");
            }
        }
    }

    #[test]
    fn what_is_not_supported_is_an_error() {
        #[rustfmt::skip]
        let wrong = [
            "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", r"(a)\1", r"\bx", r"\Bx", "(?i:a)", "(?P<x>a)", "[a", "[]", r"\q",
            r"\", r"\u12", r"\ud800", r"\p", "[z-a]", "a{99999}", r"\c1", r"[a-\d]",
        ];
        for pattern in wrong {
            assert!(rewrite(pattern).is_err(), "{pattern}");
        }
        assert!(rewrite(&"a".repeat(10_000)).is_err());
    }
}
