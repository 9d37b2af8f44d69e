//! How deep JSON from outside is nested.

use serde_json::Value;

/// Returns how deep JSON is nested, without recursion.
pub(crate) fn depth(json: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(json, 1)];
    while let Some((json, depth)) = open.pop() {
        deepest = deepest.max(depth);
        match json {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(entries) => {
                open.extend(entries.values().map(|value| (value, depth + 1)));
            }
            _ => {}
        }
    }
    deepest
}
