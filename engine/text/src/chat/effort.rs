//! How much a model thinks.

use std::str::FromStr;

use serde::de::{IntoDeserializer, value::Error};
use serde::{Deserialize, Serialize};

/// How much a model thinks before it answers, as the interfaces of OpenAI and Anthropic say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// It does not think, if it can do without.
    None,
    /// It hardly thinks.
    Minimal,
    /// It thinks briefly.
    Low,
    /// What is the default of most models.
    Medium,
    /// It thinks at length.
    High,
    /// More than [`High`](Self::High).
    XHigh,
    /// As much as it can.
    Max,
}

impl FromStr for ReasoningEffort {
    type Err = Error;

    fn from_str(name: &str) -> Result<ReasoningEffort, Error> {
        ReasoningEffort::deserialize(name.into_deserializer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efforts_have_names() {
        assert_eq!("none".parse(), Ok(ReasoningEffort::None));
        assert_eq!("xhigh".parse(), Ok(ReasoningEffort::XHigh));
        assert_eq!(serde_json::json!(ReasoningEffort::XHigh), "xhigh");
        let error = "huge".parse::<ReasoningEffort>().unwrap_err().to_string();
        assert!(
            error.contains("`huge`") && error.contains("`minimal`"),
            "{error}"
        );
    }
}
