//! Tests of the table of formats.

use super::*;

#[test]
fn formats_are_recognised_by_templates() {
    for (source, name) in [
        ("{{ '<tool_call>\\n' + tool_call.name }}", "hermes"),
        (
            "<tool_call>\n<function=example>\n<parameter=a>",
            "qwen3-coder",
        ),
        ("'<tool_call>' + name <arg_key>", "glm"),
        ("{{ '[TOOL_CALLS] [' }}", "mistral-list"),
        ("'[TOOL_CALLS]' + name + '[ARGS]'", "mistral"),
        ("<|python_tag|>", "llama3"),
        ("<|tool_list_start|>", "lfm2"),
        ("'<|tool_call>call:' + name", "gemma4"),
        ("<|start_of_role|>available_tools<|end_of_role|>", "granite"),
        ("<|tool|>{{ message['tools'] }}<|/tool|>", "phi4"),
        (
            "'<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>'",
            "deepseek-r1",
        ),
        ("tool['function']['name'] + '<｜tool▁sep｜>'", "deepseek"),
        ("<start_function_call>call:", "functiongemma"),
        ("within <function_calls></function_calls>", "olmo3"),
        ("'<TOOLCALL>[' ", "nemotron"),
        ("{{ message.content }}", "generic"),
    ] {
        assert_eq!(
            ToolFormat::of_model(source, |_| false).name,
            name,
            "{source}"
        );
    }
    for (marker, name) in [
        ("<|tool_call_start|>", "lfm2"),
        ("<tool_call>", "hermes"),
        ("<s>", "generic"),
    ] {
        assert_eq!(
            ToolFormat::of_model("", |token| token == marker).name,
            name,
            "{marker}"
        );
    }
}

#[test]
fn examples_are_calls() {
    let examples = [
        (
            "gemma4",
            "<|tool_call>call:function_name{parameter:…}<tool_call|>",
        ),
        (
            "functiongemma",
            "<start_function_call>call:function_name{parameter:…}<end_function_call>",
        ),
        (
            "generic",
            "<tool_call>\n{\"name\": \"…\", \"arguments\": {…}}\n</tool_call>",
        ),
        (
            "hermes",
            "<tool_call>\n{\"name\": \"…\", \"arguments\": {…}}\n</tool_call>",
        ),
        (
            "qwen3-coder",
            "<tool_call>\n<function=function_name>\n<parameter=parameter>\n…\n</parameter>\n</function>\n</tool_call>",
        ),
        (
            "glm",
            "<tool_call>function_name\n<arg_key>parameter</arg_key>\n<arg_value>…</arg_value>\n</tool_call>",
        ),
        (
            "deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function_name<｜tool▁sep｜>{…}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (
            "deepseek-r1",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>function_name\n```json\n{…}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (
            "lfm2",
            "<|tool_call_start|>[function_name(parameter=…)]<|tool_call_end|>",
        ),
        (
            "olmo3",
            "<function_calls>function_name(parameter=…)</function_calls>",
        ),
        (
            "nemotron",
            "<TOOLCALL>[{\"name\": \"…\", \"arguments\": {…}}]</TOOLCALL>",
        ),
        ("mistral", "[TOOL_CALLS]function_name[ARGS]{…}"),
        (
            "mistral-list",
            "[TOOL_CALLS] [{\"name\": \"…\", \"arguments\": {…}}]",
        ),
        (
            "cohere",
            "<|START_ACTION|>[{\"tool_name\": \"…\", \"parameters\": {…}}]<|END_ACTION|>",
        ),
        (
            "phi4",
            "<|tool_call|>{\"name\": \"…\", \"arguments\": {…}}<|/tool_call|>",
        ),
        (
            "granite",
            "<|tool_call|>[{\"name\": \"…\", \"arguments\": {…}}]",
        ),
        ("llama3", "{\"name\": \"…\", \"parameters\": {…}}"),
    ];
    for (name, _) in tests::FORMATS {
        let example = ToolFormat::named(name).unwrap().example();
        let (_, expected) = examples.iter().find(|(of, _)| *of == name).unwrap();
        assert_eq!(example, *expected, "{name}");
    }
}
