//! Settings from one source, which are merged with those of other sources.

use serde_json::{Map, Value};
#[cfg(not(target_arch = "wasm32"))]
use wisp_files::{FileKind, read_small_text};

use super::{
    error::ConfigError,
    fields::{FIELDS, Field, FieldKind},
    pipeline_config::PipelineConfig,
};

/// Settings from one source, such as flags or a file. Each setting is checked when it is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// The name of the source in error messages, such as a file's path.
    pub origin: String,
    values: Map<String, Value>,
}

impl Layer {
    /// Makes a layer without settings.
    pub fn new(origin: impl Into<String>) -> Layer {
        Layer {
            origin: origin.into(),
            values: Map::new(),
        }
    }

    /// Sets a field. If the field is a list, the entries are appended to those already set.
    ///
    /// # Errors
    ///
    /// If there is no such field, or the value has the wrong type or is outside its range.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), ConfigError> {
        let field = Field::find(name).ok_or_else(|| ConfigError::Unknown {
            name: name.into(),
            fields: FIELDS.iter().map(|field| field.name).collect(),
        })?;
        // A list with one entry may be written without brackets.
        let value = match value {
            Value::String(one) if field.kind == FieldKind::Texts => Value::from(vec![one]),
            value => value,
        };
        field.check(&value)?;
        match (self.values.get_mut(field.name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => {
                self.values.insert(field.name.into(), value);
            }
        }
        Ok(())
    }

    /// Sets a field from the text of a flag or an environment variable.
    ///
    /// # Errors
    ///
    /// As [`Self::set`].
    pub fn set_text(&mut self, field: &'static Field, text: &str) -> Result<(), ConfigError> {
        self.set(field.name, field.parse(text)?)
    }

    /// Returns whether the layer sets the field.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Parses the settings of a TOML file. `origin` names it in error messages.
    ///
    /// # Errors
    ///
    /// If the text is not TOML, or a setting names no field or has a wrong value.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn toml(origin: &str, text: &str) -> Result<Layer, ConfigError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| before.lines().count().max(1));
            ConfigError::Syntax {
                origin: origin.into(),
                line: line.unwrap_or(1),
                problem: error.message().into(),
            }
        })?;
        let mut layer = Layer::new(origin);
        for (name, value) in table {
            let value = serde_json::to_value(value).unwrap_or_default();
            let set = layer.set(&name, value);
            set.map_err(|error| error.with_origin(origin))?;
        }
        Ok(layer)
    }

    /// Reads the settings of a TOML file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, and as [`Self::toml`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn file(path: &std::path::Path) -> Result<Layer, ConfigError> {
        let origin = path.display().to_string();
        let text = read_small_text(path, FileKind::Settings);
        let text = text.map_err(|source| ConfigError::Read {
            path: origin.clone(),
            source,
        })?;
        Layer::toml(&origin, &text)
    }
}

impl PipelineConfig {
    /// Merges layers into a configuration. The first layer that sets a field takes precedence;
    /// fields that no layer sets have their defaults.
    ///
    /// # Errors
    ///
    /// If a value does not fit its field. Layers check their values, so this is not expected.
    pub fn from_layers(layers: &[&Layer]) -> Result<PipelineConfig, ConfigError> {
        let mut values = Map::new();
        for layer in layers.iter().rev() {
            values.extend(layer.values.clone());
        }
        serde_json::from_value(Value::Object(values)).map_err(|error| ConfigError::Value {
            field: "configuration",
            problem: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The expected precedence, field by field: first, second, third layer, then the defaults.
        #[test]
        fn first_layer_with_a_field_decides(
            values in prop::collection::vec(prop::option::of(1i64..65536), 3),
            steps in prop::collection::vec(prop::option::of(1i64..256), 3),
        ) {
            let mut layers = ["flags", "environment", "file"].map(Layer::new);
            for (layer, (length, steps)) in layers.iter_mut().zip(values.iter().zip(&steps)) {
                for (name, value) in [("max_length", length), ("max_num_steps", steps)] {
                    if let Some(value) = value {
                        layer.set(name, Value::from(*value)).unwrap();
                    }
                }
            }
            let config = PipelineConfig::from_layers(&layers.each_ref()).unwrap();
            let first = |values: &[Option<i64>], default| {
                values.iter().flatten().next().map_or(default, |value| *value as u64)
            };
            prop_assert_eq!(config.max_length, first(&values, 512));
            prop_assert_eq!(config.max_num_steps.unwrap_or(1), first(&steps, 1));
            prop_assert_eq!(config.kv_cache_page_size, 512);
        }

        #[test]
        fn arbitrary_toml_does_not_panic(text in "\\PC{0,60}") {
            let _ = Layer::toml("x.toml", &text);
        }
    }

    #[test]
    fn toml_and_text_set_fields_of_every_kind() {
        let toml = "max_length = 100\ncache_strategy = \"paged\"\nenable_echo = true\n\
                    weight_path = [\"a\", \"b\"]\ndevice_specs = \"host\"\n\
                    gpu_memory_utilization = 0.5\n";
        let mut texts = Layer::new("texts");
        for (name, text) in [
            ("max_length", "100"),
            ("cache_strategy", "paged"),
            ("enable_echo", "yes"),
            ("weight_path", "a"),
            ("weight_path", "b"),
            ("device_specs", "host"),
            ("gpu_memory_utilization", "0.5"),
        ] {
            texts.set_text(Field::find(name).unwrap(), text).unwrap();
        }
        let file = Layer::toml("wisp.toml", toml).unwrap();
        let config = PipelineConfig::from_layers(&[&file]).unwrap();
        assert_eq!(config.weight_path, ["a", "b"]);
        assert_eq!(config.max_length, 100);
        assert!(config.enable_echo);
        assert_eq!(config, PipelineConfig::from_layers(&[&texts]).unwrap());
    }

    #[test]
    fn wrong_settings_are_named() {
        for (toml, words) in [
            (
                "max_lenght = 5",
                &["wisp.toml", "max_lenght", "max_length"][..],
            ),
            (
                "max_length = \"long\"",
                &["wisp.toml", "max_length", "whole number"],
            ),
            ("a = 1\nmax_length = = 5", &["wisp.toml", "line 2"]),
            ("engine = \"vllm\"", &["engine", "max or huggingface"]),
            ("device_specs = [\"gpu\"]", &["device_specs", "vulkan"]),
            (
                "kv_cache_page_size = 0",
                &["kv_cache_page_size", "1 to 65536"],
            ),
            (
                "gpu_memory_utilization = 1.5",
                &["gpu_memory_utilization", "at most 1"],
            ),
            ("enable_echo = 1", &["enable_echo", "true or false"]),
            ("max_length = 1979-05-27", &["max_length"]),
        ] {
            let error = Layer::toml("wisp.toml", toml).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{toml}: {error}");
            }
        }
    }
}
