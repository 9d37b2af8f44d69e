//! Rewrites schemas keyword by keyword.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::definitions::Definitions;
use super::draft::Draft;
use super::exact::{Bound, Multiple, can_be_combined, lost_bound};
use super::groups::Group;
use super::limits;
use super::literals;
use super::references::{anchors, child, resolve};
use super::scope::{Scope, check_type, kind};
use crate::grammar::error::GrammarError;

/// The state of rewriting one document.
pub(super) struct Rewriter<'a> {
    root: &'a Value,
    pub draft: Draft,
    id: Option<&'a str>,
    /// The JSON pointers of the document's anchors.
    anchors: HashMap<String, String>,
    definitions: Definitions,
    /// Each bound on numbers.
    pub bounds: Vec<Bound>,
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
            anchors: anchors(root),
            definitions: Definitions::default(),
            bounds: Vec::new(),
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
        if let Some(place) = self.definitions.circle() {
            let reason = "leads back to its own schema without entering a property or an item";
            return Err(GrammarError::refused("$ref", place, reason));
        }
        if let Some(bound) = lost_bound(&self.bounds) {
            let reason = "leaves less than one to an opposite bound, which is not supported";
            return Err(GrammarError::refused(bound.keyword, &bound.place, reason));
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
        self.definitions.into_map()
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
                let has_any = scope.schema.contains_key("anyOf");
                let keyword = match keyword {
                    "oneOf" if !has_any && self.have_discriminator(scope, value) => "anyOf",
                    keyword => keyword,
                };
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

    /// Returns the schema of a reference, if the document has it.
    pub fn referenced(&self, name: &str) -> Option<&Value> {
        let pointer = resolve(self.root, self.id, &self.anchors, name).ok()?;
        self.root.pointer(&pointer)
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
        let pointer = resolve(self.root, self.id, &self.anchors, name)
            .map_err(|problem| scope.refuse("$ref", format!("{name:?} {problem}")))?;
        let (number, is_new) = self.definitions.number_of(&pointer);
        if is_new {
            let root = self.root;
            let target = root.pointer(&pointer).unwrap_or(&Value::Null);
            let schema = self.schema(target, &pointer, scope.depth + 1)?;
            self.definitions.set(number, schema);
        }
        out.insert("$ref".into(), Definitions::reference(number).into());
        Ok(())
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
