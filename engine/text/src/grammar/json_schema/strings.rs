//! Keywords about strings.

use serde_json::{Map, Value, json};

use super::formats::{Format, format};
use super::pattern;
use super::rewriter::Rewriter;
use super::scope::Scope;
use crate::grammar::error::GrammarError;

/// The largest bound on the length of a string.
const MAX_LENGTH: u64 = 1 << 20;

impl Rewriter<'_> {
    /// Rewrites the keywords about strings.
    pub(super) fn strings(
        &mut self,
        scope: &Scope<'_>,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        for keyword in ["minLength", "maxLength"] {
            if let Some(length) = scope.count(keyword, MAX_LENGTH)? {
                out.insert(keyword.into(), length.into());
            }
        }
        if let Some(value) = scope.schema.get("pattern") {
            let source = value.as_str().ok_or_else(|| {
                scope.refuse("pattern", format!("is {value}, but must be a string"))
            })?;
            let pattern = pattern::rewrite(source)
                .map_err(|problem| scope.refuse("pattern", format!("{source:?} {problem}")))?;
            out.insert("pattern".into(), pattern.into());
        }
        if let Some(value) = scope.schema.get("format") {
            let name = value.as_str().ok_or_else(|| {
                scope.refuse("format", format!("is {value}, but must be a string"))
            })?;
            match format(name) {
                Some(Format::Known) => {
                    out.insert("format".into(), name.into());
                }
                Some(Format::Pattern(pattern)) => {
                    self.require(out, json!({"pattern": format!("^(?:{pattern})$")}));
                }
                Some(Format::Unsupported) => {
                    let reason = format!("is {value}, which is not supported");
                    return Err(scope.refuse("format", reason));
                }
                // Others are annotations.
                None => {}
            }
        }
        Ok(())
    }
}
