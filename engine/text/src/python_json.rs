//! JSON as Python writes it: with the words `Infinity`, `-Infinity` and `NaN` for numbers that JSON cannot express. The
//! configurations of checkpoints may have them.

use std::{borrow::Cow, sync::LazyLock};

use regex::bytes::{Captures, Regex};
use serde_json::Value;

/// The key of the object that transformers 5 writes in place of such a word.
const FLOAT: &str = "__float__";

/// A text, or a word outside of texts.
static TEXT_OR_WORD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?s-u)"(?:[^"\\]|\\.)*"|-?Infinity|NaN"#).ok());

/// The object in place of a word. Within a text, its quotation marks would be escaped.
static OBJECT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?-u)\{\s*"__float__":\s*"(-?Infinity|NaN)"\s*\}"#).ok());

/// Parses JSON as Python writes it. A word becomes the object that transformers 5 writes, such as
/// `{"__float__": "Infinity"}`.
///
/// ```
/// use wisp_text::python_json;
///
/// let config = python_json::parse(br#"{"time_step_limit": [0.0, Infinity]}"#)?;
/// let greatest = &config["time_step_limit"][1];
/// assert_eq!(python_json::number(greatest), Some(f64::INFINITY));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// If it is not JSON, apart from these words.
pub fn parse(json: &[u8]) -> serde_json::Result<Value> {
    // Most files have none of the words.
    serde_json::from_slice(json).or_else(|_| serde_json::from_slice(&with_objects(json)))
}

/// Writes JSON over several lines, with the words in place of the objects.
///
/// # Errors
///
/// As [`serde_json::to_vec_pretty`].
pub fn write(json: &Value) -> serde_json::Result<Vec<u8>> {
    let text = serde_json::to_vec_pretty(json)?;
    Ok(match OBJECT.as_ref() {
        Some(object) => object.replace_all(&text, &b"$1"[..]).into_owned(),
        None => text,
    })
}

/// Returns a number, which may be infinite; `None` if the value is something else.
pub fn number(json: &Value) -> Option<f64> {
    let infinite = || match json.get(FLOAT)?.as_str()? {
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    };
    json.as_f64().or_else(infinite)
}

/// Replaces the words outside of texts by objects.
fn with_objects(json: &[u8]) -> Cow<'_, [u8]> {
    let Some(pattern) = TEXT_OR_WORD.as_ref() else {
        return json.into();
    };
    pattern.replace_all(json, |found: &Captures<'_>| match &found[0] {
        text @ [b'"', ..] => text.to_vec(),
        word => {
            let word = String::from_utf8_lossy(word);
            format!(r#"{{"{FLOAT}":"{word}"}}"#).into_bytes()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_read_outside_of_texts_only() {
        let text = br#"{"a \"NaN": "-Infinity, \\", "limit": [-Infinity, Infinity, NaN, 1]}"#;
        let json = parse(text).unwrap();
        assert_eq!(json["a \"NaN"], "-Infinity, \\");
        let limit = json["limit"].as_array().unwrap();
        let limit: Vec<_> = limit.iter().map(number).collect();
        let infinite = [f64::NEG_INFINITY, f64::INFINITY].map(Some);
        assert_eq!(limit, [&infinite[..], &[None, Some(1.0)]].concat());
    }

    #[test]
    fn objects_of_transformers_are_read_alike() {
        let words = parse(b"[Infinity, -Infinity, NaN]").unwrap();
        let objects = ["Infinity", "-Infinity", "NaN"].map(|word| json!({FLOAT: word}));
        assert_eq!(words, json!(objects));
        assert_eq!(parse(words.to_string().as_bytes()).unwrap(), words);
    }

    #[test]
    fn what_was_parsed_is_written_with_the_words() {
        let text = "{\n  \"{\\\"__float__\\\": \\\"NaN\\\"}\": [\n    -Infinity,\n    NaN\n  ]\n}";
        let json = parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(write(&json).unwrap()).unwrap(), text);
    }

    #[test]
    fn other_words_are_refused() {
        for text in [
            "[Inf]",
            "[nan]",
            "{NaN: 1}",
            "[+Infinity]",
            "\"NaN",
            "\u{fffd}",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
