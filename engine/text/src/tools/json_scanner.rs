//! Finds the end of a JSON value whose text arrives in pieces.

/// The deepest nesting of a value.
const MAX_DEPTH: usize = 128;

/// The longest number or literal in bytes.
const MAX_SCALAR: usize = 512;

/// The text is no JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What a character is to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// A part of it, and more follows.
    Inside,
    /// Its last character.
    Last,
    /// The character after it: only a number or a literal ends so.
    After,
}

/// A checker of one JSON value, character by character. Unlike JSON, strings may contain control
/// characters, which models write.
#[derive(Debug, Default)]
pub(super) struct JsonScanner {
    /// Whether each open container is an object.
    open: Vec<bool>,
    expected: Expected,
}

#[derive(Debug, Default, Clone, PartialEq)]
enum Expected {
    #[default]
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    /// The rest of a string, which is a key or not.
    Text(bool),
    /// The character after a backslash.
    Escape(bool),
    /// Further hexadecimal digits.
    Hex(bool, u8),
    /// The rest of a number or a literal.
    Scalar(String),
}

impl JsonScanner {
    /// Returns whether the next character is inside a string.
    pub fn is_in_string(&self) -> bool {
        matches!(
            self.expected,
            Expected::Text(_) | Expected::Escape(_) | Expected::Hex(..)
        )
    }

    /// Takes the next character. Nothing may follow [`Scan::Last`] and [`Scan::After`].
    pub fn push(&mut self, character: char) -> Result<Scan, Malformed> {
        use Expected::*;
        if let Scalar(text) = &mut self.expected {
            if is_scalar(character) {
                text.push(character);
                return match text.len() <= MAX_SCALAR {
                    true => Ok(Scan::Inside),
                    false => Err(Malformed),
                };
            }
            let value: serde_json::Result<serde_json::Value> = serde_json::from_str(text);
            value.map_err(|_| Malformed)?;
            if self.open.is_empty() {
                return Ok(Scan::After);
            }
            self.expected = CommaOrEnd;
        }
        if !self.is_in_string() && character.is_ascii_whitespace() {
            return Ok(Scan::Inside);
        }
        self.expected = match (std::mem::take(&mut self.expected), character) {
            (Value | ValueOrEnd, '{') => self.open(true)?,
            (Value | ValueOrEnd, '[') => self.open(false)?,
            (Value | ValueOrEnd, '"') => Text(false),
            (ValueOrEnd | CommaOrEnd, ']') if self.open.last() == Some(&false) => {
                return Ok(self.close());
            }
            (KeyOrEnd | CommaOrEnd, '}') if self.open.last() == Some(&true) => {
                return Ok(self.close());
            }
            (Value | ValueOrEnd, first) if is_scalar(first) => Scalar(first.into()),
            (Key | KeyOrEnd, '"') => Text(true),
            (Colon, ':') => Value,
            (CommaOrEnd, ',') if self.open.last() == Some(&true) => Key,
            (CommaOrEnd, ',') => Value,
            (Text(true), '"') => Colon,
            (Text(false), '"') if self.open.is_empty() => return Ok(Scan::Last),
            (Text(false), '"') => CommaOrEnd,
            (Text(is_key), '\\') => Escape(is_key),
            (Text(is_key), _) => Text(is_key),
            (Escape(is_key), 'u') => Hex(is_key, 4),
            (Escape(is_key), '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => Text(is_key),
            (Hex(is_key, 1), digit) if digit.is_ascii_hexdigit() => Text(is_key),
            (Hex(is_key, left), digit) if digit.is_ascii_hexdigit() => Hex(is_key, left - 1),
            _ => return Err(Malformed),
        };
        Ok(Scan::Inside)
    }

    fn open(&mut self, is_object: bool) -> Result<Expected, Malformed> {
        self.open.push(is_object);
        match self.open.len() <= MAX_DEPTH {
            true if is_object => Ok(Expected::KeyOrEnd),
            true => Ok(Expected::ValueOrEnd),
            false => Err(Malformed),
        }
    }

    fn close(&mut self) -> Scan {
        self.open.pop();
        self.expected = Expected::CommaOrEnd;
        match self.open.is_empty() {
            true => Scan::Last,
            false => Scan::Inside,
        }
    }
}

/// Returns whether a character may be in a number, `true`, `false` or `null`.
fn is_scalar(character: char) -> bool {
    character.is_ascii_alphanumeric() || "+-.".contains(character)
}

/// Appends a character of a JSON text, escaped if JSON forbids it inside strings.
pub(super) fn push_json(character: char, in_string: bool, out: &mut String) {
    match character {
        '\n' if in_string => out.push_str("\\n"),
        '\r' if in_string => out.push_str("\\r"),
        '\t' if in_string => out.push_str("\\t"),
        '\0'..='\x1f' if in_string => out.push_str(&format!("\\u{:04x}", u32::from(character))),
        _ => out.push(character),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the length of the value at the beginning of a text.
    fn end(text: &str) -> Result<Option<usize>, Malformed> {
        let mut scanner = JsonScanner::default();
        for (at, character) in text.char_indices() {
            match scanner.push(character)? {
                Scan::Inside => {}
                Scan::Last => return Ok(Some(at + character.len_utf8())),
                Scan::After => return Ok(Some(at)),
            }
        }
        Ok(None)
    }

    #[test]
    fn ends_of_values_are_found() {
        for (text, length) in [
            (r#"{"a": [1, {"b": "}"}], "c": null} x"#, 33),
            (r#"{} {}"#, 2),
            ("[[],[]]]", 7),
            (r#""a\"b" "#, 6),
            ("12.5e3,", 6),
            ("true ", 4),
            ("\"\u{1F600}\"", 6),
        ] {
            assert_eq!(end(text), Ok(Some(length)), "{text}");
        }
        for text in ["{\"a\": 1", "[1, 2", "\"a", "12", "{\"a\": \"\\u00"] {
            assert_eq!(end(text), Ok(None), "{text}");
        }
        for text in [
            "{a}",
            "{\"a\" 1}",
            "[1,]",
            "{\"a\":1,}",
            "[1}",
            "{]",
            "tru ",
            "01 ",
            "\"\\x\"",
            "]",
            "--1 ",
        ] {
            assert_eq!(end(text), Err(Malformed), "{text}");
        }
        assert_eq!(end(&"[".repeat(200)), Err(Malformed));
        assert_eq!(end(&"1".repeat(600)), Err(Malformed));
    }

    /// Returns a strategy for JSON values.
    pub(in crate::tools) fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<i32>().prop_map(|number| (f64::from(number) / 4.0).into()),
            ".*".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                proptest::collection::btree_map("[a-z\"\\\\é]{0,6}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_end_where_serde_ends_them(value in any_json(), rest in "[ ,}\\]][^0-9]*") {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let whole = format!("{text}{rest}");
                prop_assert_eq!(end(&whole), Ok(Some(text.len())));
            }
        }

        #[test]
        fn what_is_accepted_is_json(text in "[\\[\\]{}:,\"\\\\ua10.e -]{0,24}") {
            if let Ok(Some(length)) = end(&text) {
                let parsed: serde_json::Result<serde_json::Value> = serde_json::from_str(&text[..length]);
                // A pair of halves of a character is checked by nobody, and a number may be too large.
                let allowed = parsed.is_ok() || text.contains("\\u") || text.contains('e');
                prop_assert!(allowed, "{text}");
            }
        }
    }
}
