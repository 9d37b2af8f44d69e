//! Constraints that are made to cost time or memory.

use std::time::{Duration, Instant};

use super::*;
use crate::grammar::json_schema;

/// Compiles constraints, and computes a few masks and forced tokens of those that are accepted, within bounded time.
fn check(name: &str, constraint: Constraint) {
    let compiler = Compiler::new();
    let started = Instant::now();
    if let Ok(mut matcher) = compiler.matcher(&constraint) {
        let mut mask = vec![0; compiler.tokenizer.vocab_size().div_ceil(32)];
        for _ in 0..4 {
            matcher.forced_tokens();
            if matcher.is_complete() || matcher.mask(&mut mask).is_err() {
                break;
            }
            let word = mask.iter().position(|word| *word != 0).unwrap();
            let token = word as u32 * 32 + mask[word].trailing_zeros();
            if matcher.consume(token).is_err() {
                break;
            }
        }
    }
    let time = started.elapsed();
    assert!(time < Duration::from_secs(10), "{name} took {time:?}");
}

#[test]
fn hostile_schemas_are_bounded() {
    let nested = |depth: usize, wrap: &dyn Fn(Value) -> Value| {
        (0..depth).fold(json!({"type": "null"}), |inner, _| wrap(inner))
    };
    let chain: Map<String, Value> = (0..2000)
        .map(|at| {
            (
                at.to_string(),
                json!({"items": {"$ref": format!("#/$defs/{}", at + 1)}}),
            )
        })
        .chain([("2000".to_owned(), json!({}))])
        .collect();
    let options = |count: usize| -> Vec<Value> {
        (0..count).map(|at| json!({"properties": {(at.to_string()): {"type": "string"}}, "minProperties": 1})).collect()
    };
    let properties: Map<String, Value> = (0..1000)
        .map(|at| (format!("name{at}"), json!({"type": "integer"})))
        .collect();
    let patterns: Map<String, Value> = (0..16)
        .map(|at| (format!("^{at}x.*y.*z$"), json!({"type": "integer"})))
        .collect();
    let words: Vec<String> = (0..20_000).map(|at| format!("word number {at}")).collect();
    let cases = [
        ("arrays", nested(200, &|inner| json!({"items": inner}))),
        ("too deep", nested(1000, &|inner| json!({"items": inner}))),
        (
            "unevaluatedProperties",
            nested(60, &|inner| json!({"unevaluatedProperties": inner})),
        ),
        (
            "unevaluatedItems",
            nested(60, &|inner| json!({"unevaluatedItems": inner})),
        ),
        (
            "anyOf",
            nested(16, &|inner| json!({"anyOf": [inner.clone(), inner]})),
        ),
        ("chain", json!({"$ref": "#/$defs/0", "$defs": chain})),
        (
            "product",
            json!({"allOf": vec![json!({"anyOf": options(10)}); 8]}),
        ),
        ("properties", json!({"properties": properties})),
        (
            "patterns",
            json!({"allOf": vec![json!({"patternProperties": patterns}); 50]}),
        ),
        ("enum", json!({"enum": words})),
        (
            "long strings",
            json!({"type": "string", "minLength": 1_000_000}),
        ),
        (
            "many items",
            json!({"type": "array", "minItems": 65536, "items": {"minItems": 65536}}),
        ),
        (
            "pattern",
            json!({"pattern": "^((a{1,1000}){1,1000}){1,1000}$"}),
        ),
        (
            "unicode pattern",
            json!({"pattern": r"^(\p{L}\p{N}?[^\p{L}]){200}$", "minLength": 400}),
        ),
        (
            "intersection",
            json!({"allOf": [{"pattern": "^(a|b)*a(a|b){20}$"}, {"pattern": "^(a|b)*b(a|b){21}$"}]}),
        ),
        (
            "multiples",
            json!({"type": "integer", "multipleOf": 4_000_000_007_u32}),
        ),
    ];
    for (name, schema) in cases {
        check(name, Constraint::JsonSchema(schema));
    }
}

#[test]
fn bounds_and_references_are_cheap_to_check() {
    let bounds = |key: &str, width: u32| {
        let each =
            (0..16_000).map(|at| json!({"exclusiveMinimum": at, "exclusiveMaximum": at + width}));
        json!({"properties": {key: {"anyOf": each.collect::<Vec<_>>()}}})
    };
    let references: Vec<Value> = (0..20_000).map(|_| json!({"$ref": "#far"})).collect();
    let others: Vec<Value> = (0..9000).map(|_| json!({})).collect();
    let nested = (0..400).fold(json!({"type": "null"}), |inner, _| json!({"": inner}));
    let deep: Vec<Value> = (0..900)
        .map(|_| json!({"$ref": format!("#{}", "/".repeat(401))}))
        .collect();
    let cases = [
        ("long names", bounds(&"x".repeat(300_000), 9)),
        ("bounds", bounds("x", 1)),
        (
            "anchors",
            json!({"$defs": {"others": {"anyOf": others}, "z": {"$anchor": "far", "type": "null"}}, "anyOf": references}),
        ),
        ("pointers", json!({"": nested, "anyOf": deep})),
    ];
    for (name, schema) in cases {
        let started = Instant::now();
        let result = json_schema::rewrite(&schema);
        let time = started.elapsed();
        assert!(time < Duration::from_secs(3), "{name} took {time:?}");
        let is_long = name == "long names";
        let is_refused = matches!(result, Err(GrammarError::TooLarge { .. }));
        assert_eq!(is_refused, is_long, "{name}");
    }
}

#[test]
fn hostile_expressions_and_grammars_are_bounded() {
    let rules: String = (0..1500)
        .map(|at| format!("r{at}: r{}\n", at + 1))
        .collect();
    let wide: String = (0..1000)
        .map(|at| format!("start{at}: \"a\" start{at} start{at} | \"a\"\n"))
        .collect();
    let cases = [
        (
            "powers",
            Constraint::Regex("(((a{1,500}){1,500}){1,500}){1,500}".into()),
        ),
        (
            "alternatives",
            Constraint::Regex("(a|aa|aaa)*(b|bb)*".repeat(500)),
        ),
        ("one long word", Constraint::Regex("(a{1000}){1000}".into())),
        ("subsets", Constraint::Regex("(a|b)*a(a|b){30}".into())),
        ("parentheses", Constraint::Regex("(".repeat(30_000))),
        ("long", Constraint::Regex("a".repeat(100_000))),
        ("unicode", Constraint::Regex(r"(\w{1,50}\W){1,50}".into())),
        (
            "chain of rules",
            Constraint::Lark(format!("start: r0\n{rules}r1500: \"a\"")),
        ),
        (
            "ambiguity",
            Constraint::Lark(format!("start: start0\n{wide}")),
        ),
        ("circle", Constraint::Lark("start: a\na: b\nb: a".into())),
        (
            "repetition",
            Constraint::Lark("start: (a ~ 1..100000) ~ 1..100000\na: \"x\" | \"y\"".into()),
        ),
        (
            "parentheses of rules",
            Constraint::Lark(format!("start: {}", "(".repeat(30_000))),
        ),
        ("not Lark", Constraint::Lark("%json {\"type\": ".into())),
        ("empty", Constraint::Lark(String::new())),
        (
            "choices",
            Constraint::Choices((0..4096).map(|at| format!("c{at}")).collect()),
        ),
    ];
    for (name, constraint) in cases {
        check(name, constraint);
    }
}
