//! Texts that must match a schema, a regular expression, a grammar or one of several choices.

use serde_json::json;

use super::*;

#[test]
fn texts_match_what_a_flag_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let schema = folder.path().join("schema.json");
    let content = json!({
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 1, "maximum": 50}},
        "required": ["ok", "n"],
        "additionalProperties": false
    });
    std::fs::write(&schema, content.to_string()).expect("a file");
    let schema = schema.to_str().expect("a path");
    let got = generate(&[
        "A thing: ",
        "--json-schema",
        schema,
        "--temperature",
        "1.5",
        "--seed",
        "3",
    ]);
    assert_eq!(got["finish_reason"], "stop");
    let value: Value = serde_json::from_str(got["text"].as_str().expect("a text")).expect("JSON");
    assert!(
        value["ok"].is_boolean() && (1..=50).contains(&value["n"].as_i64().expect("a number")),
        "{value}"
    );

    let got = generate(&["A thing: ", "--regex", "[0-9]{4}-(a|b)"]);
    let text = got["text"].as_str().expect("a text");
    assert!(
        text.len() == 6 && (text.ends_with("-a") || text.ends_with("-b")),
        "{text}"
    );
    let got = generate(&["A thing: ", "--choices", "red,green and blue"]);
    assert!(
        ["red", "green and blue"].contains(&got["text"].as_str().expect("a text")),
        "{got}"
    );
    let grammar = folder.path().join("grammar.lark");
    std::fs::write(&grammar, "start: \"<\" WORD \">\"\nWORD: /[a-f]{2}/\n").expect("a file");
    let got = generate(&["A thing: ", "--grammar", grammar.to_str().expect("a path")]);
    let text = got["text"].as_str().expect("a text");
    assert!(
        text.len() == 4 && text.starts_with('<') && text.ends_with('>'),
        "{text}"
    );

    let got = generate(&[
        "A thing: ",
        "--regex",
        "[0-9]{400}",
        "--max-new-tokens",
        "5",
    ]);
    assert_eq!(got["finish_reason"], "length");
}

#[test]
fn constraints_that_cannot_be_used_are_errors() {
    let refuse = |input: &str, args: &[&str]| {
        let all = [&["generate", "x", "--device", "host"], args].concat();
        run_with_input(all, input).failed("a constraint")
    };
    let line = refuse(
        "{\"properties\": {\"a\": {\"uniqueItems\": true}}}",
        &["--json-schema", "-"],
    );
    assert!(
        line.contains("`uniqueItems` at /properties/a is not supported"),
        "{line}"
    );
    let line = refuse("{\"type\": ", &["--json-schema", "-"]);
    assert!(line.contains("standard input is not JSON"), "{line}");
    let line = refuse("", &["--json-schema", "no such file"]);
    assert!(line.contains("no such file"), "{line}");
    let line = refuse("", &["--regex", "[0-9"]);
    assert!(
        line.contains("the regular expression cannot be used: unclosed character class"),
        "{line}"
    );
    let line = refuse("start: unknown", &["--grammar", "-"]);
    assert!(line.contains("unknown"), "{line}");
    let line = refuse("", &["--choices", ""]);
    assert!(line.contains("choices"), "{line}");
    let both = run(["generate", "x", "--regex", "a", "--choices", "b"]);
    assert_eq!(both.status, Some(2), "{}", both.stderr);
}

#[test]
fn calls_of_tools_are_lines_of_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tools.json");
    let city = json!({ "enum": ["Rome", "Oslo"] });
    let weather = json!({ "type": "object", "properties": { "city": city }, "required": ["city"] });
    let tools = json!([
        { "type": "function", "function": { "name": "weather", "parameters": weather } },
        { "name": "now" },
    ]);
    std::fs::write(&path, tools.to_string()).expect("a file");
    let path = path.to_str().expect("a path");
    let flags = [
        "--tools",
        path,
        "--tool-choice",
        "weather",
        "--system",
        "Be brief.",
    ];
    let flags = [&["How is it?"][..], &flags, &["--max-new-tokens", "64"]].concat();
    let got = generate(&flags);
    assert_eq!(got["text"], "", "{got}");
    let calls = got["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 1, "{got}");
    assert_eq!(calls[0]["name"], "weather");
    assert!(
        ["Rome", "Oslo"]
            .iter()
            .any(|city| calls[0]["arguments"]["city"] == *city)
    );
    // Without --json, each call is a line.
    let fixed = ["generate", "--device", "host"];
    let lines = run([&fixed[..], &flags].concat()).succeeded().stdout;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(&lines, calls);
    let none = [
        &flags[..3],
        &["--tool-choice", "none", "--max-new-tokens", "5"],
    ]
    .concat();
    let got = generate(&none);
    assert_eq!(got["tool_calls"], json!([]));
    assert!(!got["text"].as_str().expect("a text").is_empty());
    for (wrong, words) in [
        (
            &["--tools", path, "--tool-choice", "other"][..],
            "no tool is called \"other\"",
        ),
        (&["--tools", "absent.json"], "absent.json"),
        (&["--tool-choice", "none"], "--tools"),
    ] {
        let failed = run([&fixed[..], &["Hi"], wrong].concat());
        assert!(
            failed.status != Some(0) && failed.stderr.contains(words),
            "{failed:?}"
        );
    }
}
