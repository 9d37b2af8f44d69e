//! Tests of chat templates: small versions of the common styles, Python's semantics, and bad
//! templates.

use serde_json::{Map, json};

use super::*;

mod jinja2;
mod prompt;
mod reference;

fn conversation() -> Vec<Message> {
    vec![
        Message::new("user", "Hi"),
        Message::new("assistant", " Hello! "),
        Message::new("user", "Who?"),
    ]
}

fn with_system() -> Vec<Message> {
    let mut messages = conversation();
    messages.insert(0, Message::new("system", "Be brief."));
    messages
}

#[track_caller]
fn check(source: &str, messages: &[Message], expected: &str) {
    let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
    assert_eq!(
        template.render(messages, true, &Map::new()).unwrap(),
        expected
    );
}

fn render(source: &str) -> Result<String, ChatTemplateError> {
    ChatTemplate::new(source, "<s>", "</s>")?.render(&conversation(), true, &Map::new())
}

#[test]
fn qwen_chatml_adds_a_system_message() {
    let source = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    let turns = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n Hello! <|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n";
    let helpful = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n";
    check(source, &conversation(), &format!("{helpful}{turns}"));
    let brief = "<|im_start|>system\nBe brief.<|im_end|>\n";
    check(source, &with_system(), &format!("{brief}{turns}"));
}

#[test]
fn llama_2_alternates_roles() {
    let source = "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";
    check(
        source,
        &with_system(),
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Who? [/INST]",
    );
    let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
    let twice = [Message::new("user", "a"), Message::new("user", "b")];
    let error = template.render(&twice, true, &Map::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chat template refuses the conversation: \
         Conversation roles must alternate user/assistant/user/assistant/..."
    );
}

#[test]
fn llama_3_writes_header_tokens() {
    let source = "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
    check(
        source,
        &conversation(),
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n",
    );
}

#[test]
fn mistral_uses_namespaces_and_indentation() {
    let source = r#"{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}
"#;
    check(
        source,
        &with_system(),
        "<s>[INST] Hi[/INST] Hello!</s>[INST] Be brief.\n\nWho?[/INST]",
    );
}

#[test]
fn gemma_renames_the_assistant() {
    let source = "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}";
    check(
        source,
        &conversation(),
        "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n\
         <start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\n",
    );
}

#[test]
fn phi_3_and_zephyr_end_turns() {
    let phi = "{% for message in messages %}{% if message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}";
    check(
        phi,
        &conversation(),
        "<|user|>\nHi<|end|>\n<|assistant|>\n Hello! <|end|>\n<|user|>\nWho?<|end|>\n<|assistant|>\n",
    );
    let zephyr = "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}";
    check(
        zephyr,
        &conversation(),
        "<|user|>\nHi</s>\n<|assistant|>\n Hello! </s>\n<|user|>\nWho?</s>\n<|assistant|>\n",
    );
}

#[test]
fn generation_blocks_and_loop_controls_work() {
    let source = "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{%- generation -%} {{ m.content.strip() }} {%- endgeneration -%}{% break %}{% endfor %}";
    assert_eq!(render(source).unwrap(), "Hello!");
}

#[test]
fn values_are_written_as_in_python() {
    let source = "{{ true }} {{ none }} {{ ['a', 1, 'it\\'s'] }} {{ {'k': false} }} {{ missing }}|";
    assert_eq!(
        render(source).unwrap(),
        "True None ['a', 1, \"it's\"] {'k': False} |"
    );
}

#[test]
fn tojson_writes_like_json_dumps() {
    let tools = json!([{"type": "function", "name": "sum", "args": {"z": "<é>", "a": []}}]);
    let extra = json!({"tools": tools}).as_object().unwrap().clone();
    let render = |source: &str| {
        let template = ChatTemplate::new(source, "", "").unwrap();
        template.render(&[], false, &extra).unwrap()
    };
    assert_eq!(
        render("{% for tool in tools %}{{ tool | tojson }}{% endfor %}"),
        r#"{"type": "function", "name": "sum", "args": {"z": "<é>", "a": []}}"#
    );
    assert_eq!(
        render("{{ tools[0].args | tojson(indent=2) }}"),
        "{\n  \"z\": \"<é>\",\n  \"a\": []\n}"
    );
    assert_eq!(
        render("{{ tools[0].args | tojson(sort_keys=true, ensure_ascii=true) }}"),
        "{\"a\": [], \"z\": \"<\\u00e9>\"}"
    );
    assert_eq!(render("{{ documents is none }}"), "True");
}

#[test]
fn python_methods_of_strings_and_dictionaries_work() {
    let source = "{% for k, v in {'a': 'x-y'}.items() %}{{ k.upper() }}{{ v.split('-')[-1] }}{% endfor %}{{ 'abc'.startswith('ab') }}{{ 'a,b'.replace(',', ';') }}{{ messages[0].get('name', 'nobody') }}";
    assert_eq!(render(source).unwrap(), "AyTruea;bnobody");
}

#[test]
fn strftime_now_formats_the_present_date() {
    let year = render("{{ strftime_now('%Y') }}").unwrap();
    assert!(year.parse::<u32>().unwrap() >= 2025);
    let day = render("{{ strftime_now('%d %b %Y') }}").unwrap();
    assert_eq!(day.split(' ').count(), 3);
    assert!(matches!(
        render("{{ strftime_now('%!') }}"),
        Err(ChatTemplateError::Failed { .. })
    ));
}

#[test]
fn endless_templates_are_stopped() {
    let loops = "{% for a in range(100000) %}{% for b in range(100000) %}{% set x = a %}{% endfor %}{% endfor %}";
    // Whichever limit a busy machine comes to first.
    assert!(matches!(
        render(loops),
        Err(ChatTemplateError::TooManySteps { .. } | ChatTemplateError::TooSlow { .. })
    ));
    let recursion = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert!(matches!(
        render(recursion),
        Err(ChatTemplateError::Failed { .. })
    ));
    let output = "{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}";
    assert!(matches!(
        render(output),
        Err(ChatTemplateError::TooMuchOutput { .. })
    ));
}

#[test]
fn errors_are_one_line() {
    for source in [
        "{% if %}",
        "{{ 1 +",
        "{{ nothing.more }}",
        "{{ 'a' + 1 }}",
        "{% block",
    ] {
        let error = render(source).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
    }
    let nested = "(".repeat(10_000);
    assert!(render(&format!("{{{{ {nested} }}}}")).is_err());
}

#[test]
fn extra_fields_of_messages_reach_the_template() {
    let message = json!({"role": "assistant", "content": "", "tool_calls": [{"name": "sum"}]});
    let message: Message = serde_json::from_value(message).unwrap();
    let template = ChatTemplate::new("{{ messages[0].tool_calls[0].name }}", "", "").unwrap();
    assert_eq!(
        template.render(&[message], false, &Map::new()).unwrap(),
        "sum"
    );
}

/// DeepSeek's templates write the calls of a message only where its content is none.
#[test]
fn message_with_calls_alone_has_no_content_where_the_template_asks() {
    let message = |content: &str, calls: serde_json::Value| {
        let message = json!({"role": "assistant", "content": content, "tool_calls": calls});
        serde_json::from_value::<Message>(message).unwrap()
    };
    let messages = [
        message("", json!([{"name": "sum"}])),
        message("Hi", json!([{"name": "sum"}])),
        message("", json!([])),
    ];
    let source = "{% for m in messages %}{% if m['content'] is none %}{% for c in m['tool_calls'] %}<{{ c.name }}>{% endfor %}{% else %}({{ m['content'] }}){% endif %}{% endfor %}";
    check(source, &messages, "<sum>(Hi)()");
    check(
        &source.replace("m['content'] is", "m.content is"),
        &messages,
        "<sum>(Hi)()",
    );
    check(
        &source.replace("['content'] is", "[\"content\"] is"),
        &messages,
        "<sum>(Hi)()",
    );
    let other = "{% for m in messages %}{% if m['content'] is not none %}({{ m.content }}){% endif %}{% endfor %}";
    check(other, &messages, "(Hi)()");
    // Other templates join texts.
    check("{{ messages[0].content + '!' }}", &messages, "!");
}

/// As Llama Guard's templates do it.
#[test]
fn messages_are_lists_of_parts_where_the_template_writes_no_others() {
    let selected = "{% for m in messages %}<{{ m.role }}>{% for part in m['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] }}{% endfor %}{% endfor %}";
    let looped = "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}";
    let both = "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].type }}{% endif %}{% endfor %}";
    for source in [selected, looped, both] {
        check(
            source,
            &conversation(),
            "<user>Hi<assistant> Hello! <user>Who?",
        );
    }
    check("{{ messages[0].content }}{# type #}", &conversation(), "Hi");
}

#[test]
fn templates_that_never_end_are_compiled() {
    let endless = "{% for a in range(100000) %}{% for b in range(100000) %}{% set type = a %}{% endfor %}{% endfor %}";
    let started = std::time::Instant::now();
    ChatTemplate::new(endless, "", "").unwrap();
    assert!(started.elapsed().as_secs() < 2);
}
