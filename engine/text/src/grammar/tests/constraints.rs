//! Every kind of constraint.

use super::*;

#[test]
fn regular_expressions_match_whole_texts() {
    let compiler = Compiler::new();
    let matcher = compiler
        .matcher(&Constraint::Regex("a+(b|é)/?".into()))
        .unwrap();
    for text in ["ab", "aaé", "ab/"] {
        assert!(compiler.accepts(&matcher, text), "{text}");
    }
    for text in ["b", "a", "xab", "abx", ""] {
        assert!(!compiler.accepts(&matcher, text), "{text}");
    }
    let wrong = compiler
        .matcher(&Constraint::Regex("a(".into()))
        .unwrap_err();
    assert!(matches!(wrong, GrammarError::Invalid { .. }), "{wrong}");
    assert_eq!(
        wrong.to_string(),
        "the regular expression cannot be used: unclosed group"
    );
}

#[test]
fn choices_are_plain_texts() {
    let compiler = Compiler::new();
    let choices = ["a.b", "a/\"\\", "ja\n", "é"].map(String::from).to_vec();
    let matcher = compiler
        .matcher(&Constraint::Choices(choices.clone()))
        .unwrap();
    for text in &choices {
        assert!(compiler.accepts(&matcher, text), "{text}");
    }
    assert!(!compiler.accepts(&matcher, "axb"));
    for wrong in [vec![], vec![String::new()]] {
        let error = compiler.matcher(&Constraint::Choices(wrong)).unwrap_err();
        assert_eq!(error, GrammarError::Choices);
    }
}

#[test]
fn the_text_ends_where_nothing_else_can_follow() {
    let compiler = Compiler::new();
    let mut matcher = compiler
        .matcher(&Constraint::Choices(vec!["12".into(), "1".into()]))
        .unwrap();
    let one = compiler.tokenizer.id("1").unwrap();
    let two = compiler.tokenizer.id("2").unwrap();
    assert!(!compiler.allowed(&mut matcher).contains(&compiler.end));
    matcher.consume(one).unwrap();
    assert!(!matcher.is_complete());
    assert!(matcher.is_accepting());
    assert_eq!(compiler.allowed(&mut matcher), [two, compiler.end]);
    let mut other = matcher.clone();
    matcher.consume(compiler.end).unwrap();
    assert!(matcher.is_complete());
    other.consume(two).unwrap();
    assert!(other.is_complete());
}

#[test]
fn tokens_that_must_follow_are_forced() {
    let compiler = Compiler::new();
    let mut matcher = compiler
        .matcher(&Constraint::Regex("true (12|13)x".into()))
        .unwrap();
    let forced = matcher.forced_tokens();
    // The last space and the first digit could be one token in another vocabulary, but are not in this one.
    assert_eq!(compiler.tokenizer.decode(&forced, false), "true ");
    assert_eq!(forced[0], compiler.tokenizer.id("true").unwrap());
    assert_eq!(compiler.allowed(&mut matcher), forced[..1]);
    for token in forced {
        matcher.consume(token).unwrap();
    }
    assert!(matcher.forced_tokens().is_empty());
    // In JSON, white space may follow a brace, but the rest of a name is forced.
    let mut matcher = compiler.schema(json!({"const": {"name": 12}}));
    assert!(matcher.forced_tokens().is_empty());
    for token in compiler.tokenizer.encode("{\"n", false, false).unwrap() {
        matcher.consume(token).unwrap();
    }
    let forced = matcher.forced_tokens();
    assert_eq!(compiler.tokenizer.decode(&forced, false), "ame");
}

#[test]
fn lark_grammars_name_control_tokens() {
    let compiler = Compiler::new();
    let grammar = r#"
        start: TEXT | call
        call: <|call|> %json {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
                              "additionalProperties": false}
        TEXT: /[a-z ]+/
    "#;
    let mut matcher = compiler.matcher(&Constraint::Lark(grammar.into())).unwrap();
    assert!(compiler.accepts(&matcher, "some text"));
    let call = compiler.tokenizer.id(CALL).unwrap();
    assert!(compiler.allowed(&mut matcher).contains(&call));
    // What a text spells is not the token.
    assert!(!compiler.accepts(&matcher, "<|call|>{\"a\":true}"));
    matcher.consume(call).unwrap();
    assert!(compiler.accepts(&matcher, "{\"a\": true}"));
    assert!(!compiler.accepts(&matcher, "{\"a\": 12}"));

    let refused = grammar.replace("\"boolean\"", "\"array\", \"uniqueItems\": true");
    let error = compiler.matcher(&Constraint::Lark(refused)).unwrap_err();
    assert_eq!(error.keyword(), Some("uniqueItems"));
    let unknown = compiler
        .matcher(&Constraint::Lark("start: <|no|>".into()))
        .unwrap_err();
    assert!(unknown.to_string().contains("<|no|>"), "{unknown}");
    let wrong = compiler
        .matcher(&Constraint::Lark("start: A\nA: /[0-9/\n".into()))
        .unwrap_err()
        .to_string();
    assert!(wrong.contains("unclosed character class"), "{wrong}");
    assert!(!wrong.contains('\n'), "{wrong}");
}

#[test]
fn control_tokens_and_padding_are_forbidden() {
    let compiler = Compiler::new();
    let mut matcher = compiler
        .matcher(&Constraint::Regex("(?s:.*)".into()))
        .unwrap();
    let mut mask = vec![u32::MAX; 20];
    matcher.mask(&mut mask).unwrap();
    let size = compiler.tokenizer.vocab_size();
    let is_set = |token: usize| mask[token / 32] >> (token % 32) & 1 == 1;
    assert!(is_set(compiler.end as usize), "the text may end");
    assert!(!is_set(compiler.tokenizer.id(CALL).unwrap() as usize));
    assert!((size..640).all(|token| !is_set(token)));
}

#[test]
fn any_object_is_json() {
    let compiler = Compiler::new();
    let matcher = compiler.matcher(&Constraint::JsonObject).unwrap();
    for text in ["{}", "{\"a\": [1, null, {\"b\": \"é\\n\"}]}"] {
        assert!(compiler.accepts(&matcher, text), "{text}");
    }
    for text in ["[]", "1", "{", "{a: 1}", "{}{}"] {
        assert!(!compiler.accepts(&matcher, text), "{text}");
    }
}
