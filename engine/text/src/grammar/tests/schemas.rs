//! JSON Schemas: what is accepted, and what is refused by which name.

use super::*;

/// Checks which texts a schema accepts.
fn check(schema: Value, accepted: &[&str], others: &[&str]) {
    let compiler = Compiler::new();
    let matcher = compiler.schema(schema.clone());
    for text in accepted {
        assert!(
            compiler.accepts(&matcher, text),
            "{schema} should accept {text}"
        );
    }
    for text in others {
        assert!(
            !compiler.accepts(&matcher, text),
            "{schema} should not accept {text}"
        );
    }
}

#[test]
fn names_have_one_spelling() {
    let schema = json!({"properties": {"a": {"type": "null"}}, "type": "object"});
    check(
        schema,
        &[r#"{"a":null,"b":1}"#, r#"{"b":1}"#],
        &[r#"{"a":1}"#, r#"{"\u0061":1}"#],
    );
}

#[test]
fn references_are_resolved() {
    let schema = json!({
        "$id": "http://x/tree",
        "type": "object",
        "properties": {"v": {"$ref": "#leaf"}, "n": {"$ref": "http://x/tree#/$defs/list"}},
        "additionalProperties": false,
        "$defs": {"leaf": {"$anchor": "leaf", "type": "integer"}, "list": {"type": "array", "items": {"$ref": "#"}}}
    });
    check(
        schema,
        &[r#"{"v":1,"n":[{"v":2,"n":[]},{}]}"#],
        &[r#"{"v":"x"}"#, r#"{"n":[1]}"#, r#"{"n":[{"v":"x"}]}"#],
    );
}

/// Unions with a discriminator as Pydantic writes them.
#[test]
fn alternatives_that_a_property_tells_apart_may_be_references() {
    let animal = |kind: Value, more: &str| {
        json!({"type": "object", "properties": {"kind": kind, more: {"type": "integer"}},
               "required": ["kind", more], "additionalProperties": false})
    };
    let union = json!({"discriminator": {"propertyName": "kind"},
                       "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]});
    let schema = json!({
        "type": "object", "properties": {"pet": union}, "required": ["pet"], "additionalProperties": false,
        "$defs": {
            "Cat": animal(json!({"const": "cat", "type": "string"}), "lives"),
            "Dog": animal(json!({"$ref": "#/$defs/Dogs"}), "age"),
            "Dogs": {"enum": ["dog", "puppy"], "type": "string"},
        },
    });
    check(
        schema,
        &[
            r#"{"pet":{"kind":"cat","lives":9}}"#,
            r#"{"pet":{"kind":"puppy","age":1}}"#,
        ],
        &[
            r#"{"pet":{"kind":"dog","lives":9}}"#,
            r#"{"pet":{"kind":"cow","age":1}}"#,
            r#"{"pet":{"lives":9}}"#,
        ],
    );
}

#[test]
fn alternatives_that_may_overlap_are_refused_without_a_claim() {
    let union = |cat: Value, dog: Value| json!({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "$defs": {"cat": cat, "dog": dog}});
    let animal =
        |kind: Value| json!({"type": "object", "properties": {"kind": kind}, "required": ["kind"]});
    let without = |keyword: &str| {
        let mut schema = animal(json!({"const": "dog"}));
        schema.as_object_mut().unwrap().remove(keyword);
        schema
    };
    let cat = || animal(json!({"enum": ["cat", "tomcat"]}));
    let compiler = Compiler::new();
    for schema in [
        union(cat(), animal(json!({"enum": ["dog", "cat"]}))),
        union(cat(), animal(json!({"type": "string"}))),
        union(cat(), without("required")),
        union(cat(), without("type")),
        union(cat(), json!({"$ref": "#/$defs/cat"})),
        // The same number.
        union(animal(json!({"const": 1})), animal(json!({"const": 1.0}))),
    ] {
        let constraint = Constraint::JsonSchema(schema.clone());
        let error = compiler.matcher(&constraint).unwrap_err();
        assert_eq!(error.keyword(), Some("oneOf"), "{schema}: {error}");
        let shown = error.to_string();
        assert!(
            shown.contains("not known to accept different values"),
            "{shown}"
        );
        assert!(shown.contains("`anyOf`"), "{shown}");
    }
}

#[test]
fn drafts_differ() {
    let draft = |uri: &str, schema: Value| {
        let mut schema = schema;
        schema["$schema"] = uri.into();
        schema
    };
    let list = json!({"type": "array", "items": [{"type": "null"}], "additionalItems": {"type": "boolean"}});
    let seven = "http://json-schema.org/draft-07/schema#";
    check(
        draft(seven, list.clone()),
        &["[]", "[null,true]"],
        &["[true]", "[null,null]"],
    );
    let new = "https://json-schema.org/draft/2020-12/schema";
    let list = json!({"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"},
                      "additionalItems": {"type": "null"}});
    check(
        draft(new, list),
        &["[]", "[null,true]"],
        &["[true]", "[null,null]"],
    );
    let beside = json!({"properties": {"a": {"$ref": "#/definitions/b", "minimum": 12}},
                        "definitions": {"b": {"type": "integer"}}, "type": "object"});
    check(
        draft(seven, beside.clone()),
        &[r#"{"a":1}"#],
        &[r#"{"a":null}"#],
    );
    check(draft(new, beside), &[r#"{"a":12}"#], &[r#"{"a":1}"#]);
    let exclusive = json!({"type": "integer", "exclusiveMinimum": true, "minimum": 3});
    check(
        draft("http://json-schema.org/draft-04/schema#", exclusive),
        &["4"],
        &["3"],
    );
}

#[test]
fn keywords_of_a_group_stay_together() {
    let schema = json!({
        "type": "object", "patternProperties": {"^a": {"type": "null"}}, "allOf": [{"required": ["b"]}],
        "additionalProperties": {"type": "boolean"}
    });
    check(
        schema,
        &[r#"{"b":true,"a1":null}"#],
        &[r#"{"b":true,"a1":true}"#, r#"{"a1":null}"#],
    );
}

#[test]
fn formats_and_patterns_apply_together() {
    let schema = json!({"type": "string", "format": "date", "pattern": "-29$", "maxLength": 10});
    check(
        schema,
        &["\"2024-02-29\""],
        &["\"2023-02-29\"", "\"2024-02-28\""],
    );
    let schema = json!({"type": "integer", "format": "int32"});
    check(schema, &["1"], &["\"1\""]);
    // An annotation.
    let schema = json!({"type": "string", "format": "password"});
    check(schema, &["\"x\"", "\"\""], &["1"]);
}

#[test]
fn white_space_is_limited() {
    let schema = json!({"type": "array", "items": {"type": "null"}});
    let indented = |columns: usize| format!("[\n{}null\r\n]", " ".repeat(columns));
    let fits = ["[ null]", "[null, null ]", "[\n\n\tnull]", &indented(20)];
    let long = ["[  null]", "[\tnull]", "[\n\n\nnull]", &indented(21)];
    check(schema, &fits, &long);
}

#[test]
fn trivial_values_of_unsupported_keywords_are_accepted() {
    let schema = json!({
        "type": ["array", "object"], "uniqueItems": false, "contains": {}, "not": false, "propertyNames": true,
        "unevaluatedItems": {"type": "null"}, "unevaluatedProperties": false, "if": true, "then": {"type": "array"},
        "else": {"type": "object"}, "minContains": 0
    });
    let compiler = Compiler::new();
    let refused = compiler
        .matcher(&Constraint::JsonSchema(schema.clone()))
        .unwrap_err();
    assert_eq!(refused.keyword(), Some("contains"));
    let mut schema = schema;
    for keyword in ["unevaluatedItems", "unevaluatedProperties", "minContains"] {
        schema.as_object_mut().unwrap().remove(keyword);
    }
    check(schema, &["[1,1]"], &["[]", "{}"]);
    let schema = json!({"properties": {"a": {}}, "unevaluatedProperties": false, "type": "object"});
    check(schema, &["{\"a\":1}"], &["{\"b\":1}"]);
}

#[test]
fn unsupported_keywords_are_refused_by_name() {
    #[rustfmt::skip]
    let refused = [
        ("uniqueItems", json!({"uniqueItems": true})),
        ("contains", json!({"contains": {"type": "null"}})),
        ("not", json!({"not": {"type": "null"}})),
        ("if", json!({"if": {"type": "null"}, "then": {}})),
        ("propertyNames", json!({"propertyNames": {"pattern": "a"}})),
        ("dependentRequired", json!({"dependentRequired": {"a": ["b"]}})),
        ("dependentSchemas", json!({"dependentSchemas": {"a": {}}})),
        ("unevaluatedProperties", json!({"allOf": [{}], "unevaluatedProperties": false})),
        ("unevaluatedItems", json!({"anyOf": [{}], "unevaluatedItems": false})),
        ("$dynamicRef", json!({"$dynamicRef": "#x"})),
        ("$ref", json!({"$ref": "http://example.com/other"})),
        ("$ref", json!({"$ref": "#"})),
        ("$ref", json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})),
        ("$ref", json!({"anyOf": [{"type": "null"}, {"allOf": [{"$ref": "#"}]}]})),
        ("$id", json!({"properties": {"a": {"$id": "x"}, "b": {"$ref": "#/$defs/c"}}, "$defs": {"c": {}}})),
        ("$schema", json!({"$schema": "http://example.com/schema"})),
        ("oneOf", json!({"oneOf": [{"type": "integer"}, {"minimum": 2}]})),
        ("minProperties", json!({"type": "object", "minProperties": 2})),
        ("maxProperties", json!({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1})),
        ("patternProperties", json!({"patternProperties": {"a": {}, "b": {}}})),
        ("pattern", json!({"pattern": "(?=a)"})),
        ("pattern", json!({"pattern": "a(b$)c"})),
        ("format", json!({"format": "idn-email"})),
        ("format", json!({"format": 5})),
        ("multipleOf", json!({"multipleOf": 0.01})),
        ("multipleOf", json!({"allOf": [{"multipleOf": 65537}, {"multipleOf": 65539}]})),
        ("minimum", json!({"minimum": 1e300})),
        ("exclusiveMinimum", json!({"exclusiveMinimum": 0, "maximum": 0.5})),
        ("exclusiveMaximum", json!({"allOf": [{"exclusiveMaximum": -1}, {"minimum": -1.25}]})),
        ("const", json!({"const": 9007199254740993_u64})),
        ("enum", json!({"enum": []})),
        ("enum", json!({"type": "object", "properties": {"a": {"enum": ["\u{1}"]}}})),
        ("type", json!({"type": "text"})),
        ("items", json!({"items": [{}]})),
        ("properties", json!({"properties": 3})),
        ("required", json!({"required": true})),
        ("minLength", json!({"minLength": -1})),
        ("maxItems", json!({"maxItems": 1e9})),
    ];
    let compiler = Compiler::new();
    for (keyword, schema) in refused {
        let error = compiler
            .matcher(&Constraint::JsonSchema(schema.clone()))
            .unwrap_err();
        assert_eq!(error.keyword(), Some(keyword), "{schema}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn contradictions_are_found() {
    let compiler = Compiler::new();
    for schema in [
        json!(false),
        json!({"type": "integer", "minimum": 3, "maximum": 2}),
        json!({"not": {}}),
    ] {
        let error = compiler
            .matcher(&Constraint::JsonSchema(schema.clone()))
            .unwrap_err();
        assert!(
            matches!(error, GrammarError::Unsatisfiable { .. }),
            "{schema}: {error}"
        );
    }
}

#[test]
fn control_characters_of_values_are_escaped() {
    check(
        json!({"const": "a\u{0}b"}),
        &[r#""a\u0000b""#],
        &[r#""ab""#],
    );
}
