//! References within a schema.

use std::collections::HashMap;

use serde_json::Value;

use super::groups::{SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS};

/// Returns the JSON pointer that a reference names in a schema with the identifier `id` and these
/// [anchors]; an error says why there is none.
pub(super) fn resolve(
    root: &Value,
    id: Option<&str>,
    anchors: &HashMap<String, String>,
    reference: &str,
) -> Result<String, String> {
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
    let found = anchors.get(&*fragment).cloned();
    found.ok_or_else(|| format!("refers to `#{fragment}`, which the schema does not have"))
}

/// Returns whether a pointer leads through a schema with an identifier of its own.
fn leaves_resource(root: &Value, pointer: &str) -> bool {
    let mut value = root;
    let (inner, _) = pointer.rsplit_once('/').unwrap_or_default();
    for name in inner.split('/').skip(1) {
        let Some(member) = value.pointer(&format!("/{name}")) else {
            return false;
        };
        if member.get("$id").is_some_and(Value::is_string) {
            return true;
        }
        value = member;
    }
    false
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

/// Returns the JSON pointers of the schemas that have an anchor, by its name; of several with one name, the first.
/// Schemas with an identifier of their own have anchors of their own.
pub(super) fn anchors(root: &Value) -> HashMap<String, String> {
    let mut found = HashMap::new();
    find_anchors(root, String::new(), &mut found);
    found
}

fn find_anchors(schema: &Value, place: String, found: &mut HashMap<String, String>) {
    let Value::Object(members) = schema else {
        return;
    };
    let named = |keyword: &str| members.get(keyword).and_then(Value::as_str);
    let (id, older_id) = (named("$id"), named("id"));
    let older = [id, older_id].map(|id| id.and_then(|id| id.strip_prefix('#')));
    let own = [named("$anchor"), named("$dynamicAnchor")];
    for anchor in own.into_iter().chain(older).flatten() {
        let entry = found.entry(anchor.to_owned());
        entry.or_insert_with(|| place.clone());
    }
    if !place.is_empty() && id.is_some_and(|id| !id.starts_with('#')) {
        return;
    }
    for (keyword, value) in members {
        let place = child(&place, keyword);
        match value {
            Value::Object(schemas) if SCHEMA_MAPS.contains(&keyword.as_str()) => {
                for (name, schema) in schemas {
                    find_anchors(schema, child(&place, name), found);
                }
            }
            Value::Array(schemas)
                if SCHEMA_LISTS.contains(&keyword.as_str()) || keyword == "items" =>
            {
                for (at, schema) in schemas.iter().enumerate() {
                    find_anchors(schema, child(&place, &at.to_string()), found);
                }
            }
            schema if SCHEMAS.contains(&keyword.as_str()) => {
                find_anchors(schema, place, found);
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
        let anchors = anchors(&root);
        let resolve = |reference| resolve(&root, Some("http://x/y"), &anchors, reference);
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
