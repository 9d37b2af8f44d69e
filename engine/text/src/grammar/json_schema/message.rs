//! Errors of `llguidance`'s compiler of schemas, which are texts.

use serde_json::Value;

use crate::grammar::error::GrammarError;
use crate::grammar::lark::problem_of;

/// What a message of the compiler says, and the keywords of which it is about the first that the schema has.
const MESSAGES: [(&str, &[&str]); 9] = [
    ("oneOf constraints are not supported", &["oneOf"]),
    ("patternProperty regexes", &["patternProperties"]),
    (
        "min/maxProperties only supported",
        &["minProperties", "maxProperties"],
    ),
    ("circular references", &["$ref"]),
    ("determine if regex is empty", &["pattern", "format"]),
    (
        "lookarounds not supported",
        &["pattern", "patternProperties"],
    ),
    ("regex parse error", &["pattern", "patternProperties"]),
    (
        "Failed to generate regex for",
        &[
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "enum",
            "const",
        ],
    ),
    ("multipleOf", &["multipleOf"]),
];

/// Messages about limits.
const LIMITS: [&str; 6] = [
    "schema too large",
    "stack level exceeded",
    "grammar size",
    "too large",
    "fuel",
    "too complex",
];

/// Makes an error of the compiler's message about a schema.
pub(in crate::grammar) fn error_of(message: &str, schema: &Value) -> GrammarError {
    let line = message.lines().next().unwrap_or_default().trim();
    if let Some((_, keywords)) = MESSAGES.iter().find(|(part, _)| message.contains(part)) {
        let mut candidates = keywords.iter();
        let keyword = candidates.find(|keyword| has_keyword(schema, keyword));
        return GrammarError::Keyword {
            keyword: keyword.or(keywords.first()).unwrap_or(&"").to_string(),
            place: None,
            reason: match message.contains("oneOf constraints") {
                true => "has schemas that are not known to accept different values, which is not supported: \
                         `anyOf` of the same schemas is"
                    .into(),
                false => format!("cannot be enforced: {}", problem_of(message)),
            },
        };
    }
    if message.contains("nsatisfiable") {
        let reason = line.rsplit("Unsatisfiable schema: ").next();
        return GrammarError::Unsatisfiable {
            reason: reason.unwrap_or(line).into(),
        };
    }
    if LIMITS.iter().any(|limit| message.contains(limit)) {
        return GrammarError::TooLarge {
            problem: format!("the JSON schema is too complex ({line})"),
        };
    }
    GrammarError::Invalid {
        kind: "JSON schema",
        problem: line.into(),
    }
}

/// Returns whether a value within a schema has a member with a name.
fn has_keyword(schema: &Value, keyword: &str) -> bool {
    match schema {
        Value::Object(members) => {
            members.contains_key(keyword)
                || members.values().any(|value| has_keyword(value, keyword))
        }
        Value::Array(items) => items.iter().any(|item| has_keyword(item, keyword)),
        _ => false,
    }
}
