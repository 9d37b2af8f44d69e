//! Parsers of calls: every format, in pieces of any size.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::json_scanner::tests::any_json;
use super::*;

/// Writes calls as a model does.
pub(super) type Writer = fn(&[ToolCall]) -> String;

/// The formats and how each writes calls.
pub(super) const FORMATS: [(&str, Writer); 18] = [
    ("gemma4", super::braced_tests::written),
    ("functiongemma", |calls| {
        let text = super::braced_tests::written(calls);
        let text = text.replace("<|tool_call>", "<start_function_call>");
        let text = text.replace("<tool_call|>", "<end_function_call>");
        text.replace("<|\"|>", "<escape>")
    }),
    ("generic", hermes),
    ("hermes", hermes),
    ("qwen3-coder", qwen),
    ("glm", glm),
    ("deepseek", deepseek),
    ("deepseek-r1", deepseek),
    ("lfm2", |calls| {
        let calls = pythonic(calls).join(", ");
        format!("<|tool_call_start|>[{calls}]<|tool_call_end|>")
    }),
    ("olmo3", |calls| {
        let calls = pythonic(calls).join("\n");
        format!("<function_calls>{calls}</function_calls>")
    }),
    ("nemotron", |calls| {
        format!("<TOOLCALL>{}</TOOLCALL>", list(calls))
    }),
    ("mistral", |calls| {
        let each = calls
            .iter()
            .map(|call| format!("[TOOL_CALLS]{}[ARGS]{}", call.name, call.arguments));
        each.collect()
    }),
    ("mistral-list", |calls| {
        format!("[TOOL_CALLS] {}", list(calls))
    }),
    ("cohere", |calls| {
        let list = list(calls).replace("\"name\"", "\"tool_name\"");
        format!("<|START_ACTION|>{list}<|END_ACTION|>")
    }),
    ("phi4", |calls| {
        let each = calls
            .iter()
            .map(|call| format!("<|tool_call|>{}<|/tool_call|>", object(call, "arguments")));
        each.collect()
    }),
    ("granite", |calls| format!("<|tool_call|>{}", list(calls))),
    ("llama3", |calls| {
        let each = calls.iter().map(|call| object(call, "parameters"));
        each.collect::<Vec<_>>().join("; ")
    }),
    ("llama3", |calls| {
        let each = calls
            .iter()
            .map(|call| format!("<|python_tag|>{}", object(call, "parameters")));
        each.collect()
    }),
];

fn deepseek(calls: &[ToolCall]) -> String {
    let each = calls.iter().map(|call| {
        format!(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{}\n```json\n{}\n```<｜tool▁call▁end｜>",
            call.name, call.arguments
        )
    });
    let calls: Vec<String> = each.collect();
    format!(
        "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>",
        calls.join("\n")
    )
}

fn pythonic(calls: &[ToolCall]) -> Vec<String> {
    let each = calls.iter().map(|call| {
        let Value::Object(arguments) = serde_json::from_str(&call.arguments).unwrap() else {
            panic!("{call:?} has no object");
        };
        let each = arguments
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        format!("{}({})", call.name, each.collect::<Vec<_>>().join(", "))
    });
    each.collect()
}

fn object(call: &ToolCall, arguments: &str) -> String {
    format!(
        "{{\"name\": \"{}\", \"{arguments}\": {}}}",
        call.name, call.arguments
    )
}

fn list(calls: &[ToolCall]) -> String {
    let each = calls.iter().map(|call| object(call, "arguments"));
    format!("[{}]", each.collect::<Vec<_>>().join(", "))
}

fn hermes(calls: &[ToolCall]) -> String {
    let each = calls
        .iter()
        .map(|call| format!("<tool_call>\n{}\n</tool_call>", object(call, "arguments")));
    each.collect::<Vec<_>>().join("\n")
}

fn tagged(calls: &[ToolCall], argument: fn(&str, String) -> String) -> Vec<(String, String)> {
    let each = calls.iter().map(|call| {
        let Value::Object(arguments) = serde_json::from_str(&call.arguments).unwrap() else {
            panic!("{call:?} has no object");
        };
        let each = arguments.iter().map(|(key, value)| match value {
            Value::String(text) if key == "text" => argument(key, text.clone()),
            value => argument(key, value.to_string()),
        });
        (call.name.clone(), each.collect())
    });
    each.collect()
}

fn qwen(calls: &[ToolCall]) -> String {
    let calls = tagged(calls, |key, value| {
        format!("<parameter={key}>\n{value}\n</parameter>\n")
    });
    let each = calls.iter().map(|(name, arguments)| {
        format!("<tool_call>\n<function={name}>\n{arguments}</function>\n</tool_call>")
    });
    each.collect::<Vec<_>>().join("\n")
}

fn glm(calls: &[ToolCall]) -> String {
    let calls = tagged(calls, |key, value| {
        format!("<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n")
    });
    let each = calls
        .iter()
        .map(|(name, arguments)| format!("<tool_call>{name}\n{arguments}</tool_call>"));
    each.collect::<Vec<_>>().join("\n")
}

/// Returns three tools, each with a parameter `text` of type string and others of any type.
fn tools() -> Tools {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let names = ["get_weather", "add", "f-1"];
    Tools::new(names.map(|name| Tool::new(name, schema.clone()).unwrap())).unwrap()
}

/// Returns a strategy for calls whose arguments every format can write.
fn any_call() -> impl Strategy<Value = ToolCall> {
    let name = prop_oneof![Just("get_weather"), Just("add"), Just("f-1")];
    let text = "[^<\\x00-\\x1f]{0,12}".prop_map(Value::from);
    let arguments = (
        proptest::option::of(text),
        proptest::collection::btree_map("[a-z]{1,3}", any_json(), 0..3),
    );
    (name, arguments).prop_map(|(name, (text, more))| {
        let mut arguments: Map<String, Value> = more.into_iter().collect();
        arguments.extend(text.map(|text| ("text".to_owned(), text)));
        ToolCall {
            name: name.into(),
            arguments: Value::Object(arguments).to_string(),
        }
    })
}

/// Parses a text that arrives in pieces of these lengths, and again from the first.
fn parse(format: &str, text: &str, lengths: &[usize]) -> (String, Vec<ToolCall>) {
    let format = ToolFormat::named(format).expect("a format");
    let mut parser = ToolParser::new(format, tools(), true);
    let mut events = Vec::new();
    let characters: Vec<char> = text.chars().collect();
    let (mut rest, mut lengths) = (&characters[..], lengths.iter().cycle());
    while !rest.is_empty() {
        let length = lengths
            .next()
            .map_or(rest.len(), |length| (*length).min(rest.len()));
        let (piece, after) = rest.split_at(length);
        events.extend(parser.push(&piece.iter().collect::<String>()));
        rest = after;
    }
    events.extend(parser.finish());
    let (mut content, mut calls) = (String::new(), Vec::new());
    for event in events {
        match event {
            ToolEvent::Content(text) => content.push_str(&text),
            ToolEvent::Call(call) => {
                assert!(call.index == calls.len() - usize::from(call.name.is_none()));
                call.append_to(&mut calls);
            }
        }
    }
    (content, calls)
}

/// Compares calls by what their arguments mean.
fn values(calls: &[ToolCall]) -> Vec<(String, Value)> {
    let each = calls.iter().map(|call| {
        let arguments = serde_json::from_str(&call.arguments);
        (call.name.clone(), arguments.unwrap_or(Value::Null))
    });
    each.collect()
}

proptest! {
    #[test]
    fn written_calls_are_found(
        calls in proptest::collection::vec(any_call(), 1..4),
        lengths in proptest::collection::vec(1..20usize, 1..6),
        content in "([A-Za-z][a-z. ]{0,8}[a-z.])?",
    ) {
        for (format, write) in FORMATS {
            // Tags hold anything but their own end, and a string only as its text.
            let is_tagged = ["qwen3-coder", "glm"].contains(&format);
            if is_tagged && calls.iter().any(|call| call.arguments.contains('<')) {
                continue;
            }
            let is_bare = write(&calls).starts_with('{');
            let content = if is_bare { "" } else { &content };
            let text = format!("{content}\n{}", write(&calls));
            let (found, parsed) = parse(format, &text, &lengths);
            prop_assert_eq!(values(&parsed), values(&calls), "{}: {}", format, text);
            prop_assert_eq!(found, content, "{}: {}", format, text);
        }
    }

    #[test]
    fn pieces_do_not_matter(
        text in "(<tool_call>|</tool_call>|[{}\\[\\]\",:a ]|\\{\"name\": ?\"add\"|, ?\"arguments\": ?\\{|<function=add>|<parameter=a>|</parameter>|\\[TOOL_CALLS\\]|add|\\[ARGS\\]|<\\|tool_call_start\\|>|<\\|tool_call>|<tool_call\\|>|call:add|<\\|\"\\|>|add\\(|a=1|\\)|<arg_key>|\n|é){0,12}",
        lengths in proptest::collection::vec(1..7usize, 1..4),
    ) {
        for (format, _) in FORMATS {
            let whole = parse(format, &text, &[]);
            prop_assert_eq!(&parse(format, &text, &lengths), &whole, "{}: {}", format, text);
            if whole.1.is_empty() && whole.0 != text {
                // Only a call that is cut off is dropped.
                let rest = text.strip_prefix(&*whole.0).unwrap_or_default().trim_start();
                let begins = ToolFormat::named(format).expect("a format").begins;
                let is_call = begins.iter().any(|marker| rest.starts_with(marker));
                prop_assert!(is_call, "{}: {}", format, text);
            }
        }
    }

    #[test]
    fn text_without_calls_is_unchanged(text in ".{0,60}", lengths in proptest::collection::vec(1..9usize, 1..4)) {
        for (format, _) in FORMATS {
            let (content, calls) = parse(format, &text, &lengths);
            prop_assert!(calls.is_empty());
            prop_assert_eq!(&content, &text);
        }
    }
}

#[test]
fn malformed_calls_stay_text() {
    for (format, text) in [
        (
            "hermes",
            "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>",
        ),
        (
            "hermes",
            "<tool_call>{\"name\": \"add\", \"arguments\": [1]}</tool_call>",
        ),
        ("hermes", "<tool_call>{\"arguments\": {}}</tool_call>"),
        ("hermes", "<tool_call>{\"name\": add}</tool_call>"),
        ("hermes", "<tool_call>[]</tool_call> <tool_cal"),
        ("hermes", "{\"name\": \"add\", \"arguments\": {}}"),
        ("llama3", "{\"name\": \"Anna\", \"age\": 5}"),
        (
            "llama3",
            "The answer is {\"name\": \"add\", \"parameters\": {}}",
        ),
        ("mistral", "[TOOL_CALLS]unknown[ARGS]{}"),
        ("lfm2", "<|tool_call_start|>[unknown(a=1)]<|tool_call_end|>"),
        ("olmo3", "<function_calls>\nunknown(a=1)\n</function_calls>"),
        ("nemotron", "<TOOLCALL>[]</TOOLCALL>"),
        (
            "qwen3-coder",
            "<tool_call>\n<function=unknown>\n</function>\n</tool_call>",
        ),
        ("glm", "<tool_call>unknown\n</tool_call>"),
    ] {
        let (content, calls) = parse(format, text, &[3]);
        assert_eq!(calls, [], "{format}: {text}");
        assert_eq!(content, text, "{format}");
    }
}

#[test]
fn variants_of_calls_are_found() {
    let weather = |arguments: &str| ToolCall {
        name: "get_weather".into(),
        arguments: arguments.into(),
    };
    let city = weather("{\"city\": \"Paris\"}");
    for (format, text, content, call) in [
        // The arguments first, or as a string, or absent.
        (
            "hermes",
            "<tool_call>{\"arguments\": {\"city\": \"Paris\"}, \"name\": \"get_weather\"}</tool_call>",
            "",
            &city,
        ),
        (
            "hermes",
            "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Paris\\\"}\"}</tool_call>",
            "",
            &city,
        ),
        (
            "hermes",
            "<tool_call>{\"name\": \"get_weather\"}</tool_call>",
            "",
            &weather("{}"),
        ),
        // A line break in a string, and content on both sides.
        (
            "hermes",
            "Yes.\n<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"a\": \"b\nc\"}}</tool_call>\nDone.",
            "Yes.\nDone.",
            &weather("{\"a\": \"b\\nc\"}"),
        ),
        // Cut off.
        (
            "hermes",
            "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"a\": \"b",
            "",
            &weather("{\"a\": \"b"),
        ),
        // A list in the format of single calls, further keys, no end.
        (
            "hermes",
            "<tool_call>[{\"id\": 5, \"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
            "",
            &city,
        ),
        (
            "llama3",
            "{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
            "",
            &city,
        ),
        (
            "mistral",
            "[TOOL_CALLS]get_weather[CALL_ID]abc123def[ARGS]{\"city\": \"Paris\"}",
            "",
            &city,
        ),
        (
            "mistral",
            "[TOOL_CALLS]get_weather{\"city\": \"Paris\"}",
            "",
            &city,
        ),
        (
            "mistral",
            "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
            "",
            &city,
        ),
        (
            "deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\"}<｜tool▁call▁end｜>",
            "",
            &city,
        ),
        (
            "lfm2",
            "<|tool_call_start|>[get_weather(city='Paris')]<|tool_call_end|>Wait.",
            "Wait.",
            &city,
        ),
        (
            "olmo3",
            "<function_calls>\nget_weather(city='Paris')\n</function_calls>\nWait.",
            "\nWait.",
            &city,
        ),
        (
            "olmo3",
            "<function_calls>[get_weather(city='Paris')]</function_calls>",
            "",
            &city,
        ),
        // Without an end.
        (
            "olmo3",
            "<function_calls>get_weather(city=\"Paris\")</func",
            "",
            &city,
        ),
        // Without the outer tag.
        (
            "qwen3-coder",
            "Yes.\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\nDone.",
            "Yes.\nDone.",
            &city,
        ),
        (
            "qwen3-coder",
            "<function=get_weather><parameter=city>Paris</parameter></function></tool_call>",
            "",
            &city,
        ),
        (
            "glm",
            "<tool_call>get_weather</tool_call>",
            "",
            &weather("{}"),
        ),
    ] {
        let (found, calls) = parse(format, text, &[5]);
        assert_eq!(
            values(&calls),
            values(std::slice::from_ref(call)),
            "{format}: {text}"
        );
        if serde_json::from_str::<Value>(&call.arguments).is_err() {
            assert_eq!(calls[0].arguments, call.arguments, "{format}: {text}");
        }
        assert_eq!(found, content, "{format}: {text}");
    }
}

#[test]
fn functions_need_no_tag_of_their_own_around_them() {
    let function = |name: &str, number: u8| {
        format!("<function={name}>\n<parameter=a>\n{number}\n</parameter>\n</function>")
    };
    let (add, other) = (function("add", 1), function("f-1", 2));
    let both = [
        ("add".to_owned(), json!({ "a": 1 })),
        ("f-1".to_owned(), json!({ "a": 2 })),
    ];
    for (text, count) in [
        (add.clone(), 1),
        (format!("{add}\n{other}"), 2),
        (format!("<tool_call>\n{add}\n{other}\n</tool_call>"), 2),
        (format!("<tool_call>{add}{other}</tool_call>"), 2),
    ] {
        for lengths in [&[][..], &[1], &[3]] {
            let (content, calls) = parse("qwen3-coder", &text, lengths);
            assert_eq!(values(&calls), both[..count], "{text}");
            assert_eq!(content, "", "{text}");
        }
    }
    let text = "<function=unknown></function> <function=add";
    let (content, calls) = parse("qwen3-coder", text, &[1]);
    assert_eq!(
        (&*content, calls),
        ("<function=unknown></function>", Vec::new())
    );
}

#[test]
fn calls_that_are_cut_off_before_their_arguments_are_dropped() {
    for (format, text, content) in [
        ("hermes", "<tool_call>", ""),
        ("hermes", "Well.\n<tool_call>\n{\"name\"", "Well."),
        (
            "hermes",
            "<tool_call>{\"name\": \"add\", \"arguments\": ",
            "",
        ),
        ("mistral", "[TOOL_CALLS]add", ""),
        ("mistral-list", "[TOOL_CALLS] [{\"name\": \"ad", ""),
        ("lfm2", "<|tool_call_start|>[ad", ""),
        ("qwen3-coder", "<tool_call>\n<function=add", ""),
        ("glm", "<tool_call>get_wea", ""),
        (
            "deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add",
            "",
        ),
        // What has no marker may be an answer in JSON, and what is only a part of a marker any text.
        ("llama3", "{\"name\": \"ad", "{\"name\": \"ad"),
        ("hermes", "Well.\n<tool_ca", "Well.\n<tool_ca"),
    ] {
        for lengths in [&[][..], &[1], &[3]] {
            let found = parse(format, text, lengths);
            assert_eq!(found, (content.to_owned(), Vec::new()), "{format}: {text}");
        }
    }
    // Behind a call, nothing but another call has a bracket.
    let call = "{\"name\": \"add\", \"parameters\": {}}";
    let (content, calls) = parse("llama3", &format!("{call}; {{\"na"), &[2]);
    assert_eq!((&*content, calls.len()), ("", 1));
}

#[test]
fn demanded_calls_leave_no_part_of_a_marker() {
    for (format, text) in [
        ("hermes", "<tool_ca"),
        ("hermes", "\n"),
        ("hermes", "<tool_call>{\"name\": \"ad"),
        ("llama3", "{\"name\": \"ad"),
        ("generic", "{"),
    ] {
        let parser = ToolParser::new(ToolFormat::named(format).unwrap(), tools(), true);
        let mut parser = parser.demanding_call(true);
        let mut events = parser.push(text);
        events.extend(parser.finish());
        assert_eq!(events, [], "{format}: {text}");
    }
    // What is malformed stays content.
    let mut parser = ToolParser::new(&GENERIC, tools(), true).demanding_call(true);
    let text = "<tool_call>{\"name\": 5}";
    assert_eq!(parser.push(text), [ToolEvent::Content(text.into())]);
    assert_eq!(parser.finish(), []);
}

#[test]
fn typed_arguments_follow_the_schema() {
    let schema = json!({ "properties": {
        "text": { "type": "string" }, "count": { "type": "integer" }, "maybe": { "type": ["string", "null"] },
        "flag": { "type": "boolean" }, "list": { "type": "array" },
        "either": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
        "none": { "oneOf": [{ "type": "null" }, { "type": "string" }] },
        "code": { "$ref": "#/$defs/code" }, "year": { "enum": ["2025", "2026"] },
    }, "$defs": { "code": { "type": "string" } } });
    let tools = Tools::new([Tool::new("f", schema).unwrap()]).unwrap();
    let format = ToolFormat::named("qwen3-coder").unwrap();
    let mut parser = ToolParser::new(format, tools, true);
    let arguments = [
        ("text", "5"),
        ("count", "5"),
        ("maybe", "null"),
        ("flag", "True"),
        ("list", "[1]"),
        ("either", "01234"),
        ("none", "null"),
        ("code", "7"),
        ("year", "2026"),
        ("new", "a b"),
    ];
    let each = arguments.map(|(key, value)| format!("<parameter={key}>{value}</parameter>"));
    let text = format!(
        "<tool_call><function=f>{}</function></tool_call>",
        each.concat()
    );
    let mut calls = Vec::new();
    for event in parser.push(&text) {
        match event {
            ToolEvent::Call(call) => call.append_to(&mut calls),
            ToolEvent::Content(text) => panic!("{text}"),
        }
    }
    let expected = json!({
        "text": "5", "count": 5, "maybe": null, "flag": true, "list": [1], "either": "01234",
        "none": null, "code": "7", "year": "2026", "new": "a b",
    });
    assert_eq!(values(&calls), [("f".to_owned(), expected)]);
}

#[test]
fn only_the_first_call_is_passed_on_without_parallel_calls() {
    let mut parser = ToolParser::new(&GENERIC, tools(), false);
    let call = |name: &str| ToolCall {
        name: name.into(),
        arguments: "{\"a\": 1}".into(),
    };
    let mut events = parser.push(&hermes(&[call("add"), call("f-1")]));
    events.extend(parser.finish());
    let delta = ToolCallDelta {
        index: 0,
        name: Some("add".into()),
        arguments: "{\"a\": 1}".into(),
    };
    assert_eq!(events, [ToolEvent::Call(delta)]);
}

#[test]
fn long_white_space_is_read_once() {
    let space = " ".repeat(1 << 20);
    let started = std::time::Instant::now();
    for format in ["hermes", "llama3"] {
        assert_eq!(parse(format, &space, &[1000]), (space.clone(), Vec::new()));
    }
    assert!(started.elapsed().as_secs() < 5);
}
