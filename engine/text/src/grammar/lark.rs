//! Lark grammars: their inline JSON Schemas are checked like others.

use serde_json::{Deserializer, Value};

use super::error::GrammarError;
use super::json_schema;

/// The largest number of definitions of rules and terminals: the parser recurses from one to those that it refers to.
const MAX_DEFINITIONS: usize = if cfg!(target_arch = "wasm32") {
    256
} else {
    2048
};

/// The deepest nesting of parentheses.
const MAX_NESTING: usize = 64;

/// Checks the size of a Lark grammar, and rewrites its inline JSON Schemas by [`json_schema::rewrite`]. With
/// `is_compact`, their JSON has hardly any white space.
pub(super) fn rewrite(grammar: &str, is_compact: bool) -> Result<String, GrammarError> {
    let mut out = String::with_capacity(grammar.len());
    let (mut definitions, mut nesting) = (0_usize, 0_usize);
    let mut rest = grammar;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("%json") {
            let mut values = Deserializer::from_str(after).into_iter::<Value>();
            let schema = match values.next() {
                Some(Ok(schema)) => schema,
                Some(Err(error)) => return Err(invalid(&format!("%json: {error}"))),
                None => return Err(invalid("%json without a schema")),
            };
            let end = values.byte_offset();
            out.push_str("%json ");
            let mut schema = json_schema::rewrite(&schema)?;
            if is_compact {
                json_schema::make_compact(&mut schema);
            }
            out.push_str(&schema.to_string());
            rest = after.get(end..).unwrap_or_default();
            continue;
        }
        let length = match first {
            '"' => quoted(rest, '"'),
            '/' if !rest.starts_with("//") => quoted(rest, '/'),
            '/' | '#' => rest.find('\n').unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        match first {
            ':' => definitions += 1,
            '(' | '[' | '{' => nesting += 1,
            ')' | ']' | '}' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        check("definitions", definitions, MAX_DEFINITIONS)?;
        check("nested parentheses", nesting, MAX_NESTING)?;
        let (piece, after) = rest.split_at(length);
        out.push_str(piece);
        rest = after;
    }
    Ok(out)
}

/// Returns the length of a string or a regular expression with its delimiters.
fn quoted(text: &str, delimiter: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            _ if character == delimiter => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn check(what: &str, count: usize, max: usize) -> Result<(), GrammarError> {
    match count > max {
        true => Err(GrammarError::TooLarge {
            problem: format!("the grammar has more than {max} {what}"),
        }),
        false => Ok(()),
    }
}

fn invalid(problem: &str) -> GrammarError {
    GrammarError::Invalid {
        kind: "Lark grammar",
        problem: problem_of(problem),
    }
}

/// Returns the part of the parser's message that is about an inline JSON Schema, if it is.
pub(super) fn schema_problem(message: &str) -> Option<&str> {
    let (_, problem) = message.split_once("failed to compile JSON schema: ")?;
    problem.lines().next()
}

/// Returns what a parser's message says in one line, without those that draw the place in the grammar. Of a regular
/// expression that cannot be parsed, the line that begins with `error: ` has the reason.
pub(super) fn problem_of(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default().trim();
    let mut lines = message.lines();
    let reason = lines.find_map(|line| line.strip_prefix("error: "));
    match (first.strip_suffix("regex parse error:"), reason) {
        (Some(before), Some(reason)) => format!("{before}{reason}"),
        _ => first.to_owned(),
    }
}

/// Returns what a parser's message says about a grammar that is made of a constraint of another kind: neither the place
/// in the grammar nor the expression, which the grammar may spell in another way.
pub(super) fn problem_of_generated(message: &str) -> String {
    let problem = problem_of(message);
    if let Some((_, reason)) = problem.rsplit_once(" (in regex): ") {
        return reason.to_owned();
    }
    let rest = problem.strip_prefix("at ").unwrap_or(&problem);
    let is_place =
        |text: &str| text == "EOF" || text.chars().all(|c| c.is_ascii_digit() || "()".contains(c));
    match rest.split_once(": ") {
        Some((place, reason)) if is_place(place) => reason.to_owned(),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_schemas_are_rewritten_and_strings_are_not() {
        let grammar = "start: \"%json {\" a // %json {\na: %json {\"title\": \"x\", \"type\": \"null\"} /%json {/\n";
        let rewritten = rewrite(grammar, false).unwrap();
        assert!(rewritten.starts_with("start: \"%json {\" a // %json {\na: %json {"));
        assert!(!rewritten.contains("title"), "{rewritten}");
        assert!(rewritten.ends_with(" /%json {/\n"), "{rewritten}");
    }

    #[test]
    fn messages_become_one_line_with_the_reason() {
        let regex = "at 1(8): invalid regex \"[0-9\" (in regex): regex parse error:\n    [0-9\n    ^\n\
                     error: unclosed character class\n 1 | start: /[0-9/\n   |        ^\n";
        assert_eq!(
            problem_of(regex),
            "at 1(8): invalid regex \"[0-9\" (in regex): unclosed character class"
        );
        for (message, problem) in [
            (regex, "unclosed character class"),
            ("at 1(8): too large\n 1 | start", "too large"),
            ("1(8): expected a name\n 1 | start", "expected a name"),
            ("at EOF: no rule", "no rule"),
            ("grammar: too large", "grammar: too large"),
        ] {
            assert_eq!(problem_of_generated(message), problem);
        }
    }

    #[test]
    fn refused_keywords_and_sizes_are_named() {
        let refused = rewrite("start: %json {\"uniqueItems\": true}", false).unwrap_err();
        assert_eq!(refused.keyword(), Some("uniqueItems"));
        assert!(rewrite("start: %json {", false).is_err());
        let deep = format!("start: {}", "(".repeat(100));
        let long = "a: b\n".repeat(3000);
        for large in [deep, long] {
            let error = rewrite(&large, false).unwrap_err();
            assert!(matches!(error, GrammarError::TooLarge { .. }), "{error}");
        }
    }
}
