//! The parameters of a tool, each with a schema of its own.

use std::collections::HashSet;

use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use crate::grammar::GrammarError;

/// Keywords that say nothing about a value.
const ANNOTATIONS: [&str; 8] = [
    "$defs",
    "$schema",
    "default",
    "definitions",
    "description",
    "examples",
    "nullable",
    "title",
];

/// Returns a keyword of a schema that says something about a value, but for known ones.
pub(super) fn other_than<'s>(schema: &'s Value, known: &[&str]) -> Option<&'s str> {
    let mut keywords = schema.as_object()?.keys().map(String::as_str);
    keywords.find(|key| !ANNOTATIONS.contains(key) && !known.contains(key))
}

/// The keywords that hold definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The most values in the schemas of a tool's parameters together: definitions are copied to each that refers to them.
const MAX_VALUES: usize = 1 << 17;

/// A parameter of a tool.
pub(super) struct Parameter<'s> {
    pub key: &'s str,
    /// Its schema, with the definitions of the whole that it refers to.
    pub schema: Value,
    pub is_required: bool,
}

/// Returns the parameters of a schema of arguments, one after the other: each may be as large as the whole.
pub(super) fn parameters(
    schema: &Value,
) -> impl Iterator<Item = Result<Parameter<'_>, GrammarError>> {
    let required = schema["required"].as_array().into_iter().flatten();
    let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut left = MAX_VALUES;
    properties.map(move |(key, value)| {
        Ok(Parameter {
            key,
            schema: with_definitions(schema, value, &mut left)?,
            is_required: required.contains(key.as_str()),
        })
    })
}

/// Returns a property's schema with the definitions that it refers to. They have at most `left` values.
fn with_definitions(
    root: &Value,
    property: &Value,
    left: &mut usize,
) -> Result<Value, GrammarError> {
    let Value::Object(_) = property else {
        return Ok(json!({}));
    };
    let mut found = IndexSet::new();
    let mut open = vec![property];
    while let Some(value) = open.pop() {
        *left = left.checked_sub(1).ok_or_else(|| GrammarError::TooLarge {
            problem: format!("the schemas of its parameters have more than {MAX_VALUES} values"),
        })?;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let (keyword, name) = definition(root, reference).ok_or_else(|| {
                        let reason = format!("is {reference:?}, but in the format of the model's calls only `$defs` and `definitions` of the whole can be referred to");
                        GrammarError::refused("$ref", "", reason)
                    })?;
                    if found.insert((keyword, name)) {
                        open.push(&root[keyword][name]);
                    }
                }
                open.extend(members.values());
            }
            _ => {}
        }
    }
    let mut schema = property.clone();
    for keyword in DEFINITIONS {
        // What a property defines by itself has another pointer, so that nothing refers to it.
        let definitions = found.iter().filter(|(own, _)| *own == keyword);
        let definitions: Map<String, Value> = definitions
            .map(|(_, name)| ((*name).to_owned(), root[keyword][*name].clone()))
            .collect();
        if !definitions.is_empty() {
            schema[keyword] = definitions.into();
        }
    }
    if let Some(draft) = root.get("$schema") {
        schema["$schema"] = draft.clone();
    }
    Ok(schema)
}

/// Returns the keyword and the name of the definition that a reference leads to or into.
fn definition<'s>(root: &'s Value, reference: &str) -> Option<(&'static str, &'s str)> {
    let path = reference.strip_prefix("#/")?;
    let mut names = path.split('/');
    let (keyword, name) = (names.next()?, names.next()?);
    let keyword = DEFINITIONS.into_iter().find(|own| *own == keyword)?;
    let name = name.replace("~1", "/").replace("~0", "~");
    let (name, _) = root.get(keyword)?.as_object()?.get_key_value(&name)?;
    Some((keyword, name))
}
