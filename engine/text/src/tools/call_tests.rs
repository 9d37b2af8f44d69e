//! Rules of calls: large and hostile schemas, and those that cannot be enforced.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::grammar_tests::Answers;
use super::*;
use crate::grammar::{Grammar, ToolCalls};

/// The formats whose rules differ.
const FORMATS: [&str; 6] = ["hermes", "mistral", "qwen3-coder", "glm", "lfm2", "gemma4"];

fn rules(answers: &Answers, format: &str, tools: &Tools) -> ToolCalls {
    let control_token = |text: &str| answers.control_token(text);
    let syntax = AnswerSyntax {
        choice: &ToolChoice::Required,
        parallel: false,
        thought: None,
        answer: None,
        wrapper: None,
        control_token: &control_token,
    };
    ToolFormat::named(format).unwrap().grammar(tools, &syntax)
}

fn compile(answers: &Answers, format: &str, tools: &Tools) -> Grammar {
    let compiled = answers.compile(rules(answers, format, tools));
    compiled.unwrap_or_else(|error| panic!("{format}: {error}"))
}

/// Writes a call with one argument of JSON, or none.
fn call(format: &str, name: &str, argument: Option<(&str, &str)>) -> String {
    let object = argument.map(|(key, value)| format!("\"{key}\": {value}"));
    let object = object.unwrap_or_default();
    let tagged = |[before, between, after]: [&str; 3]| {
        let argument = argument.map(|(key, value)| format!("{before}{key}{between}{value}{after}"));
        argument.unwrap_or_default()
    };
    match format {
        "hermes" => format!(
            "<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{{object}}}}}\n</tool_call>"
        ),
        "mistral" => format!("[TOOL_CALLS]{name}[ARGS]{{{object}}}"),
        "qwen3-coder" => format!(
            "<tool_call>\n<function={name}>\n{}</function>\n</tool_call>",
            tagged(["<parameter=", ">\n", "\n</parameter>\n"])
        ),
        "glm" => format!(
            "<tool_call>{name}\n{}</tool_call>",
            tagged(["<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"])
        ),
        "lfm2" => format!(
            "<|tool_call_start|>[{name}({})]<|tool_call_end|>",
            tagged(["", "=", ""])
        ),
        "gemma4" => {
            let arguments = tagged(["", ":", ""]).replace(", ", ",");
            let arguments = arguments.replace('"', "<|\"|>");
            format!("<|tool_call>call:{name}{{{arguments}}}<tool_call|>")
        }
        _ => panic!("{format}"),
    }
}

/// Returns a tool with these properties and definitions.
fn tool(name: &str, properties: Map<String, Value>, definitions: Map<String, Value>) -> Tool {
    let schema = json!({"type": "object", "properties": properties, "$defs": definitions});
    Tool::new(name, schema).unwrap()
}

fn properties(count: usize, schema: &Value) -> Map<String, Value> {
    let names = (0..count).map(|at| format!("p{at}"));
    names.map(|name| (name, schema.clone())).collect()
}

#[test]
fn the_rules_of_hostile_tools_are_bounded() {
    let answers = Answers::new();
    let long = json!({"enum": ["x".repeat(300_000)]});
    let long: Map<String, Value> = [("long".to_owned(), long)].into_iter().collect();
    let reference = json!({"$ref": "#/$defs/long"});
    let cases = [
        (
            "unused definitions",
            tool("t", properties(20_000, &json!({})), long.clone()),
        ),
        (
            "used definitions",
            tool("t", properties(900, &reference), long),
        ),
        (
            "many parameters",
            tool(
                "t",
                properties(20_000, &json!({"type": "integer"})),
                Map::new(),
            ),
        ),
    ];
    for (name, tool) in cases {
        let tools = Tools::new([tool]).unwrap();
        for format in FORMATS {
            let started = Instant::now();
            let rules = rules(&answers, format, &tools);
            let bytes = rules.text().len();
            let grammar = answers.compile(rules).unwrap();
            let time = started.elapsed();
            assert!(bytes <= 2 << 20, "{format}, {name}: {bytes} bytes");
            assert!(time < Duration::from_secs(5), "{format}, {name}: {time:?}");
            let call = call(format, "t", None);
            assert!(answers.accepts(&grammar, &call), "{format}, {name}");
        }
    }
}

#[test]
fn definitions_are_not_copied_without_bound() {
    let answers = Answers::new();
    let values = vec![json!({}); 100_000];
    let long: Map<String, Value> = [("long".to_owned(), json!({"anyOf": values}))]
        .into_iter()
        .collect();
    let texts = json!({"type": "string", "default": {"$ref": "#/$defs/long"}});
    let tools = Tools::new([tool("t", properties(1000, &texts), long)]).unwrap();
    for format in FORMATS {
        let started = Instant::now();
        rules(&answers, format, &tools);
        let time = started.elapsed();
        assert!(time < Duration::from_secs(2), "{format}: {time:?}");
    }
}

#[test]
fn any_of_many_optional_parameters_may_follow_another() {
    let answers = Answers::new();
    let integers = properties(300, &json!({"type": "integer"}));
    let tools = Tools::new([tool("t", integers, Map::new())]).unwrap();
    let rules = rules(&answers, "lfm2", &tools);
    assert!(rules.text().len() < 64 << 10, "{}", rules.text().len());
    let grammar = answers.compile(rules).unwrap();
    let accepts = |arguments: &str| {
        let call = format!("<|tool_call_start|>[t({arguments})]<|tool_call_end|>");
        answers.accepts(&grammar, &call)
    };
    for right in [
        "",
        "p0=1",
        "p299=1",
        "p0=1, p1=2, p299=3",
        "p7=1, p8=2",
        "p150=1, p151=2",
    ] {
        assert!(accepts(right), "{right}");
    }
    for wrong in [
        "p1=1, p0=1",
        "p299=1, p298=1",
        "p5=1, p5=1",
        "p0=1,",
        ", p0=1",
        "p0=x",
        "p300=1",
    ] {
        assert!(!accepts(wrong), "{wrong}");
    }
}

#[test]
fn definitions_reach_the_parameters_that_refer_to_them() {
    let answers = Answers::new();
    let definitions = json!({
        "list": {"type": "array", "items": {"$ref": "#/$defs/a~1b/properties/x"}},
        "a/b": {"properties": {"x": {"type": "integer"}}},
        "unused": {"enum": ["unused"]},
    });
    let Value::Object(definitions) = definitions else {
        panic!("{definitions}");
    };
    let list = properties(2, &json!({"$ref": "#/$defs/list"}));
    let tools = Tools::new([tool("t", list, definitions)]).unwrap();
    for format in ["qwen3-coder", "glm", "lfm2"] {
        let rules = rules(&answers, format, &tools);
        assert!(!rules.text().contains("unused"), "{format}");
        let grammar = answers.compile(rules).unwrap();
        let accepts = |value| answers.accepts(&grammar, &call(format, "t", Some(("p0", value))));
        assert!(accepts("[1, 2]"), "{format}");
        assert!(!accepts("[true]"), "{format}");
    }
}

#[test]
fn a_schema_that_cannot_be_enforced_frees_only_its_own_tool() {
    let answers = Answers::new();
    let one = |schema: Value| properties(1, &schema);
    let tools = [
        tool("exact", one(json!({"type": "integer"})), Map::new()),
        // What is refused before and after the schema is rewritten, and what has no place in other formats.
        tool(
            "unique",
            one(json!({"type": "array", "uniqueItems": true})),
            Map::new(),
        ),
        tool(
            "overlapping",
            one(json!({"oneOf": [{"type": "integer"}, {"type": "integer", "minimum": 1}]})),
            Map::new(),
        ),
        tool(
            "remote",
            one(json!({"$ref": "https://example.com/"})),
            Map::new(),
        ),
    ];
    let tools = Tools::new(tools).unwrap();
    for format in FORMATS {
        let grammar = compile(&answers, format, &tools);
        let accepts = |name, argument| answers.accepts(&grammar, &call(format, name, argument));
        for name in ["exact", "unique", "overlapping", "remote"] {
            assert!(accepts(name, None), "{format}: {name}");
            assert!(accepts(name, Some(("p0", "1"))), "{format}: {name}");
            let is_free = name != "exact";
            for other in [Some(("p0", "[{}, {}]")), Some(("other", "\"x\""))] {
                assert_eq!(accepts(name, other), is_free, "{format}: {name} {other:?}");
            }
        }
        assert!(!accepts("other", None), "{format}");
    }
}

#[test]
fn a_strict_tool_whose_schema_cannot_be_enforced_is_refused() {
    let answers = Answers::new();
    let unique = properties(1, &json!({"type": "array", "uniqueItems": true}));
    let overlapping = json!({"oneOf": [{"type": "integer"}, {"type": "integer", "minimum": 1}]});
    for (name, properties, keyword) in [
        ("unique", unique, "uniqueItems"),
        ("overlapping", properties(1, &overlapping), "oneOf"),
    ] {
        let integer = tool(
            "exact",
            self::properties(1, &json!({"type": "integer"})),
            Map::new(),
        );
        let wrong = tool(name, properties, Map::new());
        let tools = |is_strict: bool| {
            let wrong = wrong.clone().with_strict(is_strict);
            Tools::new([integer.clone().with_strict(true), wrong]).unwrap()
        };
        for format in FORMATS {
            // A grammar that was kept for tools that are not strict is not one for these.
            compile(&answers, format, &tools(false));
            let refused = answers.compile(rules(&answers, format, &tools(true)));
            let Err(error) = refused else {
                panic!("{format}: accepted");
            };
            assert_eq!(error.keyword(), Some(keyword), "{format}: {error}");
            let shown = error.to_string();
            let start = format!("the tool {name} is strict, but");
            assert!(shown.starts_with(&start), "{format}: {shown}");
        }
    }
}

/// Returns the value of the argument `p0` of the only call in a text.
fn parsed(format: &str, tools: &Tools, text: &str) -> Value {
    let format = ToolFormat::named(format).unwrap();
    let mut parser = ToolParser::new(format, tools.clone(), true);
    let mut calls = Vec::new();
    for event in parser.push(text).into_iter().chain(parser.finish()) {
        match event {
            ToolEvent::Call(call) => call.append_to(&mut calls),
            ToolEvent::Content(text) => panic!("{}: {text}", format.name),
        }
    }
    let arguments: Value = serde_json::from_str(&calls[0].arguments).unwrap();
    assert_eq!(calls.len(), 1);
    arguments["p0"].clone()
}

#[test]
fn texts_in_tags_have_no_quotes_and_reach_the_client_as_they_are() {
    let answers = Answers::new();
    let definitions = json!({"unit": {"type": "string", "enum": ["C", "F"]}});
    let Value::Object(definitions) = definitions else {
        panic!("{definitions}");
    };
    let texts = ["Paris", "01234", "5", "true"];
    for (schema, right, wrong) in [
        (
            json!({"type": "string"}),
            &[&texts[..], &["null"]].concat()[..],
            &[][..],
        ),
        (json!({"type": ["string", "null"]}), &texts, &[]),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            &texts,
            &[],
        ),
        (
            json!({"oneOf": [{"type": "null"}, {"type": "string"}]}),
            &texts,
            &[],
        ),
        (
            json!({"type": "string", "enum": ["a b", "5", ""]}),
            &["a b", "5", ""],
            &["a", "\"5\""],
        ),
        (
            json!({"enum": ["C", "F"]}),
            &["C", "F"],
            &["K", "\"C\"", "null"],
        ),
        (json!({"const": "C"}), &["C"], &["F", "CC"]),
        (
            json!({"enum": ["a\"b\\", "// %json {", "<[1]>\n/"]}),
            &["a\"b\\", "// %json {", "<[1]>\n/"],
            &[""],
        ),
        (
            json!({"$ref": "#/$defs/unit"}),
            &["C", "F"],
            &["K", "\"C\""],
        ),
        (
            json!({"anyOf": [{"$ref": "#/$defs/unit"}, {"type": "null"}]}),
            &["C"],
            &["K"],
        ),
    ] {
        let tool = tool("t", properties(1, &schema), definitions.clone());
        let tools = Tools::new([tool]).unwrap();
        for format in ["qwen3-coder", "glm"] {
            let grammar = compile(&answers, format, &tools);
            for text in right {
                let call = call(format, "t", Some(("p0", text)));
                assert!(answers.accepts(&grammar, &call), "{schema}: {call}");
                assert_eq!(parsed(format, &tools, &call), **text, "{schema}: {call}");
            }
            for text in wrong {
                let call = call(format, "t", Some(("p0", text)));
                assert!(!answers.accepts(&grammar, &call), "{schema}: {call}");
            }
            if schema.to_string().contains("\"null\"") {
                let call = call(format, "t", Some(("p0", "null")));
                assert!(answers.accepts(&grammar, &call), "{schema}: {call}");
                assert_eq!(parsed(format, &tools, &call), Value::Null, "{schema}");
            }
        }
    }
}

#[test]
fn other_alternatives_than_texts_are_json_in_tags() {
    let answers = Answers::new();
    let schema = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    let tools = Tools::new([tool("t", properties(1, &schema), Map::new())]).unwrap();
    for format in ["qwen3-coder", "glm"] {
        let grammar = compile(&answers, format, &tools);
        for (text, value) in [("5", json!(5)), ("\"5\"", json!("5"))] {
            let call = call(format, "t", Some(("p0", text)));
            assert!(answers.accepts(&grammar, &call), "{call}");
            assert_eq!(parsed(format, &tools, &call), value, "{call}");
        }
        let call = call(format, "t", Some(("p0", "Paris")));
        assert!(!answers.accepts(&grammar, &call), "{call}");
    }
}

#[test]
fn texts_are_those_that_the_schema_lists_in_every_format() {
    let answers = Answers::new();
    for (schema, wrong) in [
        (json!({"type": "string", "enum": ["C", "F"]}), "K"),
        (json!({"type": "string", "const": "C"}), "F"),
        (json!({"const": "C"}), "F"),
    ] {
        let tools = Tools::new([tool("t", properties(1, &schema), Map::new())]).unwrap();
        for format in FORMATS {
            let grammar = compile(&answers, format, &tools);
            let is_tagged = ["qwen3-coder", "glm"].contains(&format);
            let written = |text: &str| match is_tagged {
                true => call(format, "t", Some(("p0", text))),
                false => call(format, "t", Some(("p0", &format!("\"{text}\"")))),
            };
            let right = written("C");
            assert!(answers.accepts(&grammar, &right), "{schema}: {right}");
            assert_eq!(parsed(format, &tools, &right), "C", "{schema}: {right}");
            let wrong = written(wrong);
            assert!(!answers.accepts(&grammar, &wrong), "{schema}: {wrong}");
        }
    }
}

#[test]
fn texts_of_python_follow_all_keywords() {
    let answers = Answers::new();
    for (schema, wrong) in [
        (json!({"type": "string", "minLength": 3}), "12"),
        (json!({"type": "string", "maxLength": 3}), "1234"),
        (json!({"type": "string", "pattern": "^[0-9]+$"}), "abc"),
        (json!({"type": "string", "enum": ["123", null]}), "12"),
    ] {
        let tools = Tools::new([tool("t", properties(1, &schema), Map::new())]).unwrap();
        let grammar = compile(&answers, "lfm2", &tools);
        let written = |text: &str| call("lfm2", "t", Some(("p0", &format!("\"{text}\""))));
        assert!(answers.accepts(&grammar, &written("123")), "{schema}");
        assert!(!answers.accepts(&grammar, &written(wrong)), "{schema}");
    }
}

#[test]
fn as_many_tools_as_are_allowed_are_enforced() {
    let answers = Answers::new();
    let described = json!({"type": "integer", "description": "d".repeat(350)});
    let tools = (0..128).map(|at| tool(&format!("t{at}"), properties(20, &described), Map::new()));
    let tools = Tools::new(tools).unwrap();
    assert!(tools.to_json().to_string().len() > 900_000);
    for format in FORMATS {
        let started = Instant::now();
        let grammar = compile(&answers, format, &tools);
        let time = started.elapsed();
        println!("{format}: {time:?}");
        assert!(time < Duration::from_secs(10), "{format}: {time:?}");
        let accepts =
            |value| answers.accepts(&grammar, &call(format, "t127", Some(("p19", value))));
        assert!(accepts("1"), "{format}");
        assert!(!accepts("true"), "{format}");
    }
}

#[test]
fn thoughts_have_limits_of_any_size() {
    let answers = Answers::new();
    for limit in [1 << 12, 1 << 14, usize::MAX] {
        let thought = Thought {
            open: None,
            close: "</think>",
            limit: Some(limit),
        };
        let grammar = answers
            .compile(thought_grammar(thought, None, &|_| None))
            .unwrap();
        let text = "a<b".repeat(5461);
        let fits = text.len() <= limit;
        let mut matcher = grammar.matcher();
        let mut mask = [0; 8];
        let started = Instant::now();
        let tokens = answers.encode(&format!("{text}</think>"));
        let mut tokens = tokens.iter();
        let is_accepted = tokens.all(|token| {
            matcher.mask(&mut mask).unwrap();
            mask[*token as usize / 32] >> (token % 32) & 1 == 1 && matcher.consume(*token).is_ok()
        });
        println!("{limit}: {:?}", started.elapsed());
        assert_eq!(is_accepted, fits, "{limit}");
    }
}
