//! Values as Python and JSON write them.

use serde_json::{Map, Number, Value};

/// The deepest nesting of a value.
const MAX_DEPTH: usize = 64;

/// What stands for a character behind a backslash.
const ESCAPES: [(char, char); 9] = [
    ('n', '\n'),
    ('r', '\r'),
    ('t', '\t'),
    ('b', '\x08'),
    ('f', '\x0c'),
    ('\\', '\\'),
    ('\'', '\''),
    ('"', '"'),
    ('/', '/'),
];

/// Returns the value of a literal of Python or JSON; `None` if the text is none.
pub(super) fn parse(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let mut parser = Parser { rest: text };
    let value = parser.value(0)?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn eat(&mut self, character: char) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.eat('[') {
            return self.items(']', depth).map(Value::Array);
        }
        if self.eat('(') {
            return self.items(')', depth).map(Value::Array);
        }
        if self.eat('{') {
            return self.entries(depth).map(Value::Object);
        }
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            quote @ ('"' | '\'') => self.string(quote).map(Value::String),
            _ => self.scalar(),
        }
    }

    fn items(&mut self, end: char, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            if self.eat(end) {
                return Some(items);
            }
            items.push(self.value(depth + 1)?);
            if !self.eat(',') {
                return self.eat(end).then_some(items);
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let mut entries = Map::new();
        loop {
            if self.eat('}') {
                return Some(entries);
            }
            let Value::String(key) = self.value(depth + 1)? else {
                return None;
            };
            if !self.eat(':') {
                return None;
            }
            entries.insert(key, self.value(depth + 1)?);
            if !self.eat(',') {
                return self.eat('}').then_some(entries);
            }
        }
    }

    fn string(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            if character == quote {
                self.rest = &self.rest[at + 1..];
                return Some(text);
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let digits = match characters.next()?.1 {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                escape => {
                    match ESCAPES.iter().find(|(letter, _)| *letter == escape) {
                        Some((_, meant)) => text.push(*meant),
                        // As in Python, the backslash stays.
                        None => text.extend(['\\', escape]),
                    }
                    continue;
                }
            };
            text.push(escaped(&mut characters, digits)?);
        }
        None
    }

    fn scalar(&mut self) -> Option<Value> {
        let is_inside = |c: char| c.is_alphanumeric() || "+-._".contains(c);
        let end = self.rest.find(|c| !is_inside(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        match text {
            "True" | "true" => Some(true.into()),
            "False" | "false" => Some(false.into()),
            "None" | "null" => Some(Value::Null),
            number => {
                let number = number.replace('_', "");
                if let Ok(number) = serde_json::from_str::<Number>(&number) {
                    return Some(Value::Number(number));
                }
                let is_number =
                    number.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
                let number: f64 = number.parse().ok().filter(|_| is_number)?;
                Number::from_f64(number).map(Value::Number)
            }
        }
    }
}

/// Reads the character whose code has so many digits. Two escapes that are a surrogate pair are one character, as in
/// JSON, and a surrogate without the other is U+FFFD.
fn escaped<I>(characters: &mut I, digits: usize) -> Option<char>
where
    I: Iterator<Item = (usize, char)> + Clone,
{
    let mut code = hexadecimal(characters, digits)?;
    if (0xd800..0xdc00).contains(&code) {
        let mut ahead = characters.clone();
        if let Some(low) = low_surrogate(&mut ahead) {
            *characters = ahead;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// Reads the escape of the second half of a surrogate pair.
fn low_surrogate(characters: &mut impl Iterator<Item = (usize, char)>) -> Option<u32> {
    let is_escape = characters.next()?.1 == '\\' && characters.next()?.1 == 'u';
    let code = hexadecimal(characters, 4).filter(|_| is_escape)?;
    (0xdc00..0xe000).contains(&code).then_some(code)
}

/// Reads a number of so many hexadecimal digits, at most eight.
fn hexadecimal(characters: &mut impl Iterator<Item = (usize, char)>, digits: usize) -> Option<u32> {
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + characters.next()?.1.to_digit(16)?;
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_of_python_are_read() {
        for (text, value) in [
            ("'it\\'s'", json!("it's")),
            ("\"a\\n\\u00e9\\x41\\d\"", json!("a\néA\\d")),
            ("[1, 2.5, -3, 1_000, .5]", json!([1, 2.5, -3, 1000, 0.5])),
            ("(True, False, None,)", json!([true, false, null])),
            ("{'a': {\"b\": []}}", json!({"a": {"b": []}})),
            (" 7 ", json!(7)),
        ] {
            assert_eq!(parse(text), Some(value), "{text}");
        }
        for text in [
            "", "abc", "'a", "[1", "{1: 2}", "1 2", "{'a' 1}", "'\\u12'", "nan", "-inf",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"[".repeat(100_000)), None);
    }

    #[test]
    fn escaped_surrogate_pairs_are_one_character() {
        for (text, value) in [
            ("'\\ud83d\\ude00!'", "😀!"),
            ("'\\U0001f600'", "😀"),
            ("'\\ud83d'", "\u{fffd}"),
            ("'\\ude00\\ud83d'", "\u{fffd}\u{fffd}"),
            ("'\\ud83d\\n'", "\u{fffd}\n"),
            ("'\\ud83d\\u0041'", "\u{fffd}A"),
            ("'\\ud83d\\ud83d\\ude00'", "\u{fffd}😀"),
            ("'\\ud83dude00'", "\u{fffd}ude00"),
            ("'\\Uffffffff'", "\u{fffd}"),
        ] {
            assert_eq!(parse(text), Some(json!(value)), "{text}");
        }
    }

    #[test]
    fn escapes_have_hexadecimal_digits_only() {
        for text in [
            "'\\u+1F0'",
            "'\\x-1'",
            "'\\x+f'",
            "'\\u00g0'",
            "'\\ud83d\\u+e00'",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,40}") {
            parse(&text);
        }
    }
}
