//! References within a schema.

use serde_json::Value;

use super::groups::{SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS};

/// Returns the JSON pointer that a reference names in a schema with the identifier `id`; an error says why there is
/// none.
pub(super) fn resolve(root: &Value, id: Option<&str>, reference: &str) -> Result<String, String> {
    let id = id.map(|id| id.trim_end_matches('#'));
    let own = id.and_then(|id| reference.strip_prefix(id));
    let fragment = match own.unwrap_or(reference) {
        "" => "",
        local => local
            .strip_prefix('#')
            .ok_or("refers to another document, which is not read")?,
    };
    let fragment = percent_decode(fragment).ok_or("is not valid UTF-8")?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return match root.pointer(&fragment) {
            Some(_) if !leaves_resource(root, &fragment) => Ok(fragment),
            Some(_) => Err("refers into a schema with an `$id` of its own".into()),
            None => Err(format!(
                "refers to `#{fragment}`, which the schema does not have"
            )),
        };
    }
    let mut found = None;
    find_anchor(root, &fragment, String::new(), &mut found);
    found.ok_or_else(|| format!("refers to `#{fragment}`, which the schema does not have"))
}

/// Returns whether a pointer leads through a schema with an identifier of its own.
fn leaves_resource(root: &Value, pointer: &str) -> bool {
    let ends = pointer.match_indices('/').skip(1).map(|(at, _)| at);
    let mut inner = ends.filter_map(|end| root.pointer(&pointer[..end]));
    inner.any(|value| value.get("$id").is_some_and(Value::is_string))
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => (digit()? * 16 + digit()?) as u8,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Finds the schema with an anchor. Schemas with an identifier of their own have anchors of their own.
fn find_anchor(schema: &Value, anchor: &str, place: String, found: &mut Option<String>) {
    let Value::Object(members) = schema else {
        return;
    };
    let named = |keyword: &str| members.get(keyword).and_then(Value::as_str);
    let (id, older_id) = (named("$id"), named("id"));
    let is_anchor = [named("$anchor"), named("$dynamicAnchor")].contains(&Some(anchor))
        || [id, older_id]
            .iter()
            .flatten()
            .any(|id| id.strip_prefix('#') == Some(anchor));
    if is_anchor {
        found.get_or_insert(place);
        return;
    }
    if !place.is_empty() && id.is_some_and(|id| !id.starts_with('#')) {
        return;
    }
    for (keyword, value) in members {
        let place = child(&place, keyword);
        match value {
            Value::Object(schemas) if SCHEMA_MAPS.contains(&keyword.as_str()) => {
                for (name, schema) in schemas {
                    find_anchor(schema, anchor, child(&place, name), found);
                }
            }
            Value::Array(schemas)
                if SCHEMA_LISTS.contains(&keyword.as_str()) || keyword == "items" =>
            {
                for (at, schema) in schemas.iter().enumerate() {
                    find_anchor(schema, anchor, child(&place, &at.to_string()), found);
                }
            }
            schema if SCHEMAS.contains(&keyword.as_str()) => {
                find_anchor(schema, anchor, place, found);
            }
            _ => {}
        }
    }
}

/// Returns the pointer to a member of the value at another pointer.
pub(super) fn child(place: &str, name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    format!("{place}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_become_pointers() {
        let root = json!({
            "$id": "http://x/y",
            "$defs": {"a/b": {"$anchor": "here"}, "c": {"$id": "z", "$defs": {"d": {"$anchor": "there"}}}},
            "const": {"$anchor": "nowhere"}
        });
        let resolve = |reference| resolve(&root, Some("http://x/y"), reference);
        assert_eq!(resolve("#"), Ok("".into()));
        assert_eq!(resolve("http://x/y"), Ok("".into()));
        assert_eq!(resolve("#/$defs/a~1b"), Ok("/$defs/a~1b".into()));
        assert_eq!(
            resolve("http://x/y#/%24defs/a~1b"),
            Ok("/$defs/a~1b".into())
        );
        assert_eq!(resolve("#here"), Ok("/$defs/a~1b".into()));
        assert_eq!(resolve("#/$defs/c"), Ok("/$defs/c".into()));
        let wrong = [
            "#there",
            "#nowhere",
            "#/$defs/c/$defs/d",
            "#/x",
            "other.json",
            "#%ff",
        ];
        for reference in wrong {
            assert!(resolve(reference).is_err(), "{reference}");
        }
    }
}
