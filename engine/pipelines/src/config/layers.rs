//! Where settings come from: flags, the environment, a file. The first that has a field decides.

use serde_json::{Map, Value};

use super::{
    ConfigError, PipelineConfig,
    fields::{FIELDS, Field, Kind, find},
};

/// Settings from one source, each checked by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// Where they come from, for messages: `the environment`, a file's name.
    pub origin: String,
    values: Map<String, Value>,
}

impl Layer {
    /// No settings yet.
    pub fn new(origin: impl Into<String>) -> Layer {
        Layer {
            origin: origin.into(),
            values: Map::new(),
        }
    }

    /// Sets a field; a list's entries add up.
    ///
    /// # Errors
    ///
    /// If there is no such field, or the value is none that it takes.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), ConfigError> {
        let field = find(name).ok_or_else(|| ConfigError::Unknown { name: name.into() })?;
        // A list of one may be written without its brackets.
        let value = match value {
            Value::String(one) if field.kind == Kind::Texts => Value::from(vec![one]),
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

    /// [`Self::set`] from the text of a flag or a variable.
    ///
    /// # Errors
    ///
    /// As [`Self::set`].
    pub fn set_text(&mut self, field: &'static Field, text: &str) -> Result<(), ConfigError> {
        self.set(field.name, field.parse(text)?)
    }

    /// True if the layer has the field.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The settings among some environment variables: `WISP_MAX_LENGTH=4096`. Lists are separated by
    /// commas; an empty variable counts as none.
    ///
    /// # Errors
    ///
    /// If a variable of a field has no value that the field takes.
    pub fn environment(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Layer, ConfigError> {
        let variables: std::collections::HashMap<String, String> = variables.into_iter().collect();
        let mut layer = Layer::new("the environment");
        for field in FIELDS {
            let set = |name: &String| variables.get(name).filter(|text| !text.is_empty());
            let Some((name, text)) = field
                .variables()
                .into_iter()
                .find_map(|name| set(&name).map(|text| (name, text)))
            else {
                continue;
            };
            let mut texts = match field.kind {
                Kind::Texts => text.split(',').map(str::trim).collect(),
                _ => vec![text.as_str()],
            };
            texts.retain(|text| !text.is_empty());
            for text in texts {
                layer
                    .set_text(field, text)
                    .map_err(|error| error.at(&name))?;
            }
        }
        Ok(layer)
    }

    /// The settings in the text of a TOML file; `origin` names it in messages.
    ///
    /// # Errors
    ///
    /// If it is no TOML, or has a field that there is not, or a value that its field does not take.
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
            layer.set(&name, value).map_err(|error| error.at(origin))?;
        }
        Ok(layer)
    }

    /// The settings in a TOML file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, and as [`Self::toml`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn file(path: &std::path::Path) -> Result<Layer, ConfigError> {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: origin.clone(),
            source,
        })?;
        Layer::toml(&origin, &text)
    }
}

impl PipelineConfig {
    /// The configuration of some layers: the first that has a field decides, and what none has is
    /// as [`PipelineConfig::default`] says.
    ///
    /// # Errors
    ///
    /// None that the layers' own checks have not found before.
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

    fn environment(variables: &[(&str, &str)]) -> Result<Layer, ConfigError> {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Layer::environment(variables.iter().map(owned))
    }

    proptest! {
        /// Flags before the environment before the file before the defaults, field by field.
        #[test]
        fn the_first_layer_that_has_a_field_decides(
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
            prop_assert_eq!(config.max_num_steps, first(&steps, 1));
            prop_assert_eq!(config.kv_cache_page_size, 512);
        }

        #[test]
        fn no_toml_is_too_strange(text in "\\PC{0,60}") {
            let _ = Layer::toml("x.toml", &text);
        }
    }

    #[test]
    fn every_source_sets_every_kind() {
        let toml = "max_length = 100\ncache_strategy = \"paged\"\nenable_echo = true\n\
                    weight_path = [\"a\", \"b\"]\ndevice_specs = \"host\"\n\
                    gpu_memory_utilization = 0.5\n";
        let environment = environment(&[
            ("WISP_MAX_LENGTH", "100"),
            ("WISP_CACHE_STRATEGY", "paged"),
            ("WISP_ENABLE_ECHO", "yes"),
            ("WISP_WEIGHT_PATH", "a, b"),
            ("WISP_DEVICE", "host"),
            ("WISP_GPU_MEMORY_UTILIZATION", "0.5"),
            ("WISP_TOP_K", ""),
            ("WISP_DEBUG", "nan-check"),
        ])
        .unwrap();
        let file = Layer::toml("wisp.toml", toml).unwrap();
        let config = PipelineConfig::from_layers(&[&file]).unwrap();
        assert_eq!(config.weight_path, ["a", "b"]);
        assert_eq!(config.max_length, 100);
        assert!(config.enable_echo);
        assert_eq!(
            config,
            PipelineConfig::from_layers(&[&environment]).unwrap()
        );
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
        let error = environment(&[("WISP_MAX_LENGTH", "many")]).unwrap_err();
        assert!(
            error.to_string().starts_with("WISP_MAX_LENGTH: "),
            "{error}"
        );
    }
}
