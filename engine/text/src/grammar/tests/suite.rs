//! The JSON Schema Test Suite: each schema is refused by the name of a keyword, or accepts exactly the suite's valid
//! instances.
//!
//! A subset is part of this test. `tests/scripts/json-schema-suite.py` runs the whole suite through [`whole_suite`], and
//! validates random texts of the accepted schemas with Python's `jsonschema`.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Deserialize;

use super::*;

/// A schema with instances.
#[derive(Deserialize)]
struct Group {
    description: String,
    schema: Value,
    tests: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    description: String,
    data: Value,
    valid: bool,
}

/// The texts of a value that differ in the order of properties, up to a limit. Texts have the schema's order, which
/// the instances of the suite do not follow.
fn spellings(value: &Value) -> Vec<String> {
    const MAX: usize = 1000;
    match value {
        // JSON Schema does not distinguish 1.0 from 1; texts have the latter.
        Value::Number(number) => match number.as_f64() {
            Some(whole) if number.is_f64() && whole.fract() == 0.0 && whole.abs() < 1e300 => {
                vec![format!("{whole}")]
            }
            _ => vec![number.to_string()],
        },
        Value::Array(items) => {
            let mut all = vec![String::new()];
            for (at, item) in items.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                let item = spellings(item);
                all = all
                    .iter()
                    .flat_map(|before| {
                        item.iter()
                            .map(move |item| format!("{before}{comma}{item}"))
                    })
                    .take(MAX)
                    .collect();
            }
            all.iter().map(|items| format!("[{items}]")).collect()
        }
        Value::Object(members) => {
            let members: Vec<(String, Vec<String>)> = members
                .iter()
                .map(|(name, value)| (Value::from(name.as_str()).to_string(), spellings(value)))
                .collect();
            let mut all = Vec::new();
            permute(&members, &mut Vec::new(), String::new(), &mut all, MAX);
            all
        }
        other => vec![other.to_string()],
    }
}

fn permute(
    members: &[(String, Vec<String>)],
    used: &mut Vec<usize>,
    before: String,
    all: &mut Vec<String>,
    max: usize,
) {
    if used.len() == members.len() {
        all.push(format!("{{{before}}}"));
    }
    for at in 0..members.len() {
        if used.contains(&at) || all.len() >= max {
            continue;
        }
        used.push(at);
        let (name, values) = &members[at];
        let comma = if used.len() > 1 { "," } else { "" };
        for value in values {
            permute(
                members,
                used,
                format!("{before}{comma}{name}:{value}"),
                all,
                max,
            );
        }
        used.pop();
    }
}

/// What became of a group.
enum Outcome {
    Refused(GrammarError),
    /// What differs from the suite.
    Honoured(Vec<String>),
}

fn run(compiler: &Compiler, group: &Group) -> Outcome {
    let matcher = match compiler.matcher(&Constraint::JsonSchema(group.schema.clone())) {
        Ok(matcher) => matcher,
        Err(error) => return Outcome::Refused(error),
    };
    let mut differences = Vec::new();
    for test in &group.tests {
        let spellings = spellings(&test.data);
        let is_accepted = spellings
            .iter()
            .any(|text| compiler.accepts(&matcher, text));
        if is_accepted != test.valid {
            differences.push(format!(
                "{} (valid: {}): {}",
                test.description, test.valid, spellings[0]
            ));
        }
    }
    Outcome::Honoured(differences)
}

#[test]
fn accepted_schemas_accept_what_is_valid() {
    let files: BTreeMap<String, Vec<Group>> =
        serde_json::from_str(include_str!("suite.json")).unwrap();
    let compiler = Compiler::new();
    let (mut honoured, mut refused) = (0, 0);
    for (file, groups) in &files {
        for group in groups {
            match run(&compiler, group) {
                Outcome::Refused(_) => refused += 1,
                Outcome::Honoured(differences) => {
                    honoured += 1;
                    assert!(
                        differences.is_empty(),
                        "{file}, {}: {differences:#?}",
                        group.description
                    );
                }
            }
        }
    }
    assert!(
        honoured > 2 * refused,
        "{honoured} honoured, {refused} refused"
    );
}

/// Appends a token to the end of a text at random, and texts of accepted schemas to `out`.
fn random_text(compiler: &Compiler, matcher: &GrammarMatcher, seed: u32) -> Option<String> {
    let mut matcher = matcher.clone();
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut tokens = Vec::new();
    for _ in 0..300 {
        if matcher.is_complete() {
            break;
        }
        let mut mask = vec![0; compiler.tokenizer.vocab_size().div_ceil(32)];
        matcher.mask(&mut mask).ok()?;
        let size = compiler.tokenizer.vocab_size() as u32;
        let allowed: Vec<u32> = (0..size)
            .filter(|token| mask[*token as usize / 32] >> (token % 32) & 1 == 1)
            .collect();
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        // The end at every second chance; the printable characters of JSON before others.
        let plain: Vec<u32> = allowed
            .iter()
            .copied()
            .filter(|token| *token < 127)
            .collect();
        let choices = if plain.is_empty() || state.is_multiple_of(16) {
            &allowed
        } else {
            &plain
        };
        let token = match allowed.contains(&compiler.end) && state.is_multiple_of(2) {
            true => compiler.end,
            false => choices[(state / 16) as usize % choices.len()],
        };
        matcher.consume(token).ok()?;
        tokens.extend(Some(token).filter(|token| *token != compiler.end));
    }
    matcher
        .is_complete()
        .then(|| compiler.tokenizer.decode(&tokens, false))
}

/// Runs the files of the folder `WISP_SCHEMA_SUITE`, and writes a line of JSON for each group to the file
/// `WISP_SCHEMA_REPORT`.
#[test]
#[ignore = "needs a copy of the suite: run tests/scripts/json-schema-suite.py"]
fn whole_suite() {
    let variable =
        |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set"));
    let mut report = std::fs::File::create(variable("WISP_SCHEMA_REPORT")).unwrap();
    let compiler = Compiler::new();
    let mut files: Vec<_> = std::fs::read_dir(variable("WISP_SCHEMA_SUITE"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    for path in files {
        let groups: Vec<Group> =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for group in groups {
            let outcome = run(&compiler, &group);
            let mut line = json!({
                "file": path.file_stem().unwrap().to_string_lossy(), "group": group.description,
                "schema": group.schema,
            });
            match outcome {
                Outcome::Refused(error) => {
                    line["refused"] = json!([error.keyword(), error.to_string()])
                }
                Outcome::Honoured(differences) => {
                    let matcher = compiler.schema(group.schema.clone());
                    let texts = (0..40).filter_map(|seed| random_text(&compiler, &matcher, seed));
                    line["differences"] = json!(differences);
                    line["texts"] = texts.collect();
                }
            }
            writeln!(report, "{line}").unwrap();
        }
    }
}
