//! Rules of a call of one tool.

use serde_json::Value;

use super::format::{Syntax, ToolFormat};
use super::json_calls::NAME;
use super::parameters::{Parameter, other_than, parameters};
use super::plain_text::{PlainText, listed_texts};
use super::rules::Rules;
use super::tagged::Tags;
use super::tool::Tool;
use crate::grammar::{CallRules, GrammarError, MAX_CALLS, MAX_PROPERTIES};

/// Strings of Python without line breaks.
const PYTHON_STRING: &str = r#"/"([^"\\\n\r]|\\["'\\nrt])*"|'([^'\\\n\r]|\\["'\\nrt])*'/"#;

/// Any object.
const ANY_OBJECT: &str = r#"{"type": "object"}"#;

/// How many optional parameters share the rules of those that may follow each.
const SHARED: usize = 8;

/// Returns the rules of a call of each tool, which `make` makes of the tool, the name of the first rule, and the most
/// bytes that its rules may have if they are to follow the tool's schema.
pub(crate) fn rules_of_calls<'t>(
    tools: impl Iterator<Item = &'t Tool>,
    make: impl Fn(&Tool, String, usize) -> CallRules,
) -> Vec<CallRules> {
    // The rest is for rules with free arguments, which are short, and for what stands around.
    let mut left = MAX_CALLS / 8 * 7;
    let rules = tools.enumerate().map(|(at, tool)| {
        let rules = make(tool, format!("call{at}"), left);
        left -= rules.exact.as_ref().map_or(0, String::len).min(left);
        rules
    });
    rules.collect()
}

/// Returns the rules of a call whose arguments are JSON between `head` and `tail`.
pub(crate) fn json_call(
    tool: &Tool,
    rule: String,
    limit: usize,
    (head, tail): (&str, &str),
) -> CallRules {
    let text = |schema: &str| format!("{rule}: {head} %json {schema} {tail}\n");
    let exact = text(&tool.closed_parameters().to_string());
    CallRules {
        tool: tool.name().to_owned(),
        is_strict: tool.is_strict(),
        exact: check(exact.len(), limit).map(|()| exact),
        free: text(ANY_OBJECT),
        rule,
    }
}

/// Returns the rules of a call in a format. `has_answer` says whether an answer without calls has a rule.
pub(super) fn call(
    format: &ToolFormat,
    tool: &Tool,
    rule: String,
    limit: usize,
    has_answer: bool,
    control_token: &dyn Fn(&str) -> Option<u32>,
) -> CallRules {
    let (name, schema) = (tool.name(), tool.parameters());
    let mut rules = Rules::new(format, control_token, &format!("{rule}_"));
    let (exact, free) = match &format.syntax {
        Syntax::Json {
            name: name_key,
            arguments,
        } => {
            // In the lexemes of JSON, so that the answer may be other JSON.
            let [name, arguments] =
                [name, arguments].map(|text| Value::from(format!("\"{text}\"")));
            let key = match format.around[0] {
                "" => key_of_bare_name(has_answer),
                _ => Value::from(format!("\"{name_key}\"")).to_string(),
            };
            let head = format!("\"{{\" {key} \": \" {name} \", \" {arguments} \": \"");
            return json_call(tool, rule, limit, (&head, "\"}\""));
        }
        Syntax::Headed { separator, .. } => {
            let head = rules.literal(&format!("{name}{separator}"));
            return json_call(tool, rule, limit, (&head, ""));
        }
        Syntax::Pythonic(_) => (
            rules.pythonic(name, schema, limit),
            format!("{rule}: {}\n", free_pythonic(name)),
        ),
        Syntax::Braced(marks) => {
            let mut any = Rules::new(format, control_token, &format!("{rule}_any"));
            let free = any.free_braced(marks, &rule, name);
            (rules.braced(marks, name, schema, limit), free)
        }
        Syntax::Tagged(tags) => {
            let exact = rules.tagged(tags, name, schema, limit);
            (exact, free_tagged(tags, &rule, name))
        }
    };
    let exact = exact.and_then(|body| {
        let text = format!("{rule}: {body}\n{}", rules.text);
        check(text.len(), limit).map(|()| text)
    });
    CallRules {
        tool: name.to_owned(),
        is_strict: tool.is_strict(),
        rule,
        exact,
        free,
    }
}

/// Returns what comes before the name in a call without marker: each key that the parser reads it from, and before it
/// the type that some models write. No other text begins like that.
fn key_of_bare_name(has_answer: bool) -> String {
    // Such white space may also begin an object that is no call.
    let key = format!("/\\s{{0,16}}\"({})\"/", NAME.join("|"));
    match has_answer {
        // The type is one terminal, as another text ends only behind it. It would hide a key of an answer in JSON.
        true => key,
        false => format!("(/\\s{{0,16}}\"type\": ?\"function\"/ \", \")? {key}"),
    }
}

/// Checks the size of rules.
pub(super) fn check(bytes: usize, limit: usize) -> Result<(), GrammarError> {
    match bytes > limit {
        true => Err(GrammarError::TooLarge {
            problem: format!("the rules of its calls have more than {limit} bytes"),
        }),
        false => Ok(()),
    }
}

/// Checks the number of the parameters in a schema of arguments.
pub(super) fn check_count(schema: &Value) -> Result<(), GrammarError> {
    let count = schema["properties"].as_object().map_or(0, |all| all.len());
    match count > MAX_PROPERTIES {
        true => Err(GrammarError::TooLarge {
            problem: format!(
                "it has {count} parameters, but at most {MAX_PROPERTIES} are supported"
            ),
        }),
        false => Ok(()),
    }
}

/// Returns a call in Python's syntax with any arguments.
fn free_pythonic(name: &str) -> String {
    let value = format!("({PYTHON_STRING} | \"True\" | \"False\" | \"None\" | %json {{}})");
    let argument = format!("/[A-Za-z_][A-Za-z0-9_]*=/ {value}");
    format!("\"{name}(\" ({argument} (\", \" {argument})*)? \")\"")
}

/// Returns a text as a string of a grammar, nothing for none.
fn quoted(text: &str) -> String {
    match text {
        "" => String::new(),
        text => Value::from(text).to_string(),
    }
}

/// Returns the rules of a call with tags and any arguments.
fn free_tagged(tags: &Tags, rule: &str, name: &str) -> String {
    let [head, before_key, after_key, after_value, end] =
        tags.texts(name).map(|text| quoted(&text));
    format!(
        "{rule}: {head} ({before_key} /[^<>\\n]+/ {after_key} {rule}_0)* {end}\n\
         {rule}_0[lazy]: ANY_TEXT {after_value}\n"
    )
}

impl Rules<'_> {
    /// Returns a call in Python's syntax.
    fn pythonic(
        &mut self,
        name: &str,
        schema: &Value,
        limit: usize,
    ) -> Result<String, GrammarError> {
        check_count(schema)?;
        let (mut required, mut optional, mut bytes) = (Vec::new(), Vec::new(), 0);
        for parameter in parameters(schema) {
            let parameter = parameter?;
            let head = Value::from(format!("{}=", parameter.key));
            let item = format!("{head} {}", python_value(&parameter));
            bytes += item.len();
            check(bytes, limit)?;
            match parameter.is_required {
                true => required.push(item),
                false => optional.push(item),
            }
        }
        let arguments = self.members(required, &optional, ", ");
        Ok(format!("\"{name}(\" {arguments} \")\""))
    }

    /// Returns required items and any of some optional ones behind them, with commas between.
    pub(super) fn members(
        &mut self,
        required: Vec<String>,
        optional: &[String],
        comma: &str,
    ) -> String {
        match (required.is_empty(), optional.is_empty()) {
            (true, true) => String::new(),
            (true, false) => {
                // Each is in several rules.
                let items: Vec<String> = optional.iter().map(|item| self.add(item)).collect();
                let (some, _) = self.some_of(&items, comma);
                format!("({some})?")
            }
            (false, _) => required.join(&format!(" \"{comma}\" ")) + &that_follow(optional, comma),
        }
    }

    /// Returns a list of at least one of some optional items with commas between, and what is behind another item: any
    /// of them with commas before. Halves share the rules of their own halves, so that the rules grow like the items.
    fn some_of(&mut self, items: &[String], comma: &str) -> (String, String) {
        if items.len() <= SHARED {
            let from = (0..items.len())
                .map(|at| items[at].clone() + &that_follow(&items[at + 1..], comma));
            let some = from.collect::<Vec<_>>().join(" | ");
            return (self.add(&some), self.add(&that_follow(items, comma)));
        }
        let (first, last) = items.split_at(items.len() / 2);
        let (first, after_first) = self.some_of(first, comma);
        let (last, after_last) = self.some_of(last, comma);
        (
            self.add(&format!("{first} {after_last} | {last}")),
            self.add(&format!("{after_first} {after_last}")),
        )
    }

    /// Returns a call with tags.
    fn tagged(
        &mut self,
        tags: &Tags,
        name: &str,
        schema: &Value,
        limit: usize,
    ) -> Result<String, GrammarError> {
        check_count(schema)?;
        let [head, before_key, after_key, after_value, end] = tags.texts(name);
        let after_value = quoted(&after_value);
        let mut body = quoted(&head);
        for parameter in parameters(schema) {
            let parameter = parameter?;
            let head = quoted(&format!("{before_key}{}{after_key}", parameter.key));
            let value = match PlainText::of(&parameter.schema, &parameter.schema) {
                Some(plain) if plain.is_any => {
                    self.add_with("[lazy]", &format!("ANY_TEXT {after_value}"))
                }
                Some(plain) => format!("{} {after_value}", choice(&plain)),
                None => format!("%json {} {after_value}", parameter.schema),
            };
            body += &match parameter.is_required {
                true => format!(" {head} {value}"),
                false => format!(" ({head} {value})?"),
            };
            check(body.len() + self.text.len(), limit)?;
        }
        Ok(format!("{body} {}", quoted(&end)))
    }
}

/// Returns any of some items, each with a comma before.
fn that_follow(items: &[String], comma: &str) -> String {
    let each = items.iter().map(|item| format!(" (\"{comma}\" {item})?"));
    each.collect()
}

/// Returns one of the texts that a parameter may be.
fn choice(plain: &PlainText<'_>) -> String {
    let null = plain.has_null.then_some("null");
    let texts = plain.choices.iter().copied().chain(null);
    let each: Vec<String> = texts.map(|text| Value::from(text).to_string()).collect();
    format!("({})", each.join(" | "))
}

/// Returns a value of a parameter in Python's syntax.
fn python_value(parameter: &Parameter<'_>) -> String {
    let schema = &parameter.schema;
    if let Some(texts) = listed_texts(schema) {
        let each = texts
            .iter()
            .map(|text| Value::from(Value::from(*text).to_string()).to_string());
        return format!("({})", each.collect::<Vec<_>>().join(" | "));
    }
    match schema["type"].as_str() {
        // A string of JSON is one of Python, and follows all keywords.
        Some("string") if other_than(schema, &["type"]).is_none() => PYTHON_STRING.into(),
        // OLMo writes them as JSON does.
        Some("boolean") => "(\"True\" | \"False\" | \"true\" | \"false\")".into(),
        _ => format!("%json {schema}"),
    }
}
