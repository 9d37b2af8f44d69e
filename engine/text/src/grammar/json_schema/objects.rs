//! Keywords about objects and arrays.

use indexmap::IndexSet;
use serde_json::{Map, Value};

use super::draft::Draft;
use super::pattern;
use super::rewriter::{Rewriter, triviality};
use super::scope::Scope;
use crate::grammar::error::GrammarError;

/// The largest number of patterns of an object: each pair is checked for overlaps.
const MAX_PATTERNS: usize = 16;

/// The largest number of properties that an object names: `llguidance` recurses once for each.
pub(crate) const MAX_PROPERTIES: usize = if cfg!(target_arch = "wasm32") {
    100
} else {
    1000
};

/// The largest bound on the number of properties or items.
const MAX_COUNT: u64 = 1 << 16;

impl Rewriter<'_> {
    /// Rewrites the keywords about objects.
    pub(super) fn objects(
        &mut self,
        scope: &Scope<'_>,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        self.refuse_object_keywords(scope)?;
        let schema = scope.schema;
        let same = |name: &str| Ok(name.to_owned());
        let mut names = Map::new();
        if let Some(value) = schema.get("properties") {
            names = self.map(scope, "properties", value, same)?;
            out.insert("properties".into(), Value::Object(names.clone()));
        }
        let mut patterns = Map::new();
        if let Some(value) = schema.get("patternProperties") {
            patterns = self.map(scope, "patternProperties", value, pattern::rewrite)?;
            if patterns.len() > MAX_PATTERNS {
                let reason = format!(
                    "has {} patterns, but at most {MAX_PATTERNS} are supported",
                    patterns.len()
                );
                return Err(scope.refuse("patternProperties", reason));
            }
            out.insert("patternProperties".into(), Value::Object(patterns.clone()));
        }
        let mut is_closed = false;
        let additional = schema.get("additionalProperties");
        let additional = ("additionalProperties", additional);
        if let Some(further) = self.further(scope, additional, "unevaluatedProperties")? {
            is_closed = triviality(&further) == Some(false);
            out.insert("additionalProperties".into(), further);
        }
        let required = required(scope)?;
        for keyword in ["minProperties", "maxProperties"] {
            if let Some(count) = scope.count(keyword, MAX_COUNT)? {
                out.insert(keyword.into(), count.into());
            }
        }
        let least = scope.count("minProperties", MAX_COUNT)?.unwrap_or(0);
        if least > required.len() as u64 + 1 {
            // Nothing keeps a text from naming the same property twice.
            let reason =
                "is supported only up to one more than the number of `required` properties";
            return Err(scope.refuse("minProperties", reason));
        }
        let named = names.len()
            + required
                .iter()
                .filter(|name| !names.contains_key(*name))
                .count();
        if named > MAX_PROPERTIES {
            let reason =
                format!("names {named} properties, but at most {MAX_PROPERTIES} are supported");
            return Err(scope.refuse("properties", reason));
        }
        let has_names = !names.is_empty() || !patterns.is_empty() || !required.is_empty();
        self.has_open_names |= has_names && !(is_closed && patterns.is_empty());
        if schema.contains_key("required") {
            out.insert("required".into(), required.into_iter().collect());
        }
        Ok(())
    }

    /// Refuses what is not supported, unless it is trivial.
    fn refuse_object_keywords(&mut self, scope: &Scope<'_>) -> Result<(), GrammarError> {
        let schema = scope.schema;
        if let Some(value) = schema
            .get("propertyNames")
            .filter(|_| self.draft >= Draft::V6)
        {
            let names = self.inner(scope, "propertyNames", value)?;
            if triviality(&names) != Some(true) {
                return Err(scope.refuse("propertyNames", "is not supported"));
            }
        }
        let dependencies = [
            ("dependentRequired", self.draft >= Draft::V2019),
            ("dependentSchemas", self.draft >= Draft::V2019),
            ("dependencies", self.draft <= Draft::V7),
        ];
        for (keyword, is_defined) in dependencies {
            let value = schema.get(keyword).filter(|_| is_defined);
            if value.is_some_and(|value| value.as_object().is_none_or(|map| !map.is_empty())) {
                return Err(scope.refuse(keyword, "is not supported"));
            }
        }
        Ok(())
    }

    /// Rewrites the one of two keywords that applies to the rest of an object or array: `unevaluated…` means the same as
    /// the other where no schema beside it evaluates anything. Each is rewritten once only, since both may be nested.
    fn further(
        &mut self,
        scope: &Scope<'_>,
        (keyword, value): (&str, Option<&Value>),
        unevaluated: &str,
    ) -> Result<Option<Value>, GrammarError> {
        let rest = scope
            .schema
            .get(unevaluated)
            .filter(|_| self.draft >= Draft::V2019);
        let rest = rest.map(|rest| self.inner(scope, unevaluated, rest));
        let rest = rest.transpose()?;
        if let Some(value) = value {
            return self.inner(scope, keyword, value).map(Some);
        }
        match rest.filter(|rest| triviality(rest) != Some(true)) {
            Some(_) if scope.applies_others() => Err(scope.refuse(
                unevaluated,
                "is not supported beside schemas that evaluate the same value",
            )),
            rest => Ok(rest),
        }
    }

    /// Rewrites the keywords about arrays.
    pub(super) fn arrays(
        &mut self,
        scope: &Scope<'_>,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        let least = self.contained(scope)?;
        if scope
            .schema
            .get("uniqueItems")
            .is_some_and(|value| *value != Value::Bool(false))
        {
            return Err(scope.refuse("uniqueItems", "is not supported"));
        }
        let items = scope.schema.get("items");
        let has_list = self.draft < Draft::V2020 && items.is_some_and(Value::is_array);
        let (first, rest) = match (self.draft < Draft::V2020, has_list) {
            (true, true) => (
                items.map(|items| ("items", items)),
                ("additionalItems", scope.schema.get("additionalItems")),
            ),
            (true, false) => (None, ("items", items)),
            (false, _) => {
                let first = scope.schema.get("prefixItems");
                (first.map(|first| ("prefixItems", first)), ("items", items))
            }
        };
        if items.is_some_and(Value::is_array) && !has_list {
            let reason = "is an array, which is `prefixItems` since draft 2020-12";
            return Err(scope.refuse("items", reason));
        }
        if let Some((keyword, value)) = first {
            let schemas = self.list(scope, keyword, value)?;
            out.insert("prefixItems".into(), Value::Array(schemas));
        }
        if let Some(schema) = self.further(scope, rest, "unevaluatedItems")? {
            out.insert("items".into(), schema);
        }
        let least = scope.count("minItems", MAX_COUNT)?.unwrap_or(0).max(least);
        if least > 0 {
            out.insert("minItems".into(), least.into());
        }
        if let Some(most) = scope.count("maxItems", MAX_COUNT)? {
            out.insert("maxItems".into(), most.into());
        }
        Ok(())
    }

    /// Returns how many items `contains` asks for; an error unless every item counts or none needs to.
    fn contained(&mut self, scope: &Scope<'_>) -> Result<u64, GrammarError> {
        let Some(value) = scope
            .schema
            .get("contains")
            .filter(|_| self.draft >= Draft::V6)
        else {
            return Ok(0);
        };
        let counts = self.draft >= Draft::V2019;
        let least = match counts {
            true => scope.count("minContains", MAX_COUNT)?.unwrap_or(1),
            false => 1,
        };
        let has_most = counts && scope.schema.contains_key("maxContains");
        let schema = self.inner(scope, "contains", value)?;
        let evaluates = counts && scope.schema.contains_key("unevaluatedItems");
        match triviality(&schema) {
            _ if has_most || evaluates => Err(scope.refuse("contains", "is not supported")),
            _ if least == 0 => Ok(0),
            Some(true) => Ok(least),
            _ => Err(scope.refuse("contains", "is not supported")),
        }
    }
}

/// Reads `required`.
fn required(scope: &Scope<'_>) -> Result<IndexSet<String>, GrammarError> {
    let Some(value) = scope.schema.get("required") else {
        return Ok(IndexSet::new());
    };
    let names = value
        .as_array()
        .map(|names| names.iter().map(Value::as_str));
    let names: Option<Vec<&str>> = names.and_then(Iterator::collect);
    let names = names.ok_or_else(|| scope.refuse("required", "must be an array of strings"))?;
    Ok(names.into_iter().map(str::to_owned).collect())
}
