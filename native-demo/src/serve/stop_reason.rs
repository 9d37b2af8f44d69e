//! What ended a text that the model did not end itself, as vLLM's clients read it.

use serde::Serialize;
use wisp_engine::Completion;

/// What ended a text; null in JSON if the model did, or the limit on tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    /// Nothing that the client named.
    #[default]
    None,
    /// A stop string.
    Text(String),
    /// One of the client's `stop_token_ids`.
    Token(u32),
}

impl StopReason {
    /// Returns what ended a whole text.
    pub fn of(completion: &Completion, stop_tokens: &[u32]) -> StopReason {
        match (&completion.stop_string, &completion.ending) {
            (Some(stop), _) => StopReason::Text(stop.clone()),
            (None, Some(ending)) => StopReason::of_token(ending.token, stop_tokens),
            (None, None) => StopReason::None,
        }
    }

    /// Returns what ended a text if its last token did.
    pub fn of_token(token: u32, stop_tokens: &[u32]) -> StopReason {
        match stop_tokens.contains(&token) {
            true => StopReason::Token(token),
            false => StopReason::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_the_client_named_is_told() {
        for (reason, expected) in [
            (StopReason::None, Value::Null),
            (StopReason::Text("a".into()), json!("a")),
            (StopReason::of_token(5, &[4, 5]), json!(5)),
            (StopReason::of_token(6, &[4, 5]), Value::Null),
        ] {
            assert_eq!(json!(reason), expected);
        }
    }
}
