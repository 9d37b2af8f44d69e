//! The schemas that others refer to.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The rewritten schemas that others refer to, by number.
#[derive(Default)]
pub(super) struct Definitions {
    /// The numbers, by the JSON pointers of the schemas in the document.
    numbers: HashMap<String, usize>,
    schemas: Vec<Value>,
}

impl Definitions {
    /// Returns whether nothing refers to anything.
    pub fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// Returns the number of the schema at a pointer, and whether it is new: then the schema must be [set](Self::set).
    pub fn number_of(&mut self, pointer: &str) -> (usize, bool) {
        if let Some(number) = self.numbers.get(pointer) {
            return (*number, false);
        }
        // Schemas may refer to themselves: the number is known before the schema.
        let number = self.schemas.len();
        self.numbers.insert(pointer.to_owned(), number);
        self.schemas.push(Value::Null);
        (number, true)
    }

    /// Sets the schema of a number.
    pub fn set(&mut self, number: usize, schema: Value) {
        if let Some(definition) = self.schemas.get_mut(number) {
            *definition = schema;
        }
    }

    /// Returns a reference to a number.
    pub fn reference(number: usize) -> String {
        format!("#/$defs/{number}")
    }

    /// Returns whether a schema is nothing but references, in a circle.
    pub fn refers_to_itself(&self, start: usize) -> bool {
        let mut number = start;
        for _ in 0..=self.schemas.len() {
            let target = self.schemas.get(number).and_then(Value::as_object);
            let only = target.filter(|schema| schema.len() == 1);
            let reference = only.and_then(|schema| schema.get("$ref")?.as_str());
            let next = reference.and_then(|name| name.strip_prefix("#/$defs/")?.parse().ok());
            match next {
                Some(next) => number = next,
                None => return false,
            }
        }
        true
    }

    /// Returns the schemas, named by their numbers.
    pub fn into_map(self) -> Map<String, Value> {
        let named = self.schemas.into_iter().enumerate();
        named
            .map(|(number, schema)| (number.to_string(), schema))
            .collect()
    }
}
