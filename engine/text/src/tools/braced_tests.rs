//! Calls in braces: what is found in texts, and what grammars accept.

use serde_json::{Value, json};

use super::grammar_tests::{Answers, CONTROL};
use super::*;

/// Writes calls as Gemma 4 does.
pub(super) fn written(calls: &[ToolCall]) -> String {
    let each = calls.iter().map(|call| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        let arguments = value(&arguments, false);
        format!("<|tool_call>call:{}{arguments}<tool_call|>", call.name)
    });
    each.collect()
}

fn value(json: &Value, quotes_keys: bool) -> String {
    let text = |text: &str| format!("<|\"|>{text}<|\"|>");
    match json {
        Value::String(content) => text(content),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| value(item, true)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let members = members.iter().map(|(key, member)| {
                let key = if quotes_keys { text(key) } else { key.clone() };
                format!("{key}:{}", value(member, true))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn tools() -> Tools {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": { "type": "string" },
            "unit": { "type": "string", "enum": ["C", "F"] },
            "hours": { "type": "array", "items": { "$ref": "#/$defs/hour" } },
            "place": {
                "type": "object",
                "properties": { "name": { "type": "string" }, "near": { "type": "boolean" } },
                "required": ["name"],
            },
        },
        "$defs": { "hour": { "type": "integer", "minimum": 0 } },
    });
    let other = json!({ "properties": { "any": {} } });
    Tools::new([
        Tool::new("weather", schema).unwrap(),
        Tool::new("other", other).unwrap(),
    ])
    .unwrap()
}

/// Returns the content and the calls of a text.
fn parsed(text: &str) -> (String, Vec<ToolCall>) {
    let format = ToolFormat::named("gemma4").unwrap();
    let mut parser = ToolParser::new(format, tools(), true);
    let (mut content, mut calls) = (String::new(), Vec::new());
    for event in parser.push(text).into_iter().chain(parser.finish()) {
        match event {
            ToolEvent::Content(text) => content.push_str(&text),
            ToolEvent::Call(call) => call.append_to(&mut calls),
        }
    }
    (content, calls)
}

/// Texts like those of llama.cpp's tests of its parser.
#[test]
fn calls_become_json() {
    for (arguments, json) in [
        ("{}", json!({})),
        (
            "{city:<|\"|>San \"F\" {Cisco}<|\"|>}",
            json!({ "city": "San \"F\" {Cisco}" }),
        ),
        ("{a:42,b:-7,c:2.25}", json!({ "a": 42, "b": -7, "c": 2.25 })),
        (
            "{a:true, b:false, c:null}",
            json!({ "a": true, "b": false, "c": null }),
        ),
        ("{a:[],b:{}}", json!({ "a": [], "b": {} })),
        (
            "{a:[<|\"|>x<|\"|>,{b:[1, 2]}]}",
            json!({ "a": ["x", { "b": [1, 2] }] }),
        ),
        (
            "{<|\"|>a:b<|\"|>:{c:<|\"|><|\"|>}}",
            json!({ "a:b": { "c": "" } }),
        ),
    ] {
        let text = format!("Well.<|tool_call>call:weather{arguments}<tool_call|>");
        let (content, calls) = parsed(&text);
        assert_eq!(content, "Well.", "{text}");
        let found: Value = serde_json::from_str(&calls[0].arguments).unwrap();
        assert_eq!((&*calls[0].name, found), ("weather", json), "{text}");
    }
    // The model ends with the marker of the result that follows.
    let call = "<|tool_call>call:weather{}<tool_call|>";
    let (content, calls) = parsed(&format!("{call}{call}<|tool_response>"));
    assert_eq!((&*content, calls.len()), ("", 2));
}

#[test]
fn malformed_calls_are_no_calls_or_keep_their_first_arguments() {
    for text in [
        "<|tool_call>weather{}<tool_call|>",
        "<|tool_call>call:unknown{}<tool_call|>",
        "<|tool_call>call:weather[]<tool_call|>",
    ] {
        assert_eq!(parsed(text), (text.to_owned(), Vec::new()));
    }
    // Cut off before its arguments.
    let cut = parsed("Well.<|tool_call>call:weather");
    assert_eq!(cut, ("Well.".to_owned(), Vec::new()));
    let deep = "[".repeat(100);
    for rest in [
        "b:",
        "b}",
        "[",
        ",",
        "b:x}",
        "b:]",
        "b:{]",
        &format!("b:{deep}"),
    ] {
        let (_, calls) = parsed(&format!("<|tool_call>call:weather{{a:1,{rest}\n\u{0}"));
        let found = &calls[0].arguments;
        assert!(
            found == "{\"a\": 1}" || found == "{\"a\": 1",
            "{rest}: {found}"
        );
    }
}

#[test]
fn grammars_follow_nested_schemas_with_marks_as_tokens_or_text() {
    for answers in [Answers::new(), Answers::with_control_tokens(&CONTROL[..6])] {
        let control_token = |text: &str| answers.control_token(text);
        let syntax = AnswerSyntax {
            choice: &ToolChoice::Required,
            parallel: false,
            thought: Some(Thought {
                open: Some("<|channel>thought"),
                close: "<channel|>",
                limit: None,
            }),
            answer: None,
            wrapper: None,
            control_token: &control_token,
        };
        let format = ToolFormat::named("gemma4").unwrap();
        let grammar = answers.compile(format.grammar(&tools(), &syntax)).unwrap();
        let accepts =
            |call: &str| answers.accepts(&grammar, &format!("<|tool_call>{call}<tool_call|>"));
        for right in [
            "call:weather{}",
            "call:weather{city:<|\"|>a, b<|\"|>,unit:<|\"|>C<|\"|>}",
            "call:weather{hours:[]}",
            "call:weather{hours:[1,2],place:{name:<|\"|>x<|\"|>,near:true}}",
            // Arguments of a tool whose schema has no rules here.
            "call:other{any:[{a:<|\"|>x<|\"|>},1.5,null]}",
        ] {
            assert!(accepts(right), "{right}");
        }
        for wrong in [
            "call:weather{city:\"x\"}",
            "call:weather{unit:<|\"|>K<|\"|>}",
            "call:weather{hours:[true]}",
            "call:weather{hours:[-1]}",
            "call:weather{place:{near:true}}",
            "call:weather{other:1}",
            "call:other{any:x}",
            "call:unknown{}",
        ] {
            assert!(!accepts(wrong), "{wrong}");
        }
        let call = "<|tool_call>call:weather{}<tool_call|>";
        let thought = "<|channel>thought\nHm. <channel|>";
        assert!(answers.accepts(&grammar, &format!("{thought}{call}")));
        assert!(!answers.accepts(&grammar, &format!("Hm. {call}")));
    }
}
