//! JSON Schemas: rewrites them to what `llguidance` enforces exactly, or refuses a keyword by name.
//!
//! Drafts 4, 6, 7, 2019-09 and 2020-12 are understood; `$schema` names the draft, by default the last. Supported are
//!
//! - `type`, `enum`, `const`, `allOf`, `anyOf`, `$ref` within the schema (also recursive), `$defs`, `$anchor`, and
//!   `oneOf` whose schemas are known to accept different values, such as objects that a property tells apart;
//! - `properties`, `required`, `additionalProperties`, `patternProperties` whose patterns do not overlap,
//!   `minProperties` and `maxProperties` where no property is optional;
//! - `items`, `prefixItems`, `minItems`, `maxItems`;
//! - `minLength`, `maxLength`, `pattern` without looks around and references, and as `format`: `date`, `time`,
//!   `date-time`, `duration`, `email`, `hostname`, `ipv4`, `ipv6`, `uuid`, `uri`, `json-pointer`,
//!   `relative-json-pointer`, and all that the standard does not define, which it calls annotations;
//! - `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf` (of numbers that `f64` holds exactly);
//! - `unevaluatedProperties` and `unevaluatedItems` beside no schema that evaluates others;
//! - `not`, `if` and others where their value makes them trivial.
//!
//! All others are refused; keywords that the draft does not define are ignored, as it says. A text has the
//! properties of an object in the order in which the schema names them, then further ones; at most 20 characters of
//! white space between tokens; integers without a fraction; and no `\u` escapes but those of control characters.

mod closed;
mod definitions;
mod discriminator;
mod draft;
mod exact;
mod formats;
mod groups;
mod limits;
mod literals;
mod message;
mod numbers;
mod objects;
mod pattern;
mod references;
mod rewriter;
mod scope;
mod strings;

pub use closed::closed;
pub(crate) use closed::names_all_properties;
pub(super) use message::error_of;
pub(crate) use objects::MAX_PROPERTIES;

use serde_json::{Value, json};

use super::error::GrammarError;
use rewriter::Rewriter;

/// The white space between two tokens of JSON: a space, or one or two ends of lines and an indentation, as in llama.cpp's
/// `json_schema_to_grammar`. Small models would fill a text with more.
const WHITE_SPACE: &str = r"\x20|(\x0D?\x0A){1,2}[\x20\x09]{0,20}";

/// Returns an equivalent schema that `llguidance` enforces exactly.
///
/// # Errors
///
/// If the schema is too large, no value satisfies it, or a keyword is not supported.
pub(super) fn rewrite(schema: &Value) -> Result<Value, GrammarError> {
    limits::check(schema)?;
    let mut rewriter = Rewriter::new(schema)?;
    let mut root = match rewriter.schema(schema, "", 0)? {
        Value::Object(root) => root,
        Value::Bool(true) => serde_json::Map::new(),
        _ => {
            return Err(GrammarError::Unsatisfiable {
                reason: "it is `false`".into(),
            });
        }
    };
    let allows_unicode_escapes = rewriter.finish()?;
    let definitions = rewriter.definitions();
    if !definitions.is_empty() {
        root.insert("$defs".into(), Value::Object(definitions));
    }
    let escapes = match allows_unicode_escapes {
        true => "nrbtf\\\"u",
        false => "nrbtf\\\"",
    };
    let options = json!({"whitespace_pattern": WHITE_SPACE, "json_allowed_escapes": escapes});
    root.insert("x-guidance".into(), options);
    Ok(Value::Object(root))
}

/// Makes a rewritten schema accept a space after colons and commas and no other white space.
pub(super) fn make_compact(schema: &mut Value) {
    let options = &mut schema["x-guidance"];
    options["whitespace_pattern"] = Value::Null;
    options["whitespace_flexible"] = false.into();
    options["item_separator"] = ", ".into();
    options["key_separator"] = ": ".into();
}
