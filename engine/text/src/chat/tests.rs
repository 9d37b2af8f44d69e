//! Conversations with tools through templates in the style of real models.

use serde_json::{Value, json};

use super::*;
use crate::chat_template::{ChatTemplate, ChatTemplateError, ControlTokens, Message};
use crate::grammar::Constraint;
use crate::tokenizer::{HuggingFaceFiles, Tokenizer};
use crate::tools::{Tool, ToolCall, ToolChoice, ToolError, Tools};

/// ChatML without tools, as SmolLM 2 has it.
const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are SmolLM<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Tools and thoughts as Qwen 3 has them.
const QWEN: &str = "{%- if tools %}<|im_start|>system
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Use <tool_call></tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for tool_call in message.tool_calls or [] %}
<tool_call>
{\"name\": \"{{ tool_call.function.name }}\", \"arguments\": {{ tool_call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}";

/// Calls and ids as Mistral has them.
const MISTRAL: &str = "{%- for message in messages %}
{%- if message.role == 'user' %}[INST]{{ message.content }}[/INST]
{%- elif message.tool_calls is defined %}[TOOL_CALLS] [
{%- for tool_call in message.tool_calls %}
{%- if tool_call.id|length != 9 %}{{ raise_exception('Tool call IDs should be 9 characters!') }}{% endif %}
{{- tool_call.function | tojson }}
{%- endfor %}]
{%- elif message.role == 'tool' %}[TOOL_RESULTS]{{ message.content }} {{ message.tool_call_id }}[/TOOL_RESULTS]
{%- endif %}
{%- endfor %}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}";

/// Turns without system message, as Gemma has them.
const GEMMA: &str = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}<start_of_turn>{{ message['role'] }}\n{{ message['content'] }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n";

/// A system message in front of all others, as Qwen 3.5 demands it.
const STRICT: &str = "{% for message in messages %}{% if message.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

/// Arguments as text, and an opened thought, as DeepSeek's R1 has them.
const R1: &str = "{% for message in messages %}{% if message.tool_calls %}{% for tool in message.tool_calls %}{{ '<｜tool▁call▁begin｜>' + tool.function.name + '<｜tool▁sep｜>' + tool.function.arguments }}{% endfor %}{% else %}{{ message.role + ': ' + message.content }}{% endif %}{% endfor %}<｜Assistant｜><think>\n";

/// Calls in braces and thoughts on a channel, as Gemma 4 has them.
const GEMMA_4: &str = "{% for tool in tools or [] %}<|tool>{{ tool['function']['name'] }}<tool|>{% endfor %}{% for message in messages %}<|turn>{{ message.role }}\n{% for call in message.tool_calls or [] %}<|tool_call>call:{{ call['function']['name'] }}{{ '{' }}{% for key, value in call['function']['arguments'] | dictsort %}{{ key }}:<|\"|>{{ value }}<|\"|>{% endfor %}{{ '}' }}<tool_call|>{% endfor %}{{ message.content }}<turn|>\n{% endfor %}<|turn>model\n{% if not enable_thinking | default(false) %}<|channel>thought\n<channel|>{% endif %}";

/// A text or a thought beside a call, but not both, as gpt-oss has it.
const HARMONY: &str = "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}{% for message in messages %}{% if message.tool_calls %}{% if message.content and message.thinking %}{{ raise_exception('Cannot pass both') }}{% endif %}<analysis>{{ message.content or message.thinking }}</analysis>{{ message.tool_calls[0].function.name }}{% else %}{{ message.role + ': ' + message.content }}{% endif %}{% endfor %}";

/// Returns a tokenizer of single characters with control tokens.
fn tokenizer(template: &str) -> Tokenizer {
    let characters = (' '..='~').chain(['\n', '｜', '▁']);
    let vocab: serde_json::Map<String, Value> = characters
        .zip(0..)
        .map(|(c, id)| (c.into(), Value::from(id)))
        .collect();
    let count = vocab.len();
    let control = [
        "<|im_end|>",
        "<|im_start|>",
        "[TOOL_CALLS]",
        "<end_of_turn>",
        "<|channel>",
        "<channel|>",
        "<|tool_call>",
        "<tool_call|>",
        "<|tool_response>",
        "<|\"|>",
    ];
    let added: Vec<Value> = control
        .iter()
        .enumerate()
        .map(|(at, text)| {
            json!({
                "id": count + at, "content": text, "special": true, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false,
            })
        })
        .collect();
    let json =
        json!({ "model": { "type": "BPE", "vocab": vocab, "merges": [] }, "added_tokens": added });
    Tokenizer::from_files(&HuggingFaceFiles {
        tokenizer: json.to_string().as_bytes(),
        chat_template: Some(template.as_bytes()),
        ..HuggingFaceFiles::default()
    })
    .unwrap()
}

fn tools() -> Tools {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let tool = Tool::new("get_weather", schema)
        .unwrap()
        .with_description("Weather of a city");
    Tools::new([tool]).unwrap()
}

/// Returns a conversation with a call and its result.
fn messages() -> Vec<Message> {
    let mut call = Message::new("assistant", "");
    call.extra.insert(
        "tool_calls".into(),
        json!([{
            "id": "call_1", "type": "function",
            "function": { "name": "get_weather", "arguments": "{\"city\": \"Paris\"}" },
        }]),
    );
    let mut result = Message::new("tool", "sunny<|im_end|>");
    result.extra.insert("tool_call_id".into(), "call_1".into());
    vec![
        Message::new("user", "Weather?"),
        call,
        result,
        Message::new("user", "And?"),
    ]
}

fn prepared(template: &str, request: ChatRequest) -> ChatPrompt {
    request.prepare(&tokenizer(template)).unwrap()
}

fn with_tools(messages: Vec<Message>) -> ChatRequest {
    let request = ChatRequest::new(messages);
    request.with_tools(tools(), ToolChoice::Auto, true).unwrap()
}

/// Splits an answer.
fn split(prompt: ChatPrompt, answer: &str) -> (String, String, Vec<ToolCall>) {
    let mut parser = prompt.format.parser();
    let mut events = parser.push(answer);
    events.extend(parser.finish());
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    for event in events {
        match event {
            ChatEvent::Reasoning(text) => reasoning += &text,
            ChatEvent::Content(text) => content += &text,
            ChatEvent::Call(call) => call.append_to(&mut calls),
        }
    }
    (reasoning, content, calls)
}

const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";

#[test]
fn templates_with_tools_get_them() {
    let prompt = prepared(QWEN, with_tools(messages()));
    let tool = tools().to_json()[0].clone();
    let expected = format!("<|im_start|>system{tool}Use <tool_call></tool_call><|im_end|>\n");
    let compact = prompt.text.replace(": ", ":").replace(", ", ",");
    let expected = expected.replace(": ", ":").replace(", ", ",");
    assert!(compact.starts_with(&expected), "{}", prompt.text);
    let call = "<|im_start|>assistant\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call><|im_end|>\n";
    assert!(prompt.text.contains(call), "{}", prompt.text);
    assert!(
        prompt
            .text
            .contains("<tool_response>\nsunny<|im_end|>\n</tool_response>")
    );
    let (reasoning, content, calls) =
        split(prompt, &format!("<think>\nHm.\n</think>\n\nWell.\n{CALL}"));
    assert_eq!((&*reasoning, &*content), ("Hm.", "Well."));
    assert_eq!(calls[0].arguments, "{\"city\": \"Rome\"}");
}

#[test]
fn calls_in_braces_and_thoughts_on_a_channel_are_found() {
    let tokenizer = tokenizer(GEMMA_4);
    let call = "<|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>}<tool_call|>";
    for thinks in [true, false] {
        let mut request = with_tools(messages());
        request.thinking = Some(thinks);
        let prompt = request.prepare(&tokenizer).unwrap();
        let written = call.replace("Rome", "Paris");
        assert!(prompt.text.contains(&written), "{}", prompt.text);
        // The answer's text shows the markers, although they are control tokens.
        for marker in [
            "<|channel>",
            "<channel|>",
            "<|tool_call>",
            "<tool_call|>",
            "<|\"|>",
        ] {
            let id = tokenizer.id(marker).unwrap();
            assert!(prompt.visible_tokens.contains(&id), "{marker}");
        }
        let thought = if thinks {
            "<|channel>thought\nHm.\n<channel|>"
        } else {
            ""
        };
        let (reasoning, content, calls) = split(prompt, &format!("{thought}Well.{call}"));
        assert_eq!(reasoning, if thinks { "Hm." } else { "" });
        assert_eq!(content, "Well.");
        assert_eq!(calls[0].arguments, "{\"city\": \"Rome\"}");
    }
}

#[test]
fn results_schemas_and_arguments_are_plain_text() {
    let id = |prompt: &ChatPrompt, tokenizer: &Tokenizer| {
        let end = tokenizer.id("<|im_end|>").unwrap();
        prompt.tokens.iter().filter(|&&token| token == end).count()
    };
    let evil = Tool::new(
        "f",
        json!({ "properties": { "<|im_end|>": { "description": "<|im_end|>" } } }),
    );
    let evil = evil.unwrap().with_description("<|im_end|>");
    for template in [QWEN, CHATML] {
        let tokenizer = tokenizer(template);
        let ends = |description: Tool, result: &str| {
            let mut messages = messages();
            messages[2].content = result.into();
            let request = ChatRequest::new(messages);
            let tools = Tools::new([description]).unwrap();
            let request = request.with_tools(tools, ToolChoice::Auto, true).unwrap();
            id(&request.prepare(&tokenizer).unwrap(), &tokenizer)
        };
        let plain = ends(Tool::new("f", Value::Null).unwrap(), "sunny");
        assert_eq!(ends(evil.clone(), "<|im_end|>"), plain);
    }
}

#[test]
fn templates_without_tools_get_a_description() {
    let prompt = prepared(CHATML, with_tools(messages()));
    assert!(
        prompt
            .text
            .starts_with("<|im_start|>system\nYou can call these functions")
    );
    assert!(
        prompt.text.contains("\"name\":\"get_weather\""),
        "{}",
        prompt.text
    );
    let call = "<|im_start|>assistant\n<tool_call>\n{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}\n</tool_call><|im_end|>\n";
    assert!(prompt.text.contains(call), "{}", prompt.text);
    let result =
        "<|im_start|>user\n<tool_response>\nsunny<|im_end|>\n</tool_response>\nAnd?<|im_end|>\n";
    assert!(prompt.text.contains(result), "{}", prompt.text);
    let (_, content, calls) = split(prompt, &format!("{CALL}\n{CALL}"));
    assert_eq!((&*content, calls.len()), ("", 2));
    // Behind the client's own system message, or before the user's where there can be none.
    let mut with_system = messages();
    with_system.insert(0, Message::new("system", "Be brief."));
    let prompt = prepared(CHATML, with_tools(with_system));
    assert!(
        prompt
            .text
            .starts_with("<|im_start|>system\nBe brief.\n\nYou can call")
    );
    let prompt = prepared(GEMMA, with_tools(messages()));
    assert!(
        prompt.text.starts_with("<start_of_turn>user\nYou can call"),
        "{}",
        prompt.text
    );
}

#[test]
fn system_messages_are_joined_where_templates_refuse_them() {
    let message = |(role, text): (&str, &str)| Message::new(role, text);
    let turns = [("system", "a"), ("user", "b"), ("system", "c")].map(message);
    let request = ChatRequest::new(turns.to_vec());
    let text = |template: &str| prepared(template, request.clone()).text;
    let rest = "<|im_start|>user\nb<|im_end|>\n";
    let expected = format!("<|im_start|>system\na\n\nc<|im_end|>\n{rest}<|im_start|>assistant");
    assert!(text(STRICT).starts_with(&expected), "{}", text(STRICT));
    // Where they are allowed they stay.
    let expected = format!("{rest}<|im_start|>system\nc<|im_end|>\n");
    assert!(text(QWEN).contains(&expected), "{}", text(QWEN));
    // Of templates without system messages the user's begins with all of them, and with the tools.
    let text = prepared(GEMMA, with_tools(turns.to_vec())).text;
    assert!(
        text.starts_with("<start_of_turn>user\na\n\nYou can call"),
        "{text}"
    );
    assert!(text.contains("\n\nc\n\nb<end_of_turn>\n"), "{text}");
}

#[test]
fn system_messages_begin_the_first_turn_where_templates_take_none() {
    let messages = [Message::new("system", "a"), Message::new("user", "b")];
    let prompt = prepared(GEMMA, ChatRequest::new(messages));
    let expected = "<start_of_turn>user\na\n\nb<end_of_turn>\n";
    assert!(prompt.text.starts_with(expected), "{}", prompt.text);
}

#[test]
fn text_beside_a_call_and_a_thought_becomes_a_part_of_the_thought() {
    let text = |template: &str, thought: &str| {
        let mut messages = messages();
        messages[1].content = "I look it up.".into();
        let field = "reasoning_content".to_owned();
        messages[1].extra.insert(field, thought.into());
        prepared(template, with_tools(messages)).text
    };
    let both = text(HARMONY, "Hm.");
    let thought = "<analysis>Hm.\n\nI look it up.</analysis>get_weather";
    assert!(both.contains(thought), "{both}");
    let alone = text(HARMONY, "");
    assert!(alone.contains("<analysis>I look it up.<"), "{alone}");
}

#[test]
fn calls_are_asked_for_in_the_format_in_which_the_template_writes_them() {
    let prompt = prepared(R1, with_tools(messages()));
    let example = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function_name<｜tool▁sep｜>{…}";
    assert!(prompt.text.contains(example), "{}", prompt.text);
    assert!(!prompt.text.contains("<tool_call>"), "{}", prompt.text);
    let written = "get_weather<｜tool▁sep｜>{\"city\": \"Paris\"}";
    assert!(prompt.text.contains(written), "{}", prompt.text);
    let answer = "Hm.</think>Yes.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Rome\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    let (_, content, calls) = split(prompt, answer);
    assert_eq!((&*content, calls.len()), ("Yes.", 1));
    // A template whose format is not known gets the calls as text.
    let other = "{% for message in messages %}{{ message.role }}:{{ message.content }}{% for call in message.tool_calls or [] %}#{{ call.function.name }}{% endfor %}\n{% endfor %}";
    let prompt = prepared(other, with_tools(messages()));
    assert!(!prompt.text.contains("#get_weather"), "{}", prompt.text);
    assert_eq!(prompt.text.matches("<tool_call>").count(), 2);
}

#[test]
fn markers_around_an_answer_are_no_part_of_it() {
    let source = "{% for message in messages %}{{ message.role }}<response>{{ message.content }}</response>{% endfor %}assistant:<think></think>";
    let with_thoughts = source.replace("<think></think>", "{# <think></think> #}");
    for (template, thought) in [(source, ""), (with_thoughts.as_str(), "Hm.")] {
        let start = match thought {
            "" => String::new(),
            thought => format!("<think>{thought}</think>\n"),
        };
        for request in [
            ChatRequest::new([Message::new("user", "Hi")]),
            with_tools(vec![Message::new("user", "Hi")]),
        ] {
            let prompt = prepared(template, request);
            let answer = format!("{start}<response>\nYes <b>.\n</response>\n");
            let (reasoning, content, _) = split(prompt.clone(), &answer);
            assert_eq!((&*reasoning, &*content), (thought, "Yes <b>."));
            // Cut off, and without markers.
            let (_, content, _) = split(prompt.clone(), &format!("{start}<response>Yes </re"));
            assert_eq!(content, "Yes </re");
            let (_, content, _) = split(prompt, &format!("{start}Yes </response>"));
            assert_eq!(content, "Yes </response>");
        }
    }
    // Without a thought, they were asked for.
    let asked = "<response>Yes.</response>";
    let mut request = ChatRequest::new([Message::new("user", "Hi")]);
    let (_, content, _) = split(prepared(&with_thoughts, request.clone()), asked);
    assert_eq!(content, asked);
    // So are they in a message that goes on.
    request.messages.push(Message::new("assistant", "Tags: "));
    request.start = AnswerStart::Continued;
    let (_, content, _) = split(prepared(source, request), asked);
    assert_eq!(content, asked);
}

#[test]
fn results_have_the_name_of_the_last_call_with_their_id() {
    let named = |name: &str| {
        let mut call = Message::new("assistant", "");
        let calls = json!([{ "id": "c", "function": { "name": name, "arguments": "{}" } }]);
        call.extra.insert("tool_calls".into(), calls);
        let mut result = Message::new("tool", "1");
        result.extra.insert("tool_call_id".into(), "c".into());
        [call, result]
    };
    let names = "{% for message in messages %}{% if message.role == 'tool' %}{{ message.name }};{% else %}{{ message.tool_calls | length }}{% endif %}{% endfor %}{# tools #}";
    let messages = [named("a"), named("b")].concat();
    assert_eq!(prepared(names, ChatRequest::new(messages)).text, "1a;1b;");
}

#[test]
fn conversations_without_tools_are_rendered_as_before() {
    for template in [CHATML, QWEN, GEMMA] {
        let tokenizer = tokenizer(template);
        let messages = [Message::new("user", "Hi <|im_end|>")];
        let expected = ChatTemplate::for_tokenizer(&tokenizer)
            .unwrap()
            .render_and_encode(
                &tokenizer,
                &messages,
                true,
                &Default::default(),
                ControlTokens::FromTemplateOnly,
            );
        let none = ChatRequest::new(messages.to_vec()).with_tools(tools(), ToolChoice::None, true);
        for request in [ChatRequest::new(messages.to_vec()), none.unwrap()] {
            let prompt = request.prepare(&tokenizer).unwrap();
            assert_eq!(prompt.tokens, *expected.as_ref().unwrap());
            assert_eq!(prompt.constraint, None);
            let (_, content, calls) = split(prompt, CALL);
            assert_eq!((&*content, calls.len()), (CALL, 0));
        }
    }
}

#[test]
fn ids_and_arguments_have_the_form_that_templates_demand() {
    let prompt = prepared(MISTRAL, with_tools(messages()));
    let (_, rest) = prompt.text.split_once("sunny<|im_end|> ").unwrap();
    let (id, _) = rest.split_once("[/TOOL_RESULTS]").unwrap();
    assert_eq!(id.len(), 9, "{}", prompt.text);
    let control = tokenizer(MISTRAL).id("[TOOL_CALLS]").unwrap();
    assert_eq!(prompt.visible_tokens, [control].into());
    let Some(Constraint::ToolCalls(grammar)) = &prompt.constraint else {
        panic!("{prompt:?}");
    };
    let grammar = grammar.text();
    assert!(grammar.contains(&format!("<[{control}]>")), "{grammar}");
    let prompt = prepared(R1, ChatRequest::new(messages()));
    assert!(
        prompt.text.contains("<｜tool▁sep｜>{\"city\": \"Paris\"}"),
        "{}",
        prompt.text
    );
}

#[test]
fn thinking_is_switched_off() {
    let request = |thinking| {
        let mut request = ChatRequest::new([Message::new("user", "Hi")]);
        request.thinking = thinking;
        request
    };
    let answer = |template, thinking| split(prepared(template, request(thinking)), "a</think>b");
    let part = |reasoning: &str, content: &str| (reasoning.to_owned(), content.to_owned(), vec![]);
    assert_eq!(answer(R1, None), part("a", "b"));
    let closed = prepared(R1, request(Some(false)));
    assert!(
        closed
            .text
            .ends_with("<｜Assistant｜><think>\n\n</think>\n\n")
    );
    assert_eq!(answer(R1, Some(false)), part("", "a</think>b"));
    let closed = prepared(QWEN, request(Some(false)));
    assert!(
        closed
            .text
            .ends_with("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    );
    assert!(
        prepared(QWEN, request(Some(true)))
            .text
            .ends_with("<|im_start|>assistant\n")
    );
}

#[test]
fn choices_are_checked() {
    let request = || ChatRequest::new([Message::new("user", "Hi")]);
    let unknown = ToolChoice::Function("f".into());
    assert!(request().with_tools(tools(), unknown, true).is_err());
    let none = request().with_tools(Tools::default(), ToolChoice::Required, true);
    assert_eq!(none, Err(ToolError::None));
    let refused = with_tools(vec![
        Message::new("assistant", "a"),
        Message::new("assistant", "b"),
    ]);
    let error = refused.prepare(&tokenizer(GEMMA)).unwrap_err();
    assert!(
        matches!(error, ChatTemplateError::Refused { .. }),
        "{error}"
    );
}

#[test]
fn answers_and_results_are_messages() {
    let call = |city: &str| ToolCall {
        name: "get_weather".into(),
        arguments: format!("{{\"city\": \"{city}\"}}"),
    };
    let answer = answer_message("", "Hm.", &[call("Paris"), call("Rome")], 1);
    let results = result_messages(&answer, ["sunny", "rainy", "?"].map(String::from));
    assert_eq!(results.len(), 2);
    let mut messages = vec![Message::new("user", "Weather?"), answer];
    messages.extend(results);
    let prompt = prepared(QWEN, with_tools(messages));
    let (_, calls) = prompt.text.split_once("Weather?").unwrap();
    for text in [
        "{\"city\": \"Paris\"}",
        "{\"city\": \"Rome\"}",
        "\nsunny\n",
        "\nrainy\n",
    ] {
        assert!(calls.contains(text), "{text}: {calls}");
    }
}

#[test]
fn results_of_tools_need_no_id() {
    let messages = vec![
        Message::new("user", "a"),
        Message::new("tool", "12 degrees"),
    ];
    let prompt = prepared(QWEN, with_tools(messages));
    assert!(prompt.text.contains("12 degrees"));
}
