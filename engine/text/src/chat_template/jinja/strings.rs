//! Operations on strings that filters and methods share.

use std::rc::Rc;

use super::fault::{Fault, Result};
use super::meter::Meter;
use super::text::{Text, Writer};
use super::value::{ListBuilder, Value};

/// Which ends of a string are stripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    Both,
    Start,
    End,
}

/// Strips white space, or the given characters.
pub fn strip(meter: &Rc<Meter>, text: &str, characters: Option<&str>, ends: Ends) -> Result<Value> {
    let Some(characters) = characters else {
        meter.scan(text.len())?;
        return Value::text(
            meter,
            match ends {
                Ends::Both => text.trim(),
                Ends::Start => text.trim_start(),
                Ends::End => text.trim_end(),
            },
        );
    };
    // Each stripped character is looked for among the given ones.
    let mut found = Ok(());
    let mut is_stripped = |c: char| {
        if found.is_ok() {
            found = meter.scan(characters.len());
        }
        found.is_ok() && characters.contains(c)
    };
    let mut stripped = text;
    if ends != Ends::End {
        stripped = stripped.trim_start_matches(&mut is_stripped);
    }
    if ends != Ends::Start {
        stripped = stripped.trim_end_matches(&mut is_stripped);
    }
    found?;
    Value::text(meter, stripped)
}

/// Replaces a string in a text, at most `count` times.
pub fn replace(
    meter: &Rc<Meter>,
    text: &str,
    from: &str,
    to: &str,
    count: Option<usize>,
) -> Result<Value> {
    meter.scan(text.len() + from.len())?;
    let mut out = Writer::new(meter)?;
    let mut end = 0;
    for (start, found) in text.match_indices(from).take(count.unwrap_or(usize::MAX)) {
        out.push(&text[end..start])?;
        out.push(to)?;
        end = start + found.len();
    }
    out.push(&text[end..])?;
    Ok(Value::Text(out.finish()))
}

/// Splits a text at a separator or at white space, at most `count` times.
pub fn split(
    meter: &Rc<Meter>,
    text: &str,
    separator: Option<&str>,
    count: Option<usize>,
) -> Result<Value> {
    meter.scan(text.len())?;
    let limit = count.map_or(usize::MAX, |count| count.saturating_add(1));
    match separator {
        Some("") => Err(Fault::failed("a string cannot be split at an empty one")),
        Some(separator) => parts(meter, text.splitn(limit, separator)),
        None => parts(meter, SplitSpace { rest: text, limit }),
    }
}

/// Splits a text at white space from the left; the last part is what is left.
struct SplitSpace<'t> {
    rest: &'t str,
    limit: usize,
}

impl<'t> Iterator for SplitSpace<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let rest = self.rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        self.limit -= 1;
        let end = rest.find(char::is_whitespace).filter(|_| self.limit > 0);
        let (part, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = rest;
        Some(part)
    }
}

/// Splits a text at a separator, at most `count` times from the right.
pub fn split_right(
    meter: &Rc<Meter>,
    text: &str,
    separator: &str,
    count: Option<usize>,
) -> Result<Value> {
    meter.scan(text.len())?;
    if separator.is_empty() {
        return Err(Fault::failed("a string cannot be split at an empty one"));
    }
    let limit = count.map_or(usize::MAX, |count| count.saturating_add(1));
    let matches = text.rmatch_indices(separator).take(limit - 1);
    let mut starts: Vec<usize> = Vec::new();
    for (at, _) in matches {
        meter.steps(1)?;
        starts.push(at);
    }
    let mut list = ListBuilder::new(meter)?;
    let mut start = 0;
    for &end in starts.iter().rev() {
        list.push(Value::text(meter, &text[start..end])?)?;
        start = end + separator.len();
    }
    list.push(Value::text(meter, &text[start..])?)?;
    Ok(list.finish())
}

/// Returns parts of a text as a list.
pub fn parts<'t>(meter: &Rc<Meter>, parts: impl Iterator<Item = &'t str>) -> Result<Value> {
    let mut list = ListBuilder::new(meter)?;
    for part in parts {
        list.push(Value::text(meter, part)?)?;
    }
    Ok(list.finish())
}

/// Returns a text in upper case.
pub fn upper(meter: &Rc<Meter>, text: &str) -> Result<Value> {
    characters(meter, text, text.chars().flat_map(char::to_uppercase))
}

/// Returns a text in lower case.
pub fn lower(meter: &Rc<Meter>, text: &str) -> Result<Value> {
    meter.transform(text.len())?;
    // A final sigma depends on what is around it. Lower case is at most half longer.
    let mut out = Writer::new(meter)?;
    out.push(&text.to_lowercase())?;
    Ok(Value::Text(out.finish()))
}

/// Returns characters that were made from a text.
fn characters(
    meter: &Rc<Meter>,
    text: &str,
    characters: impl Iterator<Item = char>,
) -> Result<Value> {
    meter.transform(text.len())?;
    let mut out = Writer::new(meter)?;
    out.extend(characters)?;
    Ok(Value::Text(out.finish()))
}

/// Puts the first character in upper case and the others in lower case.
pub fn capitalize(meter: &Rc<Meter>, text: &str) -> Result<Value> {
    meter.transform(text.len())?;
    let mut rest = text.chars();
    let mut out = Writer::new(meter)?;
    if let Some(first) = rest.next() {
        out.extend(first.to_uppercase())?;
    }
    out.push(&rest.as_str().to_lowercase())?;
    Ok(Value::Text(out.finish()))
}

/// Puts the first character of each word in upper case and the others in lower case. `ends_word` is true for what stands
/// between words.
pub fn title(meter: &Rc<Meter>, text: &str, ends_word: fn(char) -> bool) -> Result<Value> {
    meter.transform(text.len())?;
    let mut out = Writer::new(meter)?;
    let mut begins = true;
    let mut word = String::new();
    for character in text.chars() {
        let ends_word = ends_word(character);
        if ends_word {
            word.push(character);
        } else if begins {
            word.extend(character.to_uppercase());
        } else {
            word.extend(character.to_lowercase());
        }
        begins = ends_word;
        if word.len() > 1 << 10 {
            out.push(&word)?;
            word.clear();
        }
    }
    out.push(&word)?;
    Ok(Value::Text(out.finish()))
}

/// Adds white space, or the given text, at an end or at both until a text has so many characters.
pub fn justify(
    meter: &Rc<Meter>,
    text: &str,
    width: usize,
    fill: &str,
    ends: Ends,
) -> Result<Value> {
    meter.scan(text.len())?;
    let missing = width.saturating_sub(text.chars().count());
    let before = match ends {
        // As Python does it.
        Ends::Both => missing / 2 + (missing & width & 1),
        Ends::Start => missing,
        Ends::End => 0,
    };
    let mut out = Writer::new(meter)?;
    out.repeat(fill, before)?;
    out.push(text)?;
    out.repeat(fill, missing - before)?;
    Ok(Value::Text(out.finish()))
}

/// Returns the first characters of a text.
pub fn first(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count);
    end.map_or(text, |(at, _)| &text[..at])
}

/// How a text is indented.
#[derive(Debug)]
pub struct Indentation<'i> {
    pub with: &'i str,
    pub count: usize,
    pub first_line: bool,
    pub blank_lines: bool,
}

/// Indents the lines of a text. As in Jinja2, lines end with `\n` in the result, and a first line is indented also if it is
/// empty.
pub fn indent(meter: &Rc<Meter>, text: &str, indentation: &Indentation<'_>) -> Result<Value> {
    let mut out = Writer::new(meter)?;
    for (index, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if index > 0 {
            out.push("\n")?;
        }
        let is_indented = match index {
            0 => indentation.first_line,
            _ => !line.is_empty() || indentation.blank_lines,
        };
        if is_indented {
            out.repeat(indentation.with, indentation.count)?;
        }
        out.push(line)?;
    }
    Ok(Value::Text(out.finish()))
}

/// Escapes what has a meaning in HTML.
pub fn escape(meter: &Rc<Meter>, text: &str) -> Result<Text> {
    let mut out = Writer::new(meter)?;
    let mut plain = 0;
    for (at, character) in text.char_indices() {
        let escape = match character {
            '<' => "&lt;",
            '>' => "&gt;",
            '&' => "&amp;",
            '"' => "&#34;",
            '\'' => "&#39;",
            _ => continue,
        };
        out.push(&text[plain..at])?;
        out.push(escape)?;
        plain = at + 1;
    }
    out.push(&text[plain..])?;
    Ok(out.finish())
}
