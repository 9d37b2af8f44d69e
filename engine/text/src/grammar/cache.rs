//! The grammars that were compiled last.

use std::sync::{Mutex, PoisonError};

use super::constraint::Constraint;
use super::matcher::Grammar;

/// The most grammars that are kept.
const MAX_GRAMMARS: usize = 32;

/// The most bytes of the texts of all constraints whose grammars are kept.
const MAX_BYTES: usize = 4 << 20;

/// Compiled grammars with their constraints, of which the least recently used ones are dropped.
#[derive(Default)]
pub(super) struct Cache {
    /// The least recently used one first.
    entries: Mutex<Vec<(String, Grammar)>>,
}

impl Cache {
    /// Returns the grammar of a [`key`].
    pub fn get(&self, key: &str) -> Option<Grammar> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(own, _)| own == key)?;
        let entry = entries.remove(at);
        let grammar = entry.1.clone();
        entries.push(entry);
        Some(grammar)
    }

    /// Keeps the grammar of a [`key`].
    pub fn insert(&self, key: String, grammar: Grammar) {
        if key.len() > MAX_BYTES {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(own, _)| *own != key);
        entries.push((key, grammar));
        let mut bytes: usize = entries.iter().map(|(key, _)| key.len()).sum();
        let mut dropped = 0;
        while entries.len() - dropped > MAX_GRAMMARS || bytes > MAX_BYTES {
            bytes -= entries[dropped].0.len();
            dropped += 1;
        }
        entries.drain(..dropped);
    }
}

/// Returns a text that only equal constraints have. The order of an object's members counts.
pub(super) fn key(constraint: &Constraint) -> String {
    match constraint {
        Constraint::JsonSchema(schema) => format!("schema {schema}"),
        Constraint::JsonObject => "object".into(),
        Constraint::Regex(pattern) => format!("regex {pattern}"),
        Constraint::Lark(grammar) => format!("lark {grammar}"),
        Constraint::ToolCalls(calls) => {
            format!("calls {:?} {}", calls.strict_tools(), calls.text())
        }
        Constraint::Choices(choices) => format!("choices {choices:?}"),
    }
}
