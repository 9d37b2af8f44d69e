//! Rules of calls in braces.

use serde_json::Value;

use super::braced::Marks;
use super::call_rules::{check, check_count};
use super::grammar::ANY_TEXT;
use super::parameters::{other_than, parameters};
use super::plain_text::listed_texts;
use super::rules::Rules;
use crate::grammar::GrammarError;

/// The deepest nesting of schemas that have rules.
const MAX_DEPTH: usize = 16;

/// Values that are written as in JSON.
const SCALAR: &str = r#"%json {"type": ["number", "boolean", "null"]}"#;

impl Rules<'_> {
    /// Returns a call in braces, each of whose arguments follows its schema.
    pub(super) fn braced(
        &mut self,
        marks: &Marks,
        name: &str,
        schema: &Value,
        limit: usize,
    ) -> Result<String, GrammarError> {
        let head = self.literal(&format!("{}{name}", marks.head));
        let arguments = self.braced_object(marks, schema, limit, 0)?;
        Ok(format!("{head} {arguments}"))
    }

    /// Returns an object in braces.
    fn braced_object(
        &mut self,
        marks: &Marks,
        schema: &Value,
        limit: usize,
        depth: usize,
    ) -> Result<String, GrammarError> {
        check_count(schema)?;
        let (mut required, mut optional) = (Vec::new(), Vec::new());
        for parameter in parameters(schema) {
            let parameter = parameter?;
            let key = Value::from(format!("{}:", parameter.key));
            let value = self.braced_value(marks, [&parameter.schema; 2], limit, depth + 1)?;
            let item = self.add(&format!("{key} {value}"));
            check(self.text.len(), limit)?;
            match parameter.is_required {
                true => required.push(item),
                false => optional.push(item),
            }
        }
        Ok(format!(
            "\"{{\" {} \"}}\"",
            self.members(required, &optional, ",")
        ))
    }

    /// Returns a value of a schema, whose references lead to definitions of `root`.
    fn braced_value(
        &mut self,
        marks: &Marks,
        [root, schema]: [&Value; 2],
        limit: usize,
        depth: usize,
    ) -> Result<String, GrammarError> {
        let kind = schema["type"].as_str();
        let refused = |keyword: &str| {
            let reason = "is not supported within arguments that the model does not write as JSON"
                .to_owned();
            Err(GrammarError::refused(keyword, "", reason))
        };
        check(self.text.len(), limit)?;
        if depth > MAX_DEPTH {
            return refused("properties");
        }
        if let Some(texts) = listed_texts(schema) {
            let quote = self.literal(marks.quote);
            let each: Vec<String> = texts
                .iter()
                .map(|text| Value::from(*text).to_string())
                .collect();
            return Ok(format!("{quote} ({}) {quote}", each.join(" | ")));
        }
        let other_than = |known: &[&str]| other_than(schema, known);
        if let Some(reference) = schema["$ref"].as_str() {
            let target = reference
                .strip_prefix('#')
                .and_then(|path| root.pointer(path));
            return match (target, other_than(&["$ref"])) {
                (Some(target), None) => self.braced_value(marks, [root, target], limit, depth + 1),
                _ => refused("$ref"),
            };
        }
        match kind {
            Some("string") => Ok(self.braced_text(marks)),
            Some("integer" | "number" | "boolean" | "null") => Ok(format!("%json {schema}")),
            Some("array") => {
                if let Some(keyword) = other_than(&["type", "items"]) {
                    return refused(keyword);
                }
                let item = match &schema["items"] {
                    Value::Object(_) => {
                        self.braced_value(marks, [root, &schema["items"]], limit, depth + 1)?
                    }
                    _ => return refused("items"),
                };
                let item = self.add(&item);
                Ok(format!("\"[\" ({item} (\",\" {item})*)? \"]\""))
            }
            Some("object") => {
                let known = ["type", "properties", "required", "additionalProperties"];
                if let Some(keyword) = other_than(&known) {
                    return refused(keyword);
                }
                match &schema["properties"] {
                    Value::Object(_) => self.braced_object(marks, schema, limit, depth),
                    _ => refused("properties"),
                }
            }
            _ => refused(other_than(&[]).unwrap_or("type")),
        }
    }

    /// Returns any text between its marks.
    fn braced_text(&mut self, marks: &Marks) -> String {
        let open = self.literal(marks.quote);
        let rest = self.until(ANY_TEXT, marks.quote);
        format!("{open} {rest}")
    }

    /// Returns a call in braces with any arguments: the body of its rule, and further rules.
    pub(super) fn free_braced(&mut self, marks: &Marks, rule: &str, name: &str) -> String {
        let head = self.literal(&format!("{}{name}", marks.head));
        let text = self.braced_text(marks);
        let object = format!("\"{{\" ({rule}_member (\",\" {rule}_member)*)? \"}}\"");
        let list = format!("\"[\" ({rule}_value (\",\" {rule}_value)*)? \"]\"");
        format!(
            "{rule}: {head} {object}\n\
             {rule}_member: /[^<>:,\\[\\]{{}}\\n]+:/ {rule}_value\n\
             {rule}_value: {text} | {object} | {list} | {SCALAR}\n{}",
            self.text
        )
    }
}
