//! Objects that have no other properties than those that their schema names.

use serde_json::{Map, Value};

/// Keywords that say which further properties an object has, or that describe it beside `properties`.
const OTHERS: [&str; 10] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "const",
    "enum",
];

/// Keywords that describe a value too, or what `properties` and `items` are about.
const APPLICATORS: [&str; 14] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "contains",
    "const",
    "enum",
];

/// Keywords that say nothing about the members of a value.
const NEUTRAL: [&str; 15] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "nullable",
    "discriminator",
    "type",
];

/// Keywords whose values are data.
const DATA: [&str; 5] = ["const", "enum", "default", "example", "examples"];

/// Returns a schema whose objects have no other properties than those that it names, as in OpenAI's strict mode, in
/// xgrammar and in llama.cpp. Open stay objects without `properties`, those with `additionalProperties` or the like, those
/// that an `enum` or a `const` lists, and those that several schemas describe at once, such as the parts of an `allOf`:
/// each would forbid the properties of the others.
///
/// ```
/// use serde_json::json;
/// use wisp_text::grammar::json_schema::closed;
///
/// let schema = json!({"properties": {"a": {"type": "integer"}}});
/// let strict = json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": false});
/// assert_eq!(closed(&schema), strict);
/// ```
pub fn closed(schema: &Value) -> Value {
    let is_definition =
        |name: &String| name.starts_with("#/$defs/") || name.starts_with("#/definitions/");
    // If no reference stands beside another schema, definitions can be closed. Else they stay open.
    for definitions_alone in [true, false] {
        let mut closed = schema.clone();
        let mut closer = Closer {
            definitions_alone,
            shared: Vec::new(),
        };
        closer.close(&mut closed, true);
        let shared = closer.shared;
        if shared.is_empty() || (!definitions_alone && shared.iter().all(is_definition)) {
            return closed;
        }
    }
    schema.clone()
}

/// Returns whether a schema names all properties that its objects may have, unless it says otherwise.
pub(crate) fn names_all_properties(schema: &Map<String, Value>) -> bool {
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return false;
    };
    let is_named = |name: &Value| {
        let name = name.as_str();
        name.is_some_and(|name| properties.contains_key(name))
    };
    let required = schema.get("required").and_then(Value::as_array);
    let least = schema.get("minProperties").and_then(Value::as_u64);
    required.into_iter().flatten().all(is_named)
        && least.is_none_or(|least| least <= properties.len() as u64)
        && !has_any(schema, &OTHERS)
}

fn has_any(schema: &Map<String, Value>, keywords: &[&str]) -> bool {
    keywords.iter().any(|keyword| schema.contains_key(*keyword))
}

/// Closes the objects of a schema.
struct Closer {
    /// Whether definitions alone describe the values that they are applied to.
    definitions_alone: bool,
    /// The references that stand beside other schemas of the same value.
    shared: Vec<String>,
}

impl Closer {
    /// Closes the objects of a schema, which may be `alone` in describing its values.
    fn close(&mut self, value: &mut Value, alone: bool) {
        let schema = match value {
            Value::Object(schema) => schema,
            Value::Array(list) => return self.each(list.iter_mut(), false),
            _ => return,
        };
        let is_closed = alone && names_all_properties(schema);
        let members_alone = alone && !has_any(schema, &APPLICATORS);
        let is_only = |key: &str| {
            let mut keys = schema.keys().map(String::as_str);
            alone && keys.all(|other| other == key || NEUTRAL.contains(&other))
        };
        let composed_alone = ["$ref", "anyOf", "oneOf", "allOf"].into_iter().any(is_only);
        for (key, value) in schema.iter_mut() {
            match (key.as_str(), value) {
                (key, _) if DATA.contains(&key) => {}
                ("$ref", Value::String(_)) if composed_alone => {}
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(name)) => {
                    self.shared.push(name.clone());
                }
                ("$defs" | "definitions", Value::Object(named)) => {
                    self.each(named.values_mut(), self.definitions_alone);
                }
                ("properties", Value::Object(named)) => {
                    self.each(named.values_mut(), members_alone);
                }
                ("items" | "prefixItems", Value::Array(list)) => {
                    self.each(list.iter_mut(), members_alone);
                }
                ("items" | "additionalProperties", value) => self.close(value, members_alone),
                ("anyOf" | "oneOf", Value::Array(list)) => {
                    self.each(list.iter_mut(), composed_alone);
                }
                ("allOf", Value::Array(list)) => {
                    let alone = composed_alone && list.len() == 1;
                    self.each(list.iter_mut(), alone);
                }
                (_, value) => self.close(value, false),
            }
        }
        if is_closed {
            schema.insert("additionalProperties".into(), false.into());
        }
    }

    fn each<'v>(&mut self, schemas: impl Iterator<Item = &'v mut Value>, alone: bool) {
        schemas.for_each(|schema| self.close(schema, alone));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_closed_at_every_depth() {
        let inner = || json!({"properties": {"b": {"type": "null"}}});
        let strict =
            || json!({"properties": {"b": {"type": "null"}}, "additionalProperties": false});
        for (schema, expected) in [
            (
                json!({"type": "array", "items": inner()}),
                json!({"type": "array", "items": strict()}),
            ),
            (
                json!({"anyOf": [inner(), {"type": "null"}], "description": "x"}),
                json!({"anyOf": [strict(), {"type": "null"}], "description": "x"}),
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": inner()}}),
                json!({"properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": strict()}, "additionalProperties": false}),
            ),
            (
                json!({"allOf": [{"$ref": "#/$defs/d"}], "$defs": {"d": inner()}}),
                json!({"allOf": [{"$ref": "#/$defs/d"}], "$defs": {"d": strict()}}),
            ),
            (
                json!({"additionalProperties": inner()}),
                json!({"additionalProperties": strict()}),
            ),
            (
                json!({"properties": {}}),
                json!({"properties": {}, "additionalProperties": false}),
            ),
        ] {
            assert_eq!(closed(&schema), expected);
        }
    }

    #[test]
    fn objects_that_other_schemas_describe_too_stay_open() {
        let part = || json!({"properties": {"a": {"properties": {"b": {}}}}});
        for schema in [
            json!(true),
            json!({"type": "object"}),
            json!({"properties": {"a": {}}, "required": ["b"]}),
            json!({"properties": {"a": {}}, "minProperties": 2}),
            json!({"properties": {"a": {}}, "additionalProperties": true}),
            json!({"properties": {"a": {}}, "patternProperties": {"^x": {}}}),
            json!({"allOf": [part(), {"properties": {"c": {}}}]}),
            json!({"properties": {"c": part()}, "anyOf": [part(), {"required": ["c"]}]}),
            json!({"required": ["c"], "oneOf": [part()]}),
            json!({"if": part(), "then": part()}),
            json!({"const": {"properties": {"a": {}}}}),
            json!({"enum": [{"a": {"b": 1, "c": 2}, "d": 3}], "properties": {"a": {"properties": {"b": {}}}}}),
            json!({"const": {"a": 1, "d": 3}, "properties": {"a": {}}}),
            json!({"allOf": [{"$ref": "#/$defs/d"}, part()], "$defs": {"d": part()}}),
            // The whole schema is a part of another one.
            json!({"properties": {"a": {"allOf": [{"$ref": "#"}, part()]}}}),
        ] {
            assert_eq!(closed(&schema), schema);
        }
        // Only the definition is shared.
        let schema = json!({
            "properties": {"a": {"allOf": [{"$ref": "#/$defs/d"}, part()]}}, "$defs": {"d": part()},
        });
        let mut expected = schema.clone();
        expected["additionalProperties"] = false.into();
        assert_eq!(closed(&schema), expected);
    }
}
