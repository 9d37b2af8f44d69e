//! The tokens that end a text.

use std::collections::BTreeSet;

use serde_json::Value;
use wisp_text::{
    python_json,
    tokenizer::{Tokenizer, TokenizerError},
};

/// Returns the tokens that end a text: those of the tokenizer, and `eos_token_id` in the texts of
/// `config.json` and `generation_config.json`.
pub(crate) fn stop_tokens(
    tokenizer: &Result<Tokenizer, TokenizerError>,
    config: &str,
    generation_config: Option<&str>,
) -> BTreeSet<u32> {
    let mut tokens = match tokenizer {
        Ok(tokenizer) => tokenizer.end_of_generation().clone(),
        Err(_) => BTreeSet::new(),
    };
    tokens.extend(eos_token_ids(config));
    tokens.extend(generation_config.into_iter().flat_map(eos_token_ids));
    tokens
}

/// Returns the `eos_token_id` of a configuration, which is a number or a list of numbers.
fn eos_token_ids(config: &str) -> Vec<u32> {
    let Ok(json) = python_json::parse(config.as_bytes()) else {
        return Vec::new();
    };
    let ids = match json.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.as_slice(),
        Some(id) => std::slice::from_ref(id),
        None => &[],
    };
    let ids = ids.iter().filter_map(Value::as_u64);
    ids.filter_map(|id| u32::try_from(id).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_tokens_are_a_number_or_a_list() {
        let none = Err(TokenizerError::MissingFile {
            path: "tokenizer.json".into(),
        });
        let config = r#"{"eos_token_id": 7}"#;
        let generation = r#"{"eos_token_id": [2, 9, -1, 4294967296, "x"]}"#;
        let tokens = stop_tokens(&none, config, Some(generation));
        assert_eq!(tokens, BTreeSet::from([2, 7, 9]));
        let config = r#"{"time_step_limit": [0.0, Infinity], "eos_token_id": 7}"#;
        assert_eq!(stop_tokens(&none, config, None), BTreeSet::from([7]));
        assert!(stop_tokens(&none, "{", None).is_empty());
    }
}
