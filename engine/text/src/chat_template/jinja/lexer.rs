//! Splits a template into tokens.
//!
//! The environment is that of `transformers`: `trim_blocks` (a newline after a block is dropped),
//! `lstrip_blocks` (spaces between a line's start and a block are dropped), and the signs `-` and `+`.

use super::fault::{Fault, Result};

#[derive(Debug, Clone, PartialEq)]
pub enum Token<'s> {
    /// Text outside of tags.
    Text(&'s str),
    /// `{{`
    EmitStart,
    /// `}}`
    EmitEnd,
    /// `{%`
    BlockStart,
    /// `%}`
    BlockEnd,
    Name(&'s str),
    String(String),
    Int(i128),
    Float(f64),
    /// An operator or bracket.
    Symbol(&'static str),
}

/// A token and its line.
pub type Located<'s> = (Token<'s>, u32);

/// The operators and brackets; a longer one stands before its beginning.
const SYMBOLS: [&str; 24] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[",
    "]", "{", "}", ",", ".", ":",
];

/// Splits a source into tokens.
pub fn tokens(source: &str) -> Result<Vec<Located<'_>>> {
    let source = source.strip_suffix('\n').unwrap_or(source);
    let mut lexer = Lexer {
        source,
        position: 0,
        line: 1,
        tokens: Vec::new(),
    };
    lexer.template()?;
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    position: usize,
    line: u32,
    tokens: Vec<Located<'s>>,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    fn advance(&mut self, bytes: usize) -> &'s str {
        let passed = &self.rest()[..bytes];
        let newlines = passed.bytes().filter(|&byte| byte == b'\n').count();
        self.line += u32::try_from(newlines).unwrap_or(u32::MAX);
        self.position += bytes;
        passed
    }

    fn push(&mut self, token: Token<'s>) {
        self.tokens.push((token, self.line));
    }

    fn error<T>(&self, message: &str) -> Result<T> {
        Err(Fault::syntax(message, self.line))
    }

    fn template(&mut self) -> Result<()> {
        while !self.rest().is_empty() {
            let rest = self.rest();
            let Some(start) = tag_start(rest) else {
                self.text(rest.len(), rest);
                break;
            };
            let kind = rest.as_bytes()[start + 1];
            let sign = rest.as_bytes().get(start + 2).copied();
            let before = &rest[..start];
            let kept = match sign {
                Some(b'-') => before.trim_end(),
                Some(b'+') => before,
                _ if kind != b'{' => self.without_indentation(before),
                _ => before,
            };
            self.text(start, kept);
            let signed = matches!(sign, Some(b'-' | b'+'));
            self.tag(kind, 2 + usize::from(signed))?;
        }
        Ok(())
    }

    fn text(&mut self, length: usize, kept: &'s str) {
        if !kept.is_empty() {
            self.push(Token::Text(kept));
        }
        self.advance(length);
    }

    /// Drops the spaces at the end of a text if nothing else is before them in their line.
    fn without_indentation(&self, before: &'s str) -> &'s str {
        let kept =
            before.trim_end_matches(|c: char| c.is_whitespace() && !matches!(c, '\r' | '\n'));
        let at_line_start = match kept.chars().next_back() {
            Some(last) => last == '\n',
            None => self.source[..self.position]
                .chars()
                .next_back()
                .is_none_or(|last| matches!(last, '\r' | '\n')),
        };
        if at_line_start { kept } else { before }
    }

    /// Reads a tag that begins here; `opening` is the length of its delimiter and sign.
    fn tag(&mut self, kind: u8, opening: usize) -> Result<()> {
        match kind {
            b'#' => {
                let Some(end) = self.rest()[opening..].find("#}") else {
                    return self.error("a comment does not end");
                };
                let sign = end
                    .checked_sub(1)
                    .map(|last| self.rest().as_bytes()[opening + last]);
                self.advance(opening + end + 2);
                self.after_tag(sign);
                Ok(())
            }
            b'%' => match end_of_named_tag(&self.rest()[opening..], "raw") {
                Some((length, sign)) => {
                    self.advance(opening + length);
                    self.raw(sign)
                }
                None => {
                    self.push(Token::BlockStart);
                    self.advance(opening);
                    self.expression("%}", Token::BlockEnd)
                }
            },
            _ => {
                self.push(Token::EmitStart);
                self.advance(opening);
                self.expression("}}", Token::EmitEnd)
            }
        }
    }

    /// Reads the contents of `{% raw %}`.
    fn raw(&mut self, sign: Option<u8>) -> Result<()> {
        self.after_tag(sign);
        let rest = self.rest();
        let mut from = 0;
        while let Some(start) = rest[from..].find("{%").map(|start| from + start) {
            let after = &rest[start + 2..];
            let before_sign = after
                .bytes()
                .next()
                .filter(|byte| matches!(byte, b'-' | b'+'));
            let name = &after[usize::from(before_sign.is_some())..];
            if let Some((length, sign)) = end_of_named_tag(name, "endraw") {
                let text = &rest[..start];
                let kept = match before_sign {
                    Some(b'-') => text.trim_end(),
                    Some(_) => text,
                    None => self.without_indentation(text),
                };
                self.text(start, kept);
                self.advance(2 + usize::from(before_sign.is_some()) + length);
                self.after_tag(sign);
                return Ok(());
            }
            from = start + 2;
        }
        self.error("a raw block does not end")
    }

    /// Drops the space after a block or comment.
    fn after_tag(&mut self, sign: Option<u8>) {
        let rest = self.rest();
        let dropped = match sign {
            Some(b'-') => rest.len() - rest.trim_start().len(),
            Some(b'+') => 0,
            _ => {
                let carriage_return = usize::from(rest.starts_with('\r'));
                carriage_return + usize::from(rest[carriage_return..].starts_with('\n'))
            }
        };
        self.advance(dropped);
    }

    /// Reads tokens up to the end of a tag, which a brace that is open does not end.
    fn expression(&mut self, end: &'static str, end_token: Token<'s>) -> Result<()> {
        let mut open = 0_usize;
        loop {
            let spaces = self.rest().len() - self.rest().trim_start().len();
            self.advance(spaces);
            let rest = self.rest();
            let sign = rest
                .bytes()
                .next()
                .filter(|byte| matches!(byte, b'-' | b'+'));
            let unsigned = &rest[usize::from(sign.is_some())..];
            if unsigned.starts_with(end) && (open == 0 || sign.is_some()) {
                self.push(end_token.clone());
                self.advance(usize::from(sign.is_some()) + end.len());
                // Only a sign drops the newline after `}}`.
                if end == "%}" || sign == Some(b'-') {
                    self.after_tag(sign);
                }
                return Ok(());
            }
            let Some(first) = rest.chars().next() else {
                return self.error("a tag does not end");
            };
            match first {
                '\'' | '"' => self.string(first)?,
                '0'..='9' => self.number()?,
                'a'..='z' | 'A'..='Z' | '_' => {
                    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    self.push(Token::Name(&rest[..length.unwrap_or(rest.len())]));
                    self.advance(length.unwrap_or(rest.len()));
                }
                '|' => self.symbol("|"),
                _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                    Some(symbol) => {
                        match *symbol {
                            "(" | "[" | "{" => open += 1,
                            ")" | "]" | "}" => open = open.saturating_sub(1),
                            _ => {}
                        }
                        self.symbol(symbol);
                    }
                    None => return self.error(&format!("unexpected character {first:?}")),
                },
            }
        }
    }

    fn symbol(&mut self, symbol: &'static str) {
        self.push(Token::Symbol(symbol));
        self.advance(symbol.len());
    }

    fn string(&mut self, quote: char) -> Result<()> {
        let mut escaped = false;
        let end = self.rest()[1..].find(|c| {
            let ends = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return self.error("a string does not end");
        };
        let text = unescape(&self.rest()[1..=end]);
        self.push(Token::String(text));
        self.advance(end + 2);
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        let rest = self.rest();
        let radix = match rest.get(..2).unwrap_or_default() {
            "0x" | "0X" => 16,
            "0o" | "0O" => 8,
            "0b" | "0B" => 2,
            _ => 10,
        };
        let digits = |text: &str| {
            let end = text.find(|c: char| c != '_' && !c.is_digit(radix));
            end.unwrap_or(text.len())
        };
        let plain = |text: &str| text.replace('_', "");
        if radix != 10 {
            let length = digits(&rest[2..]);
            let Ok(int) = i128::from_str_radix(&plain(&rest[2..2 + length]), radix) else {
                return self.error("not a number");
            };
            self.push(Token::Int(int));
            self.advance(2 + length);
            return Ok(());
        }
        let after_dot = self.source[..self.position].ends_with('.');
        let mut length = digits(rest);
        let mut is_float = false;
        let fraction = rest[length..].strip_prefix('.');
        if let Some(fraction) = fraction.filter(|fraction| {
            !after_dot && !fraction.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        }) {
            is_float = true;
            length += 1 + digits(fraction);
        }
        if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let exponent = digits(&exponent[sign..]);
            if exponent > 0 {
                is_float = true;
                length += 1 + sign + exponent;
            }
        }
        let text = plain(&rest[..length]);
        let token = match is_float {
            true => text.parse().ok().map(Token::Float),
            false => text.parse().ok().map(Token::Int),
        };
        let Some(token) = token else {
            return self.error("a number is too large");
        };
        self.push(token);
        self.advance(length);
        Ok(())
    }
}

/// Returns where the next tag or comment begins.
fn tag_start(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let next = |&at: &usize| matches!(bytes.get(at + 1), Some(b'{' | b'%' | b'#'));
    text.match_indices('{').map(|(at, _)| at).find(next)
}

/// Returns the length and the last sign of a tag that has only a name, given what follows `{%`.
fn end_of_named_tag(text: &str, name: &str) -> Option<(usize, Option<u8>)> {
    let rest = text.trim_start().strip_prefix(name)?.trim_start();
    let sign = rest
        .bytes()
        .next()
        .filter(|byte| matches!(byte, b'-' | b'+'));
    let rest = rest[usize::from(sign.is_some())..].strip_prefix("%}")?;
    Some((text.len() - rest.len(), sign))
}

/// Replaces the escapes of a string. An unknown one stays, as in Python.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let mut characters = after.chars();
        let simple = match characters.next() {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('v') => Some('\u{b}'),
            Some('a') => Some('\u{7}'),
            Some(c @ ('\\' | '\'' | '"')) => Some(c),
            _ => None,
        };
        if let Some(character) = simple {
            out.push(character);
            rest = characters.as_str();
        } else if let Some((character, length)) =
            unescape_octal(after).or_else(|| unescape_hex(after))
        {
            out.push(character);
            rest = &after[length..];
        } else if let Some(after) = after.strip_prefix('\n') {
            rest = after;
        } else {
            out.push('\\');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Returns the character of one to three octal digits, and their number.
fn unescape_octal(text: &str) -> Option<(char, usize)> {
    let is_octal = |digit: &u8| (b'0'..=b'7').contains(digit);
    let length = text.bytes().take(3).take_while(is_octal).count();
    let code = u32::from_str_radix(&text[..length], 8).ok()?;
    Some((char::from_u32(code)?, length))
}

/// Returns the character of `xHH`, `uHHHH` (or two that are surrogates) or `UHHHHHHHH`, and the length.
fn unescape_hex(text: &str) -> Option<(char, usize)> {
    let digits = match text.bytes().next()? {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => return None,
    };
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let code = hex(text.get(1..=digits)?)?;
    if let Some(character) = char::from_u32(code) {
        return Some((character, 1 + digits));
    }
    let low = hex(text.get(1 + digits..)?.strip_prefix("\\u")?.get(..4)?)?;
    let pair = [u16::try_from(code).ok()?, u16::try_from(low).ok()?];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((character, 11))
}
