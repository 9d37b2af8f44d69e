//! What an answer must match: OpenAI's `response_format`, and the parameters of vLLM and llama.cpp for the same.

use serde_json::Value;
use wisp_engine::{
    Error, Model,
    grammar::{Constraint, json_schema},
};

use super::{
    blocking::run_blocking,
    error::ApiError,
    fields::{Fields, parse},
    sampling::{GenerationParams, Requirement},
};

/// Reads what a text that is no answer in a chat must match, and compiles it for the model's tokens.
///
/// # Errors
///
/// If a parameter is invalid, or its schema, expression or grammar is not supported. The error names the parameter.
pub async fn apply(
    fields: &Fields,
    model: &Model,
    params: &mut GenerationParams,
) -> Result<(), ApiError> {
    let Some((name, constraint)) = constraint(fields)? else {
        return Ok(());
    };
    if model.info().is_encoder {
        // Refused where the texts start.
        return Ok(());
    }
    let model = model.clone();
    let compile = move || {
        let grammar = model.grammar(&constraint);
        grammar.map_err(|error| refused(error, Some(name)))
    };
    params.options.constraint = Some(run_blocking(compile).await?);
    Ok(())
}

/// Describes why the text of a request cannot be constrained: `name` is the parameter that says what it must match.
pub(super) fn refused(error: Error, name: Option<&str>) -> ApiError {
    match (error, name) {
        (Error::Grammar(error), Some(name)) => {
            ApiError::parameter(name, format!("{name}: {error}"))
        }
        (error, _) => ApiError::from(error),
    }
}

/// Returns what an answer must match; `None` if it is free.
///
/// # Errors
///
/// If a parameter is invalid, or two are combined. The error names the parameter.
pub(super) fn constraint(fields: &Fields) -> Result<Option<Requirement>, ApiError> {
    let readers: [(&'static str, Reader); 7] = [
        ("response_format", response_format),
        ("structured_outputs", structured_outputs),
        ("guided_json", |fields, name| schema(name, fields.raw(name))),
        ("json_schema", |fields, name| schema(name, fields.raw(name))),
        ("guided_regex", |fields, name| {
            Ok(fields.get(name)?.map(Constraint::Regex))
        }),
        ("guided_choice", |fields, name| {
            Ok(fields.get(name)?.map(Constraint::Choices))
        }),
        ("guided_grammar", |fields, name| {
            let grammar: Option<String> = fields.get(name)?;
            grammar.map(|grammar| lark(name, grammar)).transpose()
        }),
    ];
    let mut found: Option<Requirement> = None;
    for (name, read) in readers {
        let Some(constraint) = read(fields, name)? else {
            continue;
        };
        if let Some((other, _)) = found {
            let message = format!("{name} and {other} cannot be combined");
            return Err(ApiError::parameter(name, message));
        }
        found = Some((name, constraint));
    }
    Ok(found)
}

/// What a parameter asks for.
type Read = Result<Option<Constraint>, ApiError>;

/// Reads the parameter of a name.
type Reader = fn(&Fields, &'static str) -> Read;

/// Reads a JSON Schema: as an object, or as a string that holds one. An empty string is none.
fn schema(name: &str, json: Option<&str>) -> Read {
    let Some(json) = json else {
        return Ok(None);
    };
    let schema = match parse(name, json)? {
        Value::String(text) if text.is_empty() => return Ok(None),
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| ApiError::parameter(name, format!("{name} holds no JSON: {error}")))?,
        schema => schema,
    };
    match schema {
        Value::Object(_) | Value::Bool(_) => Ok(Some(closed(&schema))),
        _ => Err(ApiError::parameter(
            name,
            format!("{name} must be a JSON Schema"),
        )),
    }
}

/// Returns what follows a JSON Schema, without properties that it does not name.
fn closed(schema: &Value) -> Constraint {
    Constraint::JsonSchema(json_schema::closed(schema))
}

/// Reads a grammar.
fn lark(name: &str, grammar: String) -> Result<Constraint, ApiError> {
    let is_rule = |line: &str| {
        let head = line.split_once("::=").map(|(head, _)| head.trim());
        let is_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
        head.is_some_and(|head| !head.is_empty() && head.chars().all(is_name))
    };
    match grammar.lines().any(is_rule) {
        true => {
            let message = format!(
                "{name} is in GBNF or EBNF, whose rules have `::=`, but only grammars in Lark are supported: \
                 `start: \"yes\" | \"no\"`"
            );
            Err(ApiError::parameter(name, message))
        }
        false => Ok(Constraint::Lark(grammar)),
    }
}

/// Reads OpenAI's `response_format`.
fn response_format(fields: &Fields, name: &'static str) -> Read {
    let Some(format) = fields.get::<serde_json::Map<String, Value>>(name)? else {
        return Ok(None);
    };
    let kind = format.get("type");
    let schema = match kind.is_some_and(|kind| kind == "json_object") {
        // As llama.cpp's clients write it.
        true => ("response_format.schema", format.get("schema")),
        false => {
            let format = format.get("json_schema");
            let schema = format.and_then(|format| format.get("schema"));
            ("response_format.json_schema.schema", schema)
        }
    };
    json_format(name, kind, schema)
}

/// Reads the `format` in the `text` of a request for a response.
pub(super) fn text_format(fields: &Fields) -> Result<Option<Requirement>, ApiError> {
    let text: serde_json::Map<String, Value> = fields.get_or("text", serde_json::Map::new())?;
    flat_format("text.format", text.get("format"))
}

/// Reads the `format` in the `output_config` of a message, or `output_format`, its name in Anthropic's beta.
pub(super) fn output_format(fields: &Fields) -> Result<Option<Requirement>, ApiError> {
    let config: serde_json::Map<String, Value> =
        fields.get_or("output_config", serde_json::Map::new())?;
    let older: Option<Value> = fields.get("output_format")?;
    match config.get("format").filter(|format| !format.is_null()) {
        Some(format) => flat_format("output_config.format", Some(format)),
        None => flat_format("output_format", older.as_ref()),
    }
}

/// Reads a format whose schema stands beside its type.
fn flat_format(
    name: &'static str,
    format: Option<&Value>,
) -> Result<Option<Requirement>, ApiError> {
    let Some(format) = format.filter(|format| !format.is_null()) else {
        return Ok(None);
    };
    let path = format!("{name}.schema");
    let constraint = json_format(name, format.get("type"), (&path, format.get("schema")))?;
    Ok(constraint.map(|constraint| (name, constraint)))
}

/// Reads a format that has one of OpenAI's types, and a schema with its path.
fn json_format(name: &str, kind: Option<&Value>, (path, schema): (&str, Option<&Value>)) -> Read {
    match kind.and_then(Value::as_str).unwrap_or_default() {
        "text" => Ok(None),
        "json_object" if schema.is_none_or(Value::is_null) => Ok(Some(Constraint::JsonObject)),
        "json_object" | "json_schema" => {
            let schema = schema.filter(|schema| schema.is_object() || schema.is_boolean());
            let wrong = || ApiError::parameter(path, format!("{path} must be a JSON Schema"));
            Ok(Some(closed(schema.ok_or_else(wrong)?)))
        }
        _ => {
            let path = format!("{name}.type");
            let message = format!("{path} must be text, json_object or json_schema");
            Err(ApiError::parameter(path, message))
        }
    }
}

/// Reads vLLM's `structured_outputs`: an object with one of `json`, `json_object`, `regex`, `choice` and `grammar`, and
/// with others that are ignored.
fn structured_outputs(fields: &Fields, name: &'static str) -> Read {
    let Some(raw) = fields.raw(name) else {
        return Ok(None);
    };
    let inner = Fields::parse(raw.as_bytes()).map_err(|error| error.about(name))?;
    let kinds: [(&str, Read); 5] = [
        ("json", schema("structured_outputs.json", inner.raw("json"))),
        (
            "json_object",
            inner
                .get_or("json_object", false)
                .map(|wants| wants.then_some(Constraint::JsonObject)),
        ),
        (
            "regex",
            inner.get("regex").map(|regex| regex.map(Constraint::Regex)),
        ),
        (
            "choice",
            inner
                .get("choice")
                .map(|choices| choices.map(Constraint::Choices)),
        ),
        (
            "grammar",
            inner.get::<String>("grammar").and_then(|grammar| {
                let grammar = grammar.map(|grammar| lark("structured_outputs.grammar", grammar));
                grammar.transpose()
            }),
        ),
    ];
    if inner.raw("structural_tag").is_some() {
        return Err(ApiError::unsupported("structured_outputs.structural_tag"));
    }
    let one_of = || {
        let message =
            format!("{name} must have one of json, json_object, regex, choice and grammar");
        ApiError::parameter(name, message)
    };
    if kinds.iter().all(|(kind, _)| inner.raw(kind).is_none()) {
        return Err(one_of());
    }
    let mut found = None;
    for (kind, read) in kinds {
        let read = read.map_err(|error| error.with_param(&format!("{name}.{kind}")))?;
        if read.is_some() && found.is_some() {
            return Err(one_of());
        }
        found = found.or(read);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &Value) -> Result<Option<(&'static str, Constraint)>, ApiError> {
        constraint(&Fields::parse(body.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn constraints_come_from_the_parameters_of_several_servers() {
        let schema = json!({"type": "object"});
        let json = Constraint::JsonSchema(schema.clone());
        let choices = Constraint::Choices(vec!["a".into(), "b".into()]);
        for (body, expected) in [
            (json!({}), None),
            (
                json!({"response_format": {"type": "text"}, "guided_regex": null}),
                None,
            ),
            (
                json!({"response_format": {"type": "json_object", "schema": null}}),
                Some(Constraint::JsonObject),
            ),
            (
                json!({"response_format": {"type": "json_object", "schema": schema}}),
                Some(json.clone()),
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": true}}}),
                Some(json.clone()),
            ),
            (json!({"guided_json": schema}), Some(json.clone())),
            (
                json!({"guided_json": schema.to_string()}),
                Some(json.clone()),
            ),
            (json!({"json_schema": schema}), Some(json.clone())),
            (
                json!({"guided_regex": "a+"}),
                Some(Constraint::Regex("a+".into())),
            ),
            (json!({"guided_choice": ["a", "b"]}), Some(choices.clone())),
            (
                json!({"guided_grammar": "start: \"a\""}),
                Some(Constraint::Lark("start: \"a\"".into())),
            ),
            (json!({"structured_outputs": {"json": schema}}), Some(json)),
            (
                json!({"structured_outputs": {"choice": ["a", "b"], "regex": null}}),
                Some(choices),
            ),
            (
                json!({"structured_outputs": {"json_object": true}}),
                Some(Constraint::JsonObject),
            ),
            (json!({"structured_outputs": {"json_object": false}}), None),
        ] {
            let found = read(&body).unwrap_or_else(|error| panic!("{body}: {}", error.body()));
            assert_eq!(found.map(|(_, constraint)| constraint), expected, "{body}");
        }
    }

    #[test]
    fn schemas_of_answers_allow_no_properties_that_they_do_not_name() {
        let schema =
            json!({"properties": {"a": {"properties": {"b": {}}}, "c": {"type": "object"}}});
        let mut strict = schema.clone();
        for object in ["", "/properties/a"] {
            strict.pointer_mut(object).unwrap()["additionalProperties"] = false.into();
        }
        for body in [
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}),
            json!({"guided_json": schema.to_string()}),
            json!({"structured_outputs": {"json": schema}}),
        ] {
            let (_, constraint) = read(&body).unwrap().unwrap();
            assert_eq!(constraint, Constraint::JsonSchema(strict.clone()), "{body}");
        }
    }

    #[test]
    fn strings_of_lark_may_have_the_sign_of_other_grammars() {
        let lark = "start: NAME \" ::= \" NAME\nNAME: /[a-z]+/\n";
        let (_, constraint) = read(&json!({"guided_grammar": lark})).unwrap().unwrap();
        assert_eq!(constraint, Constraint::Lark(lark.into()));
    }

    #[test]
    fn formats_of_responses_are_those_of_chats() {
        let read = |text: Value| {
            let body = json!({ "text": text }).to_string();
            text_format(&Fields::parse(body.as_bytes()).unwrap())
        };
        let schema = json!({"type": "object"});
        for (text, expected) in [
            (json!(null), None),
            (json!({"verbosity": "low", "format": null}), None),
            (json!({"format": {"type": "text"}}), None),
            (
                json!({"format": {"type": "json_object"}}),
                Some(Constraint::JsonObject),
            ),
            (
                json!({"format": {"type": "json_schema", "name": "x", "schema": schema}}),
                Some(Constraint::JsonSchema(schema.clone())),
            ),
        ] {
            let found = read(text).unwrap().map(|(_, constraint)| constraint);
            assert_eq!(found, expected);
        }
        for (text, param) in [
            (json!(5), "text"),
            (json!({"format": "text"}), "text.format.type"),
            (
                json!({"format": {"type": "json_schema", "schema": 5}}),
                "text.format.schema",
            ),
        ] {
            let error = read(text).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{error}");
        }
    }

    #[test]
    fn invalid_constraints_are_named() {
        for (body, param) in [
            (
                json!({"response_format": {"type": "xml"}}),
                "response_format.type",
            ),
            (
                json!({"response_format": {"type": "json_schema"}}),
                "response_format.json_schema.schema",
            ),
            (
                json!({"response_format": {"type": "json_object", "schema": 5}}),
                "response_format.schema",
            ),
            (json!({"response_format": 5}), "response_format"),
            (json!({"guided_json": 5}), "guided_json"),
            (json!({"guided_json": "{"}), "guided_json"),
            (json!({"guided_choice": "a"}), "guided_choice"),
            (
                json!({"guided_regex": "a", "guided_json": {}}),
                "guided_regex",
            ),
            (
                json!({"structured_outputs": {"json": {}, "regex": "a"}}),
                "structured_outputs",
            ),
            (json!({"structured_outputs": {}}), "structured_outputs"),
            (
                json!({"structured_outputs": {"regex": null, "disable_any_whitespace": true}}),
                "structured_outputs",
            ),
            (
                json!({"guided_grammar": "root ::= \"a\""}),
                "guided_grammar",
            ),
            (
                json!({"structured_outputs": {"grammar": "# Either.\nroot ::= \"a\" | \"b\""}}),
                "structured_outputs.grammar",
            ),
            (
                json!({"structured_outputs": {"regex": 5}}),
                "structured_outputs.regex",
            ),
            (
                json!({"structured_outputs": {"structural_tag": "x"}}),
                "structured_outputs.structural_tag",
            ),
        ] {
            let error = read(&body).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{body}: {error}");
        }
    }
}
