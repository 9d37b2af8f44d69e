//! Alternatives that a property tells apart, such as those that Pydantic writes for a union with a discriminator.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::draft::Draft;
use super::rewriter::Rewriter;
use super::scope::Scope;

/// The most references from one to the next that are followed.
const MAX_REFERENCES: usize = 16;

/// The most properties that are tried.
const MAX_PROPERTIES: usize = 16;

impl Rewriter<'_> {
    /// Returns whether no value satisfies two schemas of a list, because all are objects that must have the same property
    /// with values that differ. `llguidance` knows that only of schemas without references.
    pub(super) fn have_discriminator(&self, scope: &Scope<'_>, schemas: &Value) -> bool {
        let Some(schemas) = schemas.as_array() else {
            return false;
        };
        let are_objects = is_object(scope.schema);
        let objects = schemas.iter().map(|schema| {
            let schema = self.resolved(schema)?;
            (are_objects || is_object(schema)).then_some(schema)
        });
        let Some(objects) = objects.collect::<Option<Vec<_>>>() else {
            return false;
        };
        let Some(first) = objects.first() else {
            return false;
        };
        let names = required(first).filter(|name| self.values(first, name).is_some());
        names
            .take(MAX_PROPERTIES)
            .any(|name| self.is_discriminator(&objects, name))
    }

    /// Returns whether all of these objects must have a property, whose values differ from one to the next.
    fn is_discriminator(&self, objects: &[&Map<String, Value>], name: &str) -> bool {
        // The object that has each value.
        let mut seen = HashMap::new();
        objects.iter().enumerate().all(|(at, object)| {
            let values = self.values(object, name);
            let values = values.filter(|_| required(object).any(|required| required == name));
            values.is_some_and(|values| {
                values
                    .iter()
                    .all(|value| *seen.entry(value.to_string()).or_insert(at) == at)
            })
        })
    }

    /// Returns the values that a property of an object may have; `None` if they are not listed, or it is not certain which
    /// of them are equal.
    fn values<'s>(&'s self, object: &'s Map<String, Value>, name: &str) -> Option<&'s [Value]> {
        let property = self.resolved(object.get("properties")?.get(name)?)?;
        let constant = property.get("const").filter(|_| self.draft >= Draft::V6);
        let values = match constant {
            Some(value) => std::slice::from_ref(value),
            None => property.get("enum")?.as_array()?.as_slice(),
        };
        // 1 and 1.0 are the same number.
        let is_comparable = |value: &Value| match value {
            Value::Number(number) => number.is_i64() || number.is_u64(),
            Value::Array(_) | Value::Object(_) => false,
            Value::Null | Value::Bool(_) | Value::String(_) => true,
        };
        values.iter().all(is_comparable).then_some(values)
    }

    /// Returns a schema, or the one that it refers to: its values satisfy that one too.
    fn resolved<'s>(&'s self, schema: &'s Value) -> Option<&'s Map<String, Value>> {
        let mut schema = schema.as_object()?;
        for _ in 0..MAX_REFERENCES {
            match schema.get("$ref") {
                Some(name) => schema = self.referenced(name.as_str()?)?.as_object()?,
                None => return Some(schema),
            }
        }
        None
    }
}

/// Returns whether all values of a schema are objects.
fn is_object(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_some_and(|name| name == "object")
}

/// Returns the names of the properties that an object must have.
fn required(object: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let names = object.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}
