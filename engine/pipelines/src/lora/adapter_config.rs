//! `adapter_config.json`, as PEFT writes it.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// The fields of an adapter's configuration that change what it computes.
#[derive(Debug)]
pub(super) struct AdapterConfig {
    /// The rank of modules that `rank_pattern` does not match.
    rank: u64,
    /// The alpha of modules that `alpha_pattern` does not match.
    alpha: f64,
    /// True if the scale is `alpha / sqrt(rank)` instead of `alpha / rank` (rsLoRA, Kalajdzievski
    /// 2023).
    use_rslora: bool,
    rank_pattern: Vec<(Regex, f64)>,
    alpha_pattern: Vec<(Regex, f64)>,
    /// True if the base model's weights are stored `[in, out]`.
    pub fan_in_fan_out: bool,
}

/// Fields of adapters that have more than low-rank products, and what they have.
const REFUSED: &[(&str, &str)] = &[
    ("bias", "trained biases"),
    ("lora_bias", "biases"),
    ("use_dora", "DoRA's magnitudes"),
    ("use_qalora", "QALoRA's pooling"),
    ("modules_to_save", "modules that replace the model's"),
    ("layer_replication", "repeated layers"),
    ("trainable_token_indices", "trained tokens"),
    ("target_parameters", "parameters outside linear modules"),
    ("alora_invocation_tokens", "invocation tokens"),
];

/// The highest rank that a configuration may have.
const MAX_RANK: u64 = 1 << 20;

/// The most memory that a compiled pattern may take, since the file is not trusted.
const MAX_PATTERN_BYTES: usize = 1 << 20;

impl AdapterConfig {
    /// Parses the text of the file.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as a sentence.
    pub fn parse(text: &str) -> Result<AdapterConfig, String> {
        let json: Value =
            serde_json::from_str(text).map_err(|error| format!("it is not JSON ({error})"))?;
        match json.get("peft_type") {
            Some(Value::String(kind)) if kind == "LORA" => {}
            kind => {
                let kind = kind.unwrap_or(&Value::Null);
                return Err(format!(
                    "peft_type is {kind}, but only \"LORA\" is supported"
                ));
            }
        }
        for (field, what) in REFUSED {
            if let Some(value) = json.get(field).filter(|value| is_set(value)) {
                return Err(format!(
                    "{field} is {value}: an adapter with {what} is not supported"
                ));
            }
        }
        let rank = json.get("r").and_then(Value::as_u64);
        let rank = rank.filter(|rank| (1..=MAX_RANK).contains(rank));
        let alpha = json.get("lora_alpha").and_then(Value::as_f64);
        let alpha = alpha.filter(|alpha| *alpha > 0.0);
        let wrong = |field: &str| {
            let value = json.get(field).unwrap_or(&Value::Null);
            format!("{field} is {value}, but must be a number above 0")
        };
        Ok(AdapterConfig {
            rank: rank.ok_or_else(|| wrong("r"))?,
            alpha: alpha.ok_or_else(|| wrong("lora_alpha"))?,
            use_rslora: json.get("use_rslora").is_some_and(is_set),
            rank_pattern: pattern(&json, "rank_pattern")?,
            alpha_pattern: pattern(&json, "alpha_pattern")?,
            fan_in_fan_out: json.get("fan_in_fan_out").is_some_and(is_set),
        })
    }

    /// Returns the rank of a module, by its name in the base model.
    pub fn rank(&self, module: &str) -> u64 {
        find(&self.rank_pattern, module).map_or(self.rank, |rank| rank as u64)
    }

    /// Returns the factor on a module's low-rank product.
    pub fn scale(&self, module: &str) -> f64 {
        let rank = self.rank(module) as f64;
        let alpha = find(&self.alpha_pattern, module).unwrap_or(self.alpha);
        alpha / if self.use_rslora { rank.sqrt() } else { rank }
    }
}

/// False for the values by which PEFT says that a field is not used.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => !text.is_empty() && text != "none",
        _ => true,
    }
}

/// Parses a table of numbers by module. The keys are regular expressions that match a module's whole
/// name or the end of it that follows a dot.
fn pattern(json: &Value, field: &str) -> Result<Vec<(Regex, f64)>, String> {
    let entries = match json.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(entries)) => entries,
        Some(other) => return Err(format!("{field} is {other}, but must be an object")),
    };
    let is_rank = |number: &f64| number.fract() == 0.0 && (1.0..=MAX_RANK as f64).contains(number);
    let entry = |(key, value): (&String, &Value)| {
        let number = value
            .as_f64()
            .filter(|number| field != "rank_pattern" || is_rank(number));
        let number = number.ok_or_else(|| {
            format!("{field} has {value} for {key:?}, which is not a number in its range")
        })?;
        let regex = RegexBuilder::new(&format!(r"^(?:.*\.)?(?:{key})$"))
            .size_limit(MAX_PATTERN_BYTES)
            .build()
            .map_err(|_| {
                format!(
                    "{field} has the key {key:?}, which is not a regular expression that is supported"
                )
            })?;
        Ok((regex, number))
    };
    entries.iter().map(entry).collect()
}

/// Returns the number of the first key that matches, like PEFT's `get_pattern_key`.
fn find(pattern: &[(Regex, f64)], module: &str) -> Option<f64> {
    let found = pattern.iter().find(|(regex, _)| regex.is_match(module));
    found.map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(fields: Value) -> Result<AdapterConfig, String> {
        let mut config = json!({"peft_type": "LORA", "r": 8, "lora_alpha": 16});
        for (key, value) in fields.as_object().unwrap() {
            config[key] = value.clone();
        }
        AdapterConfig::parse(&config.to_string())
    }

    #[test]
    fn scales_follow_peft() {
        let module = "model.layers.3.self_attn.q_proj";
        let scale = |fields| parse(fields).unwrap().scale(module);
        assert_eq!(scale(json!({})), 2.0);
        assert_eq!(scale(json!({"lora_alpha": 1.5})), 1.5 / 8.0);
        assert_eq!(scale(json!({"use_rslora": true})), 16.0 / 8f64.sqrt());
        // The first key that matches decides; a key matches whole parts of a name.
        let patterns = json!({
            "rank_pattern": {"proj": 2, "layers.3.self_attn.q_proj": 4, "q_proj": 16},
            "alpha_pattern": {r"layers\.[0-3]\..*_proj": 12},
        });
        let config = parse(patterns).unwrap();
        assert_eq!((config.rank(module), config.scale(module)), (4, 3.0));
        let other = "model.layers.4.self_attn.q_proj";
        assert_eq!((config.rank(other), config.scale(other)), (16, 1.0));
        let other = "model.layers.4.self_attn.v_proj";
        assert_eq!((config.rank(other), config.scale(other)), (8, 2.0));
        let anchored = parse(json!({"rank_pattern": {r"^model\.layers\.3\.self_attn\.q_proj": 5}}));
        assert_eq!(anchored.unwrap().rank(module), 5);
    }

    #[test]
    fn unused_fields_are_ignored() {
        let fields = json!({
            "bias": "none", "use_dora": false, "modules_to_save": null, "layer_replication": null,
            "rank_pattern": {}, "alpha_pattern": null, "lora_dropout": 0.1, "target_modules": ["q_proj"],
            "trainable_token_indices": [], "lora_bias": false,
        });
        assert!(!parse(fields).unwrap().fan_in_fan_out);
    }

    #[test]
    fn unsupported_and_wrong_fields_are_named() {
        for (fields, words) in [
            (
                json!({"bias": "all"}),
                r#"bias is "all": an adapter with trained biases is not supported"#,
            ),
            (json!({"bias": "lora_only"}), r#"bias is "lora_only""#),
            (json!({"lora_bias": true}), "lora_bias is true"),
            (
                json!({"use_dora": true}),
                "use_dora is true: an adapter with DoRA's magnitudes is not supported",
            ),
            (
                json!({"modules_to_save": ["lm_head"]}),
                r#"modules_to_save is ["lm_head"]"#,
            ),
            (
                json!({"layer_replication": [[0, 4]]}),
                "layer_replication is [[0,4]]",
            ),
            (
                json!({"peft_type": "IA3"}),
                r#"peft_type is "IA3", but only "LORA" is supported"#,
            ),
            (json!({"peft_type": null}), "peft_type is null"),
            (json!({"r": 0}), "r is 0, but must be a number above 0"),
            (json!({"r": -1}), "r is -1"),
            (json!({"r": 1e30}), "r is 1e+30"),
            (json!({"r": "8"}), r#"r is "8""#),
            (json!({"lora_alpha": null}), "lora_alpha is null"),
            (
                json!({"rank_pattern": [8]}),
                "rank_pattern is [8], but must be an object",
            ),
            (
                json!({"rank_pattern": {"q_proj": 2.5}}),
                r#"rank_pattern has 2.5 for "q_proj""#,
            ),
            (
                json!({"alpha_pattern": {"q_proj": "x"}}),
                r#"alpha_pattern has "x" for "q_proj""#,
            ),
            (
                json!({"rank_pattern": {"(": 2}}),
                r#"rank_pattern has the key "(""#,
            ),
            (
                json!({"rank_pattern": {"(a{1000}){1000}": 2}}),
                "is not a regular expression that is supported",
            ),
        ] {
            let error = parse(fields.clone()).unwrap_err();
            assert!(error.contains(words), "{fields}: {error}");
        }
        assert!(
            AdapterConfig::parse("{")
                .unwrap_err()
                .starts_with("it is not JSON")
        );
        assert!(
            AdapterConfig::parse("[]")
                .unwrap_err()
                .starts_with("peft_type is null")
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,80}", field in "[a-z_]{1,20}", value in "\\PC{0,20}") {
            let _ = AdapterConfig::parse(&text);
            let _ = parse(json!({field: value.clone()}));
            let _ = parse(json!({"rank_pattern": {value: 3}}));
        }
    }
}
