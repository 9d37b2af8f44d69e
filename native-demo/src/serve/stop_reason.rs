//! What ended a text that the model did not end itself, as vLLM's clients read it.

use serde::Serialize;
use wisp_engine::Completion;

/// The client's stop string or token that ended a text. `None`, which is null in JSON, stands for an end by the model or by
/// the limit on tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    /// A stop string.
    Text(String),
    /// One of the client's `stop_token_ids`.
    Token(u32),
}

impl StopReason {
    /// Returns what ended a whole text.
    pub fn of(completion: &Completion, stop_tokens: &[u32]) -> Option<StopReason> {
        match &completion.stop_string {
            Some(stop) => Some(StopReason::Text(stop.clone())),
            None => StopReason::of_token(completion.ending.as_ref()?.token, stop_tokens),
        }
    }

    /// Returns what ended a text if its last token did.
    pub fn of_token(token: u32, stop_tokens: &[u32]) -> Option<StopReason> {
        let is_named = stop_tokens.contains(&token);
        is_named.then_some(StopReason::Token(token))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_the_client_named_is_told() {
        for (reason, expected) in [
            (Some(StopReason::Text("a".into())), json!("a")),
            (StopReason::of_token(5, &[4, 5]), json!(5)),
            (StopReason::of_token(6, &[4, 5]), Value::Null),
        ] {
            assert_eq!(json!(reason), expected);
        }
    }
}
