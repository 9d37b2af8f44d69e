//! Rewrites schemas keyword by keyword.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::groups::Group;
use super::limits;
use super::literals;
use super::numbers::{Multiple, can_be_combined};
use super::references::{child, resolve};
use crate::grammar::error::GrammarError;

/// The types of JSON Schema.
const TYPES: [&str; 7] = [
    "null", "boolean", "number", "integer", "string", "array", "object",
];

/// Keywords that apply other schemas to the same value.
const IN_PLACE: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
];

/// A schema that is being rewritten.
pub(super) struct Scope<'s> {
    pub schema: &'s Map<String, Value>,
    /// Its JSON pointer.
    pub place: &'s str,
    /// How many schemas it lies in, references included.
    pub depth: usize,
}

impl Scope<'_> {
    /// Makes the error of a keyword of the schema.
    pub fn refuse(&self, keyword: &str, reason: impl Into<String>) -> GrammarError {
        GrammarError::refused(keyword, self.place, reason)
    }

    /// Reads a keyword whose value is a whole number of at most `max`.
    pub fn count(&self, keyword: &str, max: u64) -> Result<Option<u64>, GrammarError> {
        let Some(value) = self.schema.get(keyword) else {
            return Ok(None);
        };
        let whole = value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && *number >= 0.0);
        match whole {
            Some(number) if number <= max as f64 => Ok(Some(number as u64)),
            Some(_) => Err(self.refuse(
                keyword,
                format!("is {value}, but at most {max} is supported"),
            )),
            None => Err(self.refuse(
                keyword,
                format!("is {value}, but must be a whole number of at least 0"),
            )),
        }
    }

    /// Returns whether the schema's `type` excludes all of some types.
    pub fn excludes(&self, types: &[&str]) -> bool {
        match self.schema.get("type") {
            Some(Value::String(name)) => !types.contains(&name.as_str()),
            Some(Value::Array(names)) => {
                let mut names = names.iter().filter_map(Value::as_str);
                !names.any(|name| types.contains(&name))
            }
            _ => false,
        }
    }

    /// Returns whether the schema applies others to the same value.
    pub fn applies_others(&self) -> bool {
        IN_PLACE
            .iter()
            .any(|keyword| self.schema.contains_key(*keyword))
            || self.schema.contains_key("dependentSchemas")
    }
}

/// The state of rewriting one document.
pub(super) struct Rewriter<'a> {
    root: &'a Value,
    pub draft: Draft,
    id: Option<&'a str>,
    /// The numbers of referenced schemas, by their JSON pointers.
    numbers: HashMap<String, usize>,
    /// The referenced schemas, by number.
    definitions: Vec<Value>,
    /// Each `multipleOf` and its place.
    pub multiples: Vec<(Multiple, String)>,
    /// An object may have names beside those that the schema spells.
    pub has_open_names: bool,
    /// The keyword and place of a string that only a `\u` escape can spell.
    unicode_escape: Option<(String, String)>,
    /// The place of an identifier within the document.
    inner_id: Option<String>,
}

impl<'a> Rewriter<'a> {
    /// Begins a document.
    pub fn new(root: &'a Value) -> Result<Rewriter<'a>, GrammarError> {
        let draft = Draft::named(root, "")?.unwrap_or(Draft::V2020);
        let keyword = if draft == Draft::V4 { "id" } else { "$id" };
        Ok(Rewriter {
            root,
            draft,
            id: root.get(keyword).and_then(Value::as_str),
            numbers: HashMap::new(),
            definitions: Vec::new(),
            multiples: Vec::new(),
            has_open_names: false,
            unicode_escape: None,
            inner_id: None,
        })
    }

    /// Checks what concerns the whole document. Returns whether texts may have `\u` escapes.
    pub fn finish(&self) -> Result<bool, GrammarError> {
        if let (Some(place), false) = (&self.inner_id, self.definitions.is_empty()) {
            let reason = "within a schema with references is not supported";
            return Err(GrammarError::refused("$id", place, reason));
        }
        let multiples: Vec<Multiple> = self
            .multiples
            .iter()
            .map(|(multiple, _)| *multiple)
            .collect();
        let can_meet = multiples.len() > 1 || !self.definitions.is_empty();
        if let (Some((_, place)), true) = (self.multiples.last(), can_meet)
            && !can_be_combined(&multiples)
        {
            let reason = "is too large to be combined with others";
            return Err(GrammarError::refused("multipleOf", place, reason));
        }
        // An escape could spell a name in another way, so that the name's own schema would not apply.
        match (&self.unicode_escape, self.has_open_names) {
            (Some((keyword, place)), true) => {
                let reason = "has control characters, which is not supported beside objects with further properties";
                Err(GrammarError::refused(keyword, place, reason))
            }
            (_, has_open_names) => Ok(!has_open_names),
        }
    }

    /// Returns the referenced schemas, named by their numbers.
    pub fn definitions(self) -> Map<String, Value> {
        let named = self.definitions.into_iter().enumerate();
        named
            .map(|(number, schema)| (number.to_string(), schema))
            .collect()
    }

    /// Rewrites a schema.
    pub fn schema(
        &mut self,
        schema: &Value,
        place: &str,
        depth: usize,
    ) -> Result<Value, GrammarError> {
        limits::check_depth(depth)?;
        let schema = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(schema) => schema,
            other => {
                let keyword = place.rsplit('/').next().unwrap_or_default();
                let reason = format!("is {}, but must be a schema", kind(other));
                return Err(GrammarError::refused(keyword, place, reason));
            }
        };
        let scope = Scope {
            schema,
            place,
            depth,
        };
        self.identity(&scope)?;
        let mut out = Map::new();
        if let (Some(reference), true) = (schema.get("$ref"), self.draft <= Draft::V7) {
            // Up to draft 7, all other keywords beside a reference are ignored.
            self.reference(&scope, reference, &mut out)?;
            return Ok(Value::Object(out));
        }
        let mut done = Vec::new();
        for (keyword, value) in schema {
            if let Some(group) = Group::of(keyword) {
                if done.contains(&group) || scope.excludes(group.types()) {
                    continue;
                }
                // The keywords of a group depend on one another, so they stay together.
                done.push(group);
                match group {
                    Group::Objects => self.objects(&scope, &mut out)?,
                    Group::Arrays => self.arrays(&scope, &mut out)?,
                    Group::Strings => self.strings(&scope, &mut out)?,
                    Group::Numbers => self.numbers(&scope, &mut out)?,
                }
            } else if self.is_never(&scope, keyword, value)? {
                return Ok(Value::Bool(false));
            } else {
                self.keyword(&scope, keyword, value, &mut out)?;
            }
        }
        Ok(Value::Object(out))
    }

    /// Checks the keywords that identify a schema.
    fn identity(&mut self, scope: &Scope<'_>) -> Result<(), GrammarError> {
        if scope.place.is_empty() {
            return Ok(());
        }
        let older = (self.draft == Draft::V4)
            .then(|| scope.schema.get("id"))
            .flatten();
        let id = scope.schema.get("$id").or(older).and_then(Value::as_str);
        if id.is_some_and(|id| !id.starts_with('#')) {
            self.inner_id.get_or_insert(scope.place.to_owned());
        }
        let uri = scope
            .schema
            .get("$schema")
            .map(|uri| json!({"$schema": uri}));
        let draft = uri.map(|uri| Draft::named(&uri, scope.place)).transpose()?;
        match draft.flatten() {
            Some(draft) if draft != self.draft => {
                Err(scope.refuse("$schema", "names another draft than the whole schema's"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a keyword that is not in a group excludes all values.
    fn is_never(
        &mut self,
        scope: &Scope<'_>,
        keyword: &str,
        value: &Value,
    ) -> Result<bool, GrammarError> {
        if keyword != "not" {
            return Ok(false);
        }
        let schema = self.schema(value, &child(scope.place, keyword), scope.depth + 1)?;
        match triviality(&schema) {
            Some(accepts) => Ok(accepts),
            None => Err(scope.refuse("not", "is not supported")),
        }
    }

    /// Rewrites a keyword that is not in a group.
    fn keyword(
        &mut self,
        scope: &Scope<'_>,
        keyword: &str,
        value: &Value,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        match keyword {
            "type" => {
                check_type(scope, value)?;
                out.insert(keyword.into(), value.clone());
            }
            "enum" | "const" if keyword == "enum" || self.draft >= Draft::V6 => {
                self.literal(scope, keyword, value)?;
                out.insert(keyword.into(), value.clone());
            }
            "allOf" | "anyOf" | "oneOf" => {
                let schemas = self.list(scope, keyword, value)?;
                match schemas.is_empty() {
                    true => return Err(scope.refuse(keyword, "is empty")),
                    false if keyword == "allOf" => {
                        schemas
                            .into_iter()
                            .for_each(|schema| self.require(out, schema));
                    }
                    false => {
                        out.insert(keyword.into(), Value::Array(schemas));
                    }
                }
            }
            "if" if self.draft >= Draft::V7 => self.condition(scope, value, out)?,
            "$ref" => self.reference(scope, value, out)?,
            "$dynamicRef" if self.draft >= Draft::V2020 => {
                return Err(scope.refuse(keyword, "is not supported"));
            }
            "$recursiveRef" if self.draft == Draft::V2019 => {
                return Err(scope.refuse(keyword, "is not supported"));
            }
            // Annotations, definitions, and what the draft does not define.
            _ => {}
        }
        Ok(())
    }

    /// Adds a schema that the value must satisfy as well.
    pub fn require(&mut self, out: &mut Map<String, Value>, schema: Value) {
        let all = out.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.push(schema);
        }
    }

    fn literal(
        &mut self,
        scope: &Scope<'_>,
        keyword: &str,
        value: &Value,
    ) -> Result<(), GrammarError> {
        if keyword == "enum" && value.as_array().is_none_or(Vec::is_empty) {
            return Err(scope.refuse(keyword, "must be an array of at least one value"));
        }
        let literal = literals::inspect(value);
        if literal.is_inexact {
            let reason =
                "has a number that is not exact in 64-bit floating point, or has too many digits";
            return Err(scope.refuse(keyword, reason));
        }
        if literal.needs_unicode_escape {
            self.unicode_escape = Some((keyword.to_owned(), scope.place.to_owned()));
        }
        Ok(())
    }

    /// Rewrites `if`, whose value must be trivial.
    fn condition(
        &mut self,
        scope: &Scope<'_>,
        value: &Value,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        if !scope.schema.contains_key("then") && !scope.schema.contains_key("else") {
            return Ok(());
        }
        let schema = self.schema(value, &child(scope.place, "if"), scope.depth + 1)?;
        let branch = match triviality(&schema) {
            Some(true) => "then",
            Some(false) => "else",
            None => return Err(scope.refuse("if", "is not supported")),
        };
        if let Some(value) = scope.schema.get(branch) {
            let schema = self.schema(value, &child(scope.place, branch), scope.depth + 1)?;
            self.require(out, schema);
        }
        Ok(())
    }

    fn reference(
        &mut self,
        scope: &Scope<'_>,
        value: &Value,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        let name = value
            .as_str()
            .ok_or_else(|| scope.refuse("$ref", "must be a string"))?;
        let pointer = resolve(self.root, self.id, name)
            .map_err(|problem| scope.refuse("$ref", format!("{name:?} {problem}")))?;
        let number = match self.numbers.get(&pointer) {
            Some(number) => *number,
            None => {
                let number = self.definitions.len();
                self.numbers.insert(pointer.clone(), number);
                // Schemas may refer to themselves: the number is known before the schema.
                self.definitions.push(Value::Null);
                let root = self.root;
                let target = root.pointer(&pointer).unwrap_or(&Value::Null);
                let schema = self.schema(target, &pointer, scope.depth + 1)?;
                if let Some(definition) = self.definitions.get_mut(number) {
                    *definition = schema;
                }
                number
            }
        };
        if self.refers_to_itself(number) {
            return Err(scope.refuse("$ref", format!("{name:?} leads back to itself")));
        }
        out.insert("$ref".into(), format!("#/$defs/{number}").into());
        Ok(())
    }

    /// Returns whether a definition is nothing but references, in a circle.
    fn refers_to_itself(&self, start: usize) -> bool {
        let mut number = start;
        for _ in 0..=self.definitions.len() {
            let target = self.definitions.get(number).and_then(Value::as_object);
            let reference = target
                .filter(|schema| schema.len() == 1)
                .and_then(|schema| schema.get("$ref"));
            let reference = reference
                .and_then(Value::as_str)
                .and_then(|name| name.strip_prefix("#/$defs/"));
            match reference.and_then(|number| number.parse().ok()) {
                Some(next) => number = next,
                None => return false,
            }
        }
        true
    }

    /// Rewrites a keyword whose value is an array of schemas.
    pub fn list(
        &mut self,
        scope: &Scope<'_>,
        keyword: &str,
        value: &Value,
    ) -> Result<Vec<Value>, GrammarError> {
        let schemas = value.as_array();
        let schemas =
            schemas.ok_or_else(|| scope.refuse(keyword, "must be an array of schemas"))?;
        let place = child(scope.place, keyword);
        let numbered = schemas.iter().enumerate();
        let rewrite = |(at, schema): (usize, &Value)| {
            self.schema(schema, &child(&place, &at.to_string()), scope.depth + 1)
        };
        numbered.map(rewrite).collect()
    }

    /// Rewrites a keyword whose value is a schema.
    pub fn inner(
        &mut self,
        scope: &Scope<'_>,
        keyword: &str,
        value: &Value,
    ) -> Result<Value, GrammarError> {
        self.schema(value, &child(scope.place, keyword), scope.depth + 1)
    }

    /// Rewrites a keyword whose value is an object of schemas, and its names by `rename`.
    pub fn map(
        &mut self,
        scope: &Scope<'_>,
        keyword: &str,
        value: &Value,
        rename: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Map<String, Value>, GrammarError> {
        let schemas = value.as_object();
        let schemas =
            schemas.ok_or_else(|| scope.refuse(keyword, "must be an object of schemas"))?;
        let place = child(scope.place, keyword);
        let mut out = Map::new();
        for (name, schema) in schemas {
            let schema = self.schema(schema, &child(&place, name), scope.depth + 1)?;
            let renamed = rename(name)
                .map_err(|problem| scope.refuse(keyword, format!("{name:?} {problem}")))?;
            if out.insert(renamed, schema).is_some() {
                return Err(scope.refuse(keyword, format!("{name:?} is there twice")));
            }
        }
        Ok(out)
    }
}

/// Returns whether a rewritten schema accepts all values or none; `None` if some.
pub(super) fn triviality(schema: &Value) -> Option<bool> {
    match schema {
        Value::Bool(accepts) => Some(*accepts),
        Value::Object(members) if members.is_empty() => Some(true),
        _ => None,
    }
}

fn check_type(scope: &Scope<'_>, value: &Value) -> Result<(), GrammarError> {
    let is_type = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_valid = match value {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
        name => is_type(name),
    };
    match is_valid {
        true => Ok(()),
        false => Err(scope.refuse(
            "type",
            format!(
                "is {value}, but must be one or several of {}",
                TYPES.join(", ")
            ),
        )),
    }
}

/// Returns the name of a value's kind.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a Boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
