//! The values of `enum` and `const`.

use serde_json::Value;

use super::exact::is_exact;

/// What the values of `enum` or `const` need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Literal {
    /// A string has a control character that only a `\u` escape can spell.
    pub needs_unicode_escape: bool,
    /// A number is not exactly one of `f64`.
    pub is_inexact: bool,
}

/// Returns what a value and those in it need.
pub(super) fn inspect(value: &Value) -> Literal {
    let all = |values: &mut dyn Iterator<Item = &Value>| {
        values
            .map(inspect)
            .fold(Literal::default(), |all, one| Literal {
                needs_unicode_escape: all.needs_unicode_escape || one.needs_unicode_escape,
                is_inexact: all.is_inexact || one.is_inexact,
            })
    };
    match value {
        Value::String(text) => Literal {
            needs_unicode_escape: text.chars().any(needs_unicode_escape),
            ..Literal::default()
        },
        Value::Number(number) => Literal {
            is_inexact: !is_exact(number),
            ..Literal::default()
        },
        Value::Array(items) => all(&mut items.iter()),
        Value::Object(members) => all(&mut members.values()),
        Value::Null | Value::Bool(_) => Literal::default(),
    }
}

fn needs_unicode_escape(character: char) -> bool {
    let is_short = matches!(character, '\n' | '\r' | '\t' | '\u{8}' | '\u{c}');
    (character < ' ' || character == '\u{7f}') && !is_short
}
