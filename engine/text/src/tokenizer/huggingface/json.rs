//! Reading the components of a `tokenizer.json`.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::tokenizer::error::TokenizerError;

/// The most components of a sequence, those of inner sequences included.
const MAX_COMPONENTS: usize = 32;

/// The deepest nesting of sequences.
const MAX_DEPTH: usize = 8;

/// A component that cannot be used; long values are cut off.
pub fn invalid(what: &str, expected: &str, actual: impl std::fmt::Display) -> TokenizerError {
    let actual: String = actual.to_string().chars().take(200).collect();
    TokenizerError::invalid(format!("tokenizer.json: {what}"), expected, actual)
}

/// Returns the components of a sequence in order, or the only one; none for null.
///
/// `key` is the name of the list in a sequence.
pub fn components<'j>(
    json: &'j Value,
    what: &str,
    key: &str,
) -> Result<Vec<&'j Value>, TokenizerError> {
    let mut found = Vec::new();
    // The components that are not read yet, the next one last.
    let mut open = vec![(json, 0)];
    while let Some((json, depth)) = open.pop() {
        if json.is_null() {
            continue;
        }
        if json["type"].as_str() != Some("Sequence") {
            found.push(json);
        } else {
            let inner = json[key].as_array().filter(|_| depth < MAX_DEPTH);
            let expected = format!("a list `{key}`, nested at most {MAX_DEPTH} times");
            let inner = inner.ok_or_else(|| invalid(what, &expected, json))?;
            open.extend(inner.iter().rev().map(|inner| (inner, depth + 1)));
        }
        if found.len() + open.len() > MAX_COMPONENTS {
            let expected = format!("at most {MAX_COMPONENTS} components");
            return Err(invalid(what, &expected, "more"));
        }
    }
    Ok(found)
}

/// Returns the type of a component.
pub fn component_type<'j>(json: &'j Value, what: &str) -> Result<&'j str, TokenizerError> {
    let found = json["type"].as_str();
    found.ok_or_else(|| invalid(what, "a component with a `type`", json))
}

/// Reads a component by the `tokenizers` crate.
pub fn component<T: serde::de::DeserializeOwned>(
    json: &Value,
    what: &str,
) -> Result<T, TokenizerError> {
    let read = serde_json::from_value(json.clone());
    read.map_err(|error| invalid(what, "a valid component", error))
}

/// The most values in the JSON of a component. Those of models have less than a hundred.
const MAX_VALUES: usize = 1 << 14;

/// Checks the number of values of a component while it is read: a value takes far more memory than its
/// text.
#[derive(Debug, Default)]
pub struct BoundedJson;

impl<'de> Deserialize<'de> for BoundedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Cell::new(0);
        Count(&values).deserialize(deserializer).map(|()| Self)
    }
}

/// Reads a value and counts the values in it.
#[derive(Clone, Copy)]
struct Count<'c>(&'c Cell<usize>);

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.set(self.0.get() + 1);
        if self.0.get() > MAX_VALUES {
            let message = format!("a component of more than {MAX_VALUES} values");
            return Err(D::Error::custom(message));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a component")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(self)?;
        }
        Ok(())
    }
}
