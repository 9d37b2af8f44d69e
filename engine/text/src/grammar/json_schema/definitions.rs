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

    /// Returns the JSON pointer of a schema whose references lead back to it without entering a property or an item, so
    /// that no validation would end.
    pub fn circle(&self) -> Option<&str> {
        let count = self.schemas.len();
        // Whether a schema is being visited, and whether it has been.
        let (mut is_open, mut is_done) = (vec![false; count], vec![false; count]);
        for start in 0..count {
            let mut stack = vec![(start, false)];
            while let Some((number, is_left)) = stack.pop() {
                if is_left {
                    (is_open[number], is_done[number]) = (false, true);
                    continue;
                }
                if is_open[number] {
                    return self.pointer(number);
                }
                if is_done[number] {
                    continue;
                }
                is_open[number] = true;
                stack.push((number, true));
                let targets = in_place_references(&self.schemas[number]);
                stack.extend(
                    targets
                        .into_iter()
                        .filter(|to| *to < count)
                        .map(|to| (to, false)),
                );
            }
        }
        None
    }

    fn pointer(&self, number: usize) -> Option<&str> {
        let mut numbers = self.numbers.iter();
        let found = numbers.find(|(_, own)| **own == number);
        found.map(|(pointer, _)| pointer.as_str())
    }

    /// Returns the schemas, named by their numbers.
    pub fn into_map(self) -> Map<String, Value> {
        let named = self.schemas.into_iter().enumerate();
        named
            .map(|(number, schema)| (number.to_string(), schema))
            .collect()
    }
}

/// Returns the numbers of the schemas to which a rewritten schema refers for the same value.
fn in_place_references(schema: &Value) -> Vec<usize> {
    let own = schema.get("$ref").and_then(Value::as_str);
    let own = own.and_then(|name| name.strip_prefix("#/$defs/")?.parse().ok());
    let lists = ["allOf", "anyOf", "oneOf"].map(|keyword| schema.get(keyword));
    let inner = lists
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten();
    own.into_iter()
        .chain(inner.flat_map(in_place_references))
        .collect()
}
