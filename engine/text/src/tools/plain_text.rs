//! Parameters that models write as plain text, where formats write others as JSON.

use serde_json::Value;

use super::parameters::other_than;

/// The most schemas that are read for one parameter: references may lead in circles.
const MAX_SCHEMAS: usize = 64;

/// What a parameter that is written as plain text may be.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PlainText<'s> {
    /// Whether `null` is null, and no text.
    pub has_null: bool,
    /// Whether any text is allowed.
    pub is_any: bool,
    /// The texts that are allowed if not any is.
    pub choices: Vec<&'s str>,
}

impl<'s> PlainText<'s> {
    /// Reads the schema of a parameter, whose references lead to definitions of `root`. Returns `None` if the
    /// parameter is written as JSON.
    pub fn of(root: &'s Value, schema: &'s Value) -> Option<PlainText<'s>> {
        let mut left = MAX_SCHEMAS;
        let plain = read([root, schema], &mut left)?;
        (plain.is_any || !plain.choices.is_empty()).then_some(plain)
    }
}

/// Returns the values of a schema that lists them.
fn listed(schema: &Value) -> Option<&[Value]> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(std::slice::from_ref(value)),
        (None, Some(Value::Array(values))) => Some(values),
        _ => None,
    }
}

/// Returns the texts of a schema that lists nothing else.
pub(super) fn listed_texts(schema: &Value) -> Option<Vec<&str>> {
    let texts: Option<Vec<&str>> = listed(schema)?.iter().map(Value::as_str).collect();
    texts.filter(|texts| !texts.is_empty())
}

/// Reads a schema, of which at most `left` are read. Returns `None` if it allows anything but texts and null; among
/// several types, text is preferred.
fn read<'s>([root, schema]: [&'s Value; 2], left: &mut usize) -> Option<PlainText<'s>> {
    *left = left.checked_sub(1)?;
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.strip_prefix('#')?)?;
        return match other_than(schema, &["$ref"]) {
            None => read([root, target], left),
            Some(_) => None,
        };
    }
    let kinds: Option<Vec<&str>> = match &schema["type"] {
        Value::String(kind) => Some(vec![kind]),
        Value::Array(kinds) => Some(kinds.iter().filter_map(Value::as_str).collect()),
        _ => None,
    };
    let has_kind = |kind| kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind));
    if let Some(values) = listed(schema) {
        return read_list(values, has_kind("string"), has_kind("null"));
    }
    match &kinds {
        Some(kinds) => {
            let is_plain = has_kind("string") || kinds[..] == ["null"];
            is_plain.then(|| PlainText {
                has_null: has_kind("null"),
                is_any: has_kind("string"),
                choices: Vec::new(),
            })
        }
        None => {
            let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
            read_alternatives(root, alternatives.as_array()?, left)
        }
    }
}

/// Reads a list of values, of which texts and null may be allowed by the type.
fn read_list(values: &[Value], allows_text: bool, allows_null: bool) -> Option<PlainText<'_>> {
    let mut plain = PlainText::default();
    for value in values {
        match value {
            Value::String(text) if allows_text => plain.choices.push(text),
            Value::Null => plain.has_null |= allows_null,
            Value::String(_) => {}
            _ => return None,
        }
    }
    Some(plain)
}

/// Reads schemas of which any may apply.
fn read_alternatives<'s>(
    root: &'s Value,
    alternatives: &'s [Value],
    left: &mut usize,
) -> Option<PlainText<'s>> {
    let mut all = PlainText::default();
    for alternative in alternatives {
        let one = read([root, alternative], left)?;
        all.has_null |= one.has_null;
        all.is_any |= one.is_any;
        all.choices.extend(one.choices);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_plain_and_other_types_are_json() {
        let any = |has_null| PlainText {
            has_null,
            is_any: true,
            choices: Vec::new(),
        };
        let choices = |has_null| PlainText {
            has_null,
            is_any: false,
            choices: vec!["C", "F"],
        };
        let root = json!({"$defs": {"unit": {"type": "string", "enum": ["C", "F"]}}});
        for (schema, plain) in [
            (json!({"type": "string"}), any(false)),
            (json!({"type": "string", "pattern": "x"}), any(false)),
            (json!({"type": ["string", "null"]}), any(true)),
            (json!({"type": ["string", "integer"]}), any(false)),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
                any(true),
            ),
            (json!({"oneOf": [{"type": ["null", "string"]}]}), any(true)),
            (json!({"enum": ["C", "F"]}), choices(false)),
            (json!({"enum": ["C", "F", null]}), choices(true)),
            (
                json!({"type": "string", "enum": ["C", "F", null]}),
                choices(false),
            ),
            (
                json!({"anyOf": [{"const": "C"}, {"const": "F"}]}),
                choices(false),
            ),
            (
                json!({"$ref": "#/$defs/unit", "title": "Unit"}),
                choices(false),
            ),
            (
                json!({"anyOf": [{"$ref": "#/$defs/unit"}, {"type": "null"}]}),
                choices(true),
            ),
        ] {
            assert_eq!(PlainText::of(&root, &schema), Some(plain), "{schema}");
        }
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "null"}),
            json!({"type": ["integer", "null"]}),
            json!({"type": "integer", "enum": ["C"]}),
            json!({"enum": ["C", 5]}),
            json!({"enum": []}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"anyOf": [{"type": "string"}, {}]}),
            json!({"$ref": "#/$defs/unit", "minLength": 2}),
            json!({"$ref": "#/$defs/none"}),
        ] {
            assert_eq!(PlainText::of(&root, &schema), None, "{schema}");
        }
    }

    #[test]
    fn references_in_circles_end() {
        let circle = json!({"$ref": "#/$defs/circle"});
        let root = json!({"$defs": {"circle": {"anyOf": vec![circle.clone(); 50]}}});
        assert_eq!(PlainText::of(&root, &circle), None);
    }
}
