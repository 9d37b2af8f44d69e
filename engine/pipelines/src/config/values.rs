//! The values of fields: parsed from text, and checked against type, range and choices.

use serde_json::{Map, Value};

use super::{
    error::ConfigError,
    fields::{FIELDS, Field, FieldKind},
    pipeline_config::PipelineConfig,
};

impl Field {
    /// Parses a value from the text of a flag or an environment variable. For a list, the text is
    /// one entry.
    ///
    /// # Errors
    ///
    /// If the text is not a valid value of the field.
    pub fn parse(&'static self, text: &str) -> Result<Value, ConfigError> {
        let wrong = || self.wrong(&Value::from(text));
        let value = match self.kind {
            FieldKind::Text => Value::from(text),
            FieldKind::Texts => Value::from(vec![text]),
            FieldKind::Whole(..) => Value::from(text.trim().parse::<i64>().map_err(|_| wrong())?),
            FieldKind::Fraction => Value::from(text.trim().parse::<f64>().map_err(|_| wrong())?),
            FieldKind::Switch => match text.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Value::from(true),
                "" | "0" | "false" | "no" | "off" => Value::from(false),
                _ => return Err(wrong()),
            },
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Checks that a value has the field's type, is in its range and is one of its choices.
    ///
    /// # Errors
    ///
    /// If the value fails one of these checks.
    pub fn check(&'static self, value: &Value) -> Result<(), ConfigError> {
        let fits = match self.kind {
            FieldKind::Text | FieldKind::Texts => value.is_string() || value.is_array(),
            FieldKind::Whole(min, max) => value.as_i64().is_some_and(|n| (min..=max).contains(&n)),
            FieldKind::Fraction => value.as_f64().is_some_and(|n| n > 0.0 && n <= 1.0),
            FieldKind::Switch => value.is_boolean(),
        };
        if !fits {
            return Err(self.wrong(value));
        }
        let one = Map::from_iter([(self.name.to_string(), value.clone())]);
        match serde_json::from_value::<PipelineConfig>(Value::Object(one)) {
            Ok(_) => Ok(()),
            Err(error) => Err(ConfigError::Value {
                field: self.name,
                problem: error.to_string(),
            }),
        }
    }

    fn wrong(&self, value: &Value) -> ConfigError {
        let expected = match self.kind {
            FieldKind::Text => "a text".into(),
            FieldKind::Texts => "texts".into(),
            FieldKind::Whole(min, max) => format!("a whole number from {min} to {max}"),
            FieldKind::Fraction => "a number above 0, at most 1".into(),
            FieldKind::Switch => "true or false".into(),
        };
        let shown = match value {
            Value::String(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        ConfigError::Value {
            field: self.name,
            problem: format!("is {shown}, but must be {expected}"),
        }
    }
}

impl PipelineConfig {
    /// Returns the name and the description of every field.
    pub fn help() -> impl Iterator<Item = (&'static str, &'static str)> {
        FIELDS.iter().map(|field| (field.name, field.help))
    }

    /// Checks that every field is in its range.
    ///
    /// # Errors
    ///
    /// If a field is outside its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let values = serde_json::to_value(self).map_err(|error| ConfigError::Value {
            field: "configuration",
            problem: error.to_string(),
        })?;
        for field in FIELDS {
            match values.get(field.name) {
                None | Some(Value::Null) => {}
                Some(value) => field.check(value)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wisp_device::Device;

    use super::*;

    #[test]
    fn table_has_the_fields_and_defaults_of_the_struct() {
        let default = serde_json::to_value(PipelineConfig::default()).unwrap();
        let default = default.as_object().unwrap();
        assert_eq!(
            default.keys().collect::<Vec<_>>(),
            FIELDS.iter().map(|field| field.name).collect::<Vec<_>>()
        );
        for field in FIELDS {
            let shown = match &default[field.name] {
                Value::Null => continue,
                Value::Array(list) if list.is_empty() => continue,
                Value::Array(list) => list[0].as_str().unwrap().to_string(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(shown, field.default, "{}", field.name);
            assert!(!field.help.is_empty() && !field.help.ends_with('.'));
        }
        PipelineConfig::default().check().unwrap();
        PipelineConfig::default().check_supported().unwrap();
    }

    #[test]
    fn values_outside_their_range_are_refused() {
        let wrong = PipelineConfig {
            kv_cache_page_size: 0,
            ..PipelineConfig::default()
        };
        let error = wrong.check().unwrap_err().to_string();
        assert!(error.contains("kv_cache_page_size is 0"), "{error}");
        let wrong = PipelineConfig {
            gpu_memory_utilization: f64::NAN,
            ..PipelineConfig::default()
        };
        // JSON has no NaN: it becomes null, which is not a number.
        assert!(wrong.check().is_err() || wrong.memory(&Device::host(1).unwrap()) == Some(0));
    }
}
