//! Random walks through grammars: whatever tokens are chosen, texts that end are valid.

use proptest::prelude::*;

use super::*;

/// Random schemas of the kind that programs use, with a text that each accepts.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "null"})),
        Just(json!({"type": "boolean"})),
        (-20..20_i32, 0..300_i32).prop_map(|(least, width)| {
            json!({"type": "integer", "minimum": least, "maximum": least + width})
        }),
        (0..4_u32, 0..6_u32).prop_map(|(least, more)| {
            json!({"type": "string", "minLength": least, "maxLength": least + more})
        }),
        Just(json!({"enum": ["red", "green", 1, [2, null]]})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), any::<bool>()).prop_map(|(schemas, is_required)| {
                let names: Vec<String> = (0..schemas.len()).map(|at| format!("p{at}")).collect();
                let required = if is_required { names.clone() } else { Vec::new() };
                let properties: Map<String, Value> = names.into_iter().zip(schemas).collect();
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
            }),
            (inner.clone(), 0..3_u32).prop_map(|(items, least)| {
                json!({"type": "array", "items": items, "minItems": least, "maxItems": least + 2})
            }),
            prop::collection::vec(inner, 1..3).prop_map(|schemas| json!({"anyOf": schemas})),
        ]
    })
}

/// Whether a value satisfies one of the schemas above.
fn is_valid(schema: &Value, value: &Value) -> bool {
    if let Some(values) = schema["enum"].as_array() {
        return values.contains(value);
    }
    if let Some(schemas) = schema["anyOf"].as_array() {
        return schemas.iter().any(|schema| is_valid(schema, value));
    }
    let within = |least: &str, number: i64, most: &str| {
        schema[least].as_i64().is_none_or(|least| least <= number)
            && schema[most].as_i64().is_none_or(|most| number <= most)
    };
    match (schema["type"].as_str().unwrap(), value) {
        ("null", Value::Null) | ("boolean", Value::Bool(_)) => true,
        ("integer", Value::Number(number)) => {
            within("minimum", number.as_i64().unwrap(), "maximum")
        }
        ("string", Value::String(text)) => {
            within("minLength", text.chars().count() as i64, "maxLength")
        }
        ("array", Value::Array(items)) => {
            within("minItems", items.len() as i64, "maxItems")
                && items.iter().all(|item| is_valid(&schema["items"], item))
        }
        ("object", Value::Object(members)) => {
            let required = schema["required"].as_array().unwrap();
            required
                .iter()
                .all(|name| members.contains_key(name.as_str().unwrap()))
                && members.iter().all(|(name, value)| {
                    schema["properties"]
                        .get(name)
                        .is_some_and(|schema| is_valid(schema, value))
                })
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn texts_that_end_satisfy_their_schema(schema in schemas(), choices in prop::collection::vec(any::<u32>(), 400)) {
        let compiler = Compiler::new();
        let mut matcher = compiler.schema(schema.clone());
        let mut tokens = Vec::new();
        for choice in choices {
            if matcher.is_complete() {
                break;
            }
            let allowed = compiler.allowed(&mut matcher);
            // The end, where it is allowed, and otherwise any token.
            let token = match allowed.contains(&compiler.end) {
                true => compiler.end,
                false => allowed[choice as usize % allowed.len()],
            };
            matcher.consume(token).unwrap();
            tokens.extend(Some(token).filter(|token| *token != compiler.end));
            for token in matcher.forced_tokens() {
                matcher.consume(token).unwrap();
                tokens.push(token);
            }
        }
        if matcher.is_complete() {
            let text = compiler.tokenizer.decode(&tokens, false);
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert!(is_valid(&schema, &value), "{} does not accept {}", schema, text);
        }
    }
}
