//! The fields of a `config.json`.

use std::borrow::Cow;

use serde_json::{Map, Value};
use wisp_text::python_json;

use crate::architectures::error::ArchitectureError;

/// A `config.json` as the architecture's configuration class sees it: the text model's fields under
/// their common names, with the class's defaults for missing fields.
#[derive(Clone, Debug)]
pub struct HfConfig {
    pub(super) json: Value,
}

/// The error of a `config.json`.
fn error(problem: String) -> ArchitectureError {
    ArchitectureError::Config {
        file: "config.json".into(),
        problem,
    }
}

/// Returns a number of an object; `None` if it is missing or null.
pub(super) fn number(object: &Value, key: &str) -> Result<Option<f64>, ArchitectureError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(error(format!("`{key}` is {value}, expected a number"))),
        },
    }
}

impl HfConfig {
    /// Parses a `config.json`, with its fields as they are.
    pub(crate) fn parse(text: &str) -> Result<HfConfig, ArchitectureError> {
        match python_json::parse(text.as_bytes()) {
            Ok(json) => Ok(HfConfig { json }),
            Err(problem) => Err(error(problem.to_string())),
        }
    }

    /// Returns the configuration as its class sees it: `text_config` merged into the top level,
    /// fields renamed to their common names (`keys` holds the common name, then the class's own),
    /// and `defaults` for those that are missing.
    pub(crate) fn completed(
        self,
        keys: &[(Cow<'static, str>, Cow<'static, str>)],
        defaults: Map<String, Value>,
    ) -> Result<HfConfig, ArchitectureError> {
        let Value::Object(mut fields) = self.json else {
            return Err(error("it is not a JSON object".into()));
        };
        if let Some(Value::Object(text)) = fields.remove("text_config") {
            // Where either says that the output layer is one of its own, it is stored. Transformers 5 reads the field of
            // the whole model, and 4 that of the text.
            let untied = fields.get("tie_word_embeddings") == Some(&Value::Bool(false));
            fields.extend(text);
            if untied {
                fields.insert("tie_word_embeddings".into(), false.into());
            }
        }
        for (common, own) in keys {
            match fields.remove(own.as_ref()) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    fields.insert(common.to_string(), value);
                }
            }
        }
        for (key, value) in defaults {
            fields.entry(key).or_insert(value);
        }
        Ok(HfConfig {
            json: Value::Object(fields),
        })
    }

    /// Returns the class names under `architectures`.
    pub fn classes(&self) -> Vec<String> {
        let names = self.json.get("architectures").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.map(String::from).collect()
    }

    /// Makes the error of a configuration that an architecture cannot use.
    pub fn error(&self, problem: impl Into<String>) -> ArchitectureError {
        error(problem.into())
    }

    /// Returns a whole number.
    ///
    /// # Errors
    ///
    /// If the field is missing or is not a whole number.
    pub fn u64(&self, key: &str) -> Result<u64, ArchitectureError> {
        let number = self.optional_u64(key)?;
        number.ok_or_else(|| error(format!("`{key}` is missing")))
    }

    /// Returns a whole number of 32 bits.
    ///
    /// # Errors
    ///
    /// If the field is missing or is not a whole number of 32 bits.
    pub fn u32(&self, key: &str) -> Result<u32, ArchitectureError> {
        let number = self.optional_u32(key)?;
        number.ok_or_else(|| error(format!("`{key}` is missing")))
    }

    /// Returns a whole number; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_u64(&self, key: &str) -> Result<Option<u64>, ArchitectureError> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(error(format!(
                    "`{key}` is {value}, expected a whole number"
                ))),
            },
        }
    }

    /// Returns a whole number, `otherwise` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn u64_or(&self, key: &str, otherwise: u64) -> Result<u64, ArchitectureError> {
        Ok(self.optional_u64(key)?.unwrap_or(otherwise))
    }

    /// Returns a whole number that may be negative; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_i64(&self, key: &str) -> Result<Option<i64>, ArchitectureError> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(error(format!(
                    "`{key}` is {value}, expected a whole number"
                ))),
            },
        }
    }

    /// Returns a text; `None` if the field is missing or is not a text.
    pub fn optional_text(&self, key: &str) -> Option<&str> {
        self.json.get(key).and_then(Value::as_str)
    }

    /// Returns a whole number of 32 bits; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_u32(&self, key: &str) -> Result<Option<u32>, ArchitectureError> {
        let number = self.optional_u64(key)?;
        let number = number.map(|number| {
            let fits = u32::try_from(number);
            fits.map_err(|_| error(format!("`{key}` is {number}, which is too large")))
        });
        number.transpose()
    }

    /// Returns a whole number of 32 bits, `otherwise` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn u32_or(&self, key: &str, otherwise: u32) -> Result<u32, ArchitectureError> {
        Ok(self.optional_u32(key)?.unwrap_or(otherwise))
    }

    /// Returns a number; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_f32(&self, key: &str) -> Result<Option<f32>, ArchitectureError> {
        Ok(self.optional_f64(key)?.map(|number| number as f32))
    }

    /// Returns a number, `otherwise` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn f32_or(&self, key: &str, otherwise: f32) -> Result<f32, ArchitectureError> {
        Ok(self.optional_f32(key)?.unwrap_or(otherwise))
    }

    /// Returns a number in double precision; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_f64(&self, key: &str) -> Result<Option<f64>, ArchitectureError> {
        number(&self.json, key)
    }

    /// Returns a boolean, or whether a number is not 0; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>, ArchitectureError> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            // Python takes every number but 0 for true, and Llama 4's flag of its attention's temperature is 4.
            Some(Value::Number(number)) => Ok(Some(number.as_f64() != Some(0.0))),
            Some(value) => Err(error(format!("`{key}` is {value}, expected true or false"))),
        }
    }

    /// Returns the same as [`Self::optional_bool`], but `otherwise` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// As [`Self::optional_bool`].
    pub fn bool_or(&self, key: &str, otherwise: bool) -> Result<bool, ArchitectureError> {
        Ok(self.optional_bool(key)?.unwrap_or(otherwise))
    }

    /// Returns a list of whole numbers; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_list(&self, key: &str) -> Result<Option<Vec<u64>>, ArchitectureError> {
        let wrong = || error(format!("`{key}` is not a list of whole numbers"));
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let list = value.as_array().ok_or_else(wrong)?;
                let numbers = list.iter().map(|item| item.as_u64().ok_or_else(wrong));
                numbers.collect::<Result<_, _>>().map(Some)
            }
        }
    }

    /// Returns a list of numbers, which may be infinite; `None` if the field is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_numbers(&self, key: &str) -> Result<Option<Vec<f64>>, ArchitectureError> {
        let wrong = || error(format!("`{key}` is not a list of numbers"));
        let list = match self.json.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value.as_array().ok_or_else(wrong)?,
        };
        let number = |value: &Value| python_json::number(value).ok_or_else(wrong);
        list.iter().map(number).collect::<Result<_, _>>().map(Some)
    }

    /// Refuses a text field that is present and not `supported`.
    ///
    /// # Errors
    ///
    /// If the field is neither missing nor null nor the supported text.
    pub fn require_text(&self, key: &str, supported: &str) -> Result<(), ArchitectureError> {
        self.require(key, Value::from(supported))
    }

    /// Refuses a boolean field that is present and not `supported`.
    ///
    /// # Errors
    ///
    /// If the field is neither missing nor null nor the supported boolean.
    pub fn require_bool(&self, key: &str, supported: bool) -> Result<(), ArchitectureError> {
        self.require(key, Value::from(supported))
    }

    fn require(&self, key: &str, supported: Value) -> Result<(), ArchitectureError> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(()),
            Some(value) if *value == supported => Ok(()),
            Some(value) => Err(error(format!(
                "`{key}` is {value}; only {supported} is supported"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python writes infinity as a word, transformers 5 as an object.
    #[test]
    fn infinite_numbers_are_read_as_python_and_transformers_write_them() {
        for text in [
            r#"{"a \"Infinity": "-Infinity", "limit": [-Infinity, Infinity]}"#,
            r#"{"limit": [{"__float__": "-Infinity"}, {"__float__": "Infinity"}]}"#,
        ] {
            let config = HfConfig::parse(text).unwrap();
            let limit = config.optional_numbers("limit").unwrap();
            assert_eq!(limit, Some(vec![f64::NEG_INFINITY, f64::INFINITY]));
        }
        let config = HfConfig::parse(r#"{"limit": [1, "2"]}"#).unwrap();
        assert!(config.optional_numbers("limit").is_err());
    }
}
