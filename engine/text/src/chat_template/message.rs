//! The turns of a conversation.

use serde::{Deserialize, Serialize};

/// A turn of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The speaker: `system`, `user`, `assistant` or `tool`, unless the template knows others.
    pub role: String,
    /// The text of the turn.
    pub content: String,
    /// Further fields for the template, such as `tool_calls` or `name`.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Message {
    /// A turn that has only a role and a text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            extra: serde_json::Map::new(),
        }
    }
}
