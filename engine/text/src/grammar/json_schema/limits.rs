//! Limits on the size of schemas.

use serde_json::Value;

use crate::grammar::error::GrammarError;

/// The largest number of values in a schema, values within values included.
const MAX_VALUES: usize = 50_000;

/// The largest number of bytes of all strings in a schema.
const MAX_BYTES: usize = 512 << 10;

/// The longest path to a value, in bytes of a JSON pointer: errors name places, so that places are kept.
const MAX_PATH: usize = 4 << 10;

/// How deep schemas may lie in one another, references included: `llguidance` recurses as deep.
pub(super) const MAX_DEPTH: usize = if cfg!(target_arch = "wasm32") {
    40
} else {
    256
};

/// Checks the size of a schema.
pub(super) fn check(schema: &Value) -> Result<(), GrammarError> {
    let (mut values, mut bytes) = (0, 0);
    // Not recursive, since the depth is one of the things to check.
    let mut open = vec![(schema, 0, 0)];
    while let Some((value, depth, path)) = open.pop() {
        values += 1;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => {
                let path = path + 1 + items.len().to_string().len();
                open.extend(items.iter().map(|item| (item, depth + 1, path)));
            }
            Value::Object(members) => {
                bytes += members.keys().map(String::len).sum::<usize>();
                let inner = members.iter();
                open.extend(inner.map(|(key, value)| (value, depth + 1, path + 1 + key.len())));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        too_large("nested values", depth, 2 * MAX_DEPTH)?;
        too_large("bytes in the path to a value", path, MAX_PATH)?;
        too_large("values", values, MAX_VALUES)?;
        too_large("bytes of text", bytes, MAX_BYTES)?;
    }
    Ok(())
}

/// Checks how deep a schema lies in others.
pub(super) fn check_depth(depth: usize) -> Result<(), GrammarError> {
    too_large("schemas within schemas", depth, MAX_DEPTH)
}

fn too_large(what: &str, count: usize, max: usize) -> Result<(), GrammarError> {
    match count > max {
        true => Err(GrammarError::TooLarge {
            problem: format!("the JSON schema has more than {max} {what}"),
        }),
        false => Ok(()),
    }
}
