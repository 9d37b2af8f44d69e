//! The drafts of JSON Schema.

use serde_json::Value;

use crate::grammar::error::GrammarError;

/// A draft, ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    V4,
    V6,
    V7,
    V2019,
    V2020,
}

/// The URIs of the drafts, without `#` at the end.
const URIS: [(&str, Draft); 5] = [
    ("http://json-schema.org/draft-04/schema", Draft::V4),
    ("http://json-schema.org/draft-06/schema", Draft::V6),
    ("http://json-schema.org/draft-07/schema", Draft::V7),
    ("https://json-schema.org/draft/2019-09/schema", Draft::V2019),
    ("https://json-schema.org/draft/2020-12/schema", Draft::V2020),
];

impl Draft {
    /// Returns the draft that a schema names, `None` if it names none.
    pub fn named(schema: &Value, place: &str) -> Result<Option<Draft>, GrammarError> {
        let Some(uri) = schema.get("$schema") else {
            return Ok(None);
        };
        let uri = uri.as_str().unwrap_or_default().trim_end_matches('#');
        match URIS.iter().find(|(known, _)| *known == uri) {
            Some((_, draft)) => Ok(Some(*draft)),
            None => Err(GrammarError::refused(
                "$schema",
                place,
                "is not one of the drafts 4, 6, 7, 2019-09 and 2020-12",
            )),
        }
    }
}
