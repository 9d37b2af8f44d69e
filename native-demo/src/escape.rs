//! Makes text from files, models, hubs and errors safe to show: escape sequences could rewrite the terminal,
//! and bidirectional overrides could disguise a name.

use std::{borrow::Cow, fmt::Write};

/// Escapes control characters, such as `\u{1b}`, except line breaks and tabs.
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes control characters, line breaks and tabs included, for a name or another part of a line.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Escapes control characters of a JSON text that JSON permits in strings: DEL, C1 and bidirectional overrides.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_control(c) {
            // Writing to a `String` cannot fail. All of them have four digits.
            true => _ = write!(escaped, "\\u{:04x}", u32::from(c)),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Returns whether a terminal may act on a character instead of showing it.
fn is_control(c: char) -> bool {
    // The control characters C0, DEL and C1; embeddings, overrides and isolates of bidirectional text.
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_control(c) && !is_kept(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // A line break of Windows.
            '\r' if is_kept('\n') && rest.peek() == Some(&'\n') => {}
            // Writing to a `String` cannot fail.
            c if is_escaped(c) => _ = write!(escaped, "{}", c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_text_is_not() {
        for (given, expected) in [
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\u{9b}31mb\u{7f}", "a\\u{9b}31mb\\u{7f}"),
            ("\u{202e}fgg.x\u{2066}", "\\u{202e}fgg.x\\u{2066}"),
            ("over\rwrite", "over\\u{d}write"),
            ("one\r\ntwo\tthree\n", "one\ntwo\tthree\n"),
        ] {
            assert_eq!(text(given), expected);
        }
        for plain in [
            "",
            "naïve 日本語 🦀\n\t",
            "שלום\u{200f}",
            "a\u{301}\u{200d}",
        ] {
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain));
        }
        assert_eq!(
            json("[\"a\u{7f}\u{9b}\u{202e}b\"]"),
            r#"["a\u007f\u009b\u202eb"]"#
        );
        assert_eq!(line("a\nb\tc\r\n"), "a\\u{a}b\\u{9}c\\u{d}\\u{a}");
    }
}
