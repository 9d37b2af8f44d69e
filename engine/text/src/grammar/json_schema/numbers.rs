//! Keywords about numbers.

use serde_json::{Map, Value};

use super::draft::Draft;
use super::exact::{Bound, MAX_EXACT, Multiple, is_exact};
use super::rewriter::Rewriter;
use super::scope::Scope;
use crate::grammar::error::GrammarError;

impl Rewriter<'_> {
    /// Rewrites the keywords about numbers.
    pub(super) fn numbers(
        &mut self,
        scope: &Scope<'_>,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        for (bound, exclusive) in [
            ("minimum", "exclusiveMinimum"),
            ("maximum", "exclusiveMaximum"),
        ] {
            let is_exclusive = match scope.schema.get(exclusive) {
                Some(Value::Bool(is_exclusive)) if self.draft == Draft::V4 => Some(*is_exclusive),
                _ => None,
            };
            if let Some(value) = scope.schema.get(bound) {
                let name = match is_exclusive {
                    Some(true) => exclusive,
                    _ => bound,
                };
                self.bound(scope, name, value, out)?;
            }
            if let (Some(value), None) = (scope.schema.get(exclusive), is_exclusive) {
                self.bound(scope, exclusive, value, out)?;
            }
        }
        if let Some(value) = scope.schema.get("multipleOf") {
            let multiple = value.as_f64().and_then(Multiple::new).ok_or_else(|| {
                let reason = format!("is {value}, but must be a positive number without a fraction, or with one whose multiples are exact, such as 0.5");
                scope.refuse("multipleOf", reason)
            })?;
            self.multiples.push((multiple, scope.place.to_owned()));
            out.insert("multipleOf".into(), value.clone());
        }
        Ok(())
    }

    /// Rewrites a bound.
    fn bound(
        &mut self,
        scope: &Scope<'_>,
        keyword: &'static str,
        value: &Value,
        out: &mut Map<String, Value>,
    ) -> Result<(), GrammarError> {
        let Value::Number(number) = value else {
            return Err(scope.refuse(keyword, format!("is {value}, but must be a number")));
        };
        let exact = number.as_f64().filter(|exact| exact.abs() <= MAX_EXACT);
        let Some(exact) = exact.filter(|_| is_exact(number)) else {
            let reason = format!(
                "is {value}, but numbers are compared exactly only up to 2^53, and with few digits"
            );
            return Err(scope.refuse(keyword, reason));
        };
        self.bounds.push(Bound {
            keyword,
            value: exact,
            place: scope.place.to_owned(),
        });
        out.insert(keyword.into(), value.clone());
        Ok(())
    }
}
