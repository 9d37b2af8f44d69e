//! Answers on channels, answers that continue a message, and tools of which only some may be called.

use serde_json::{Value, json};

use super::*;
use crate::chat_template::{ChatTemplateError, ControlTokens, Message};
use crate::grammar::{Constraint, GrammarCompiler};
use crate::tokenizer::tests::header::Meta;
use crate::tokenizer::tests::metadata::{header, texts};
use crate::tokenizer::{HuggingFaceFiles, Tokenizer};
use crate::tools::{Tool, ToolChoice, ToolError, Tools};

/// Messages on channels, as gpt-oss has them.
const HARMONY: &str = "{% for message in messages %}<|start|>{{ message.role }}{% if message.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ message.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";

/// Thoughts between markers, and text without white space around it, as Qwen 3 has them.
const THINKER: &str = "{% for message in messages %}<|start|>{{ message.role }}\n{% if message.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ message.content | trim }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

const CONTROL: [&str; 7] = [
    "<|return|>",
    "<|call|>",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|start|>",
    "<|end|>",
];

/// Returns a tokenizer of single characters with control tokens.
fn tokenizer(template: &str) -> Tokenizer {
    let characters = (' '..='~').chain(['\n']);
    let vocab: serde_json::Map<String, Value> = characters
        .zip(0..)
        .map(|(c, id)| (c.into(), Value::from(id)))
        .collect();
    let count = vocab.len();
    let added = CONTROL.iter().enumerate().map(|(at, text)| {
        json!({
            "id": count + at, "content": text, "special": true, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false,
        })
    });
    let added: Vec<Value> = added.collect();
    let model = json!({ "type": "BPE", "vocab": vocab, "merges": [] });
    let decoder = json!({ "type": "Fuse" });
    let json = json!({ "model": model, "decoder": decoder, "added_tokens": added });
    Tokenizer::from_files(&HuggingFaceFiles {
        tokenizer: json.to_string().as_bytes(),
        chat_template: Some(template.as_bytes()),
        ..HuggingFaceFiles::default()
    })
    .unwrap()
}

/// Returns whether the whole answer may be this text.
fn accepts(request: &ChatRequest, answer: &str) -> bool {
    accepts_behind(HARMONY, request, answer)
}

/// Returns whether the whole answer to a prompt of a template may be this text.
fn accepts_behind(template: &str, request: &ChatRequest, answer: &str) -> bool {
    let tokenizer = tokenizer(template);
    let prompt = request.prepare(&tokenizer).unwrap();
    let constraint = prompt.constraint.expect("a constraint");
    let stop = ["<|return|>", "<|call|>"].map(|text| tokenizer.id(text).unwrap());
    let compiler = GrammarCompiler::new(&tokenizer, &stop).unwrap();
    let mut matcher = compiler.compile(&constraint).unwrap().matcher();
    let mut mask = vec![0; tokenizer.vocab_size().div_ceil(32)];
    let tokens = tokenizer.encode(answer, false, true).unwrap();
    let mut tokens = tokens.into_iter();
    tokens.all(|token| {
        !matcher.is_complete()
            && matcher.mask(&mut mask).is_ok()
            && mask[token as usize / 32] >> (token % 32) & 1 == 1
            && matcher.consume(token).is_ok()
    }) && matcher.is_accepting()
}

fn request() -> ChatRequest {
    ChatRequest::new([Message::new("user", "Hi")])
}

fn tool(name: &str) -> Tool {
    let city = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    Tool::new(name, city).unwrap()
}

const THOUGHT: &str = "<|channel|>analysis<|message|>Hm {.<|end|><|start|>assistant";
const CALL: &str =
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"city\": \"a\"}";

#[test]
fn a_format_holds_for_the_final_message_only() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false });
    let constraints = [
        (
            Constraint::JsonSchema(schema),
            "{\"n\": 5}",
            "{\"n\": true}",
        ),
        (Constraint::JsonObject, "{\"n\": true}", "[]"),
        (Constraint::Regex("a/b|\\/c[0-9]".into()), "/c7", "a/c"),
        (
            Constraint::Choices(vec!["yes/no".into(), "(".into()]),
            "(",
            "yes",
        ),
    ];
    for (constraint, good, bad) in constraints {
        let mut request = request();
        request.answer = Some(constraint);
        let answer = |text: &str| format!("<|channel|>final<|message|>{text}");
        assert!(accepts(&request, &answer(good)), "{good}");
        assert!(
            accepts(&request, &(THOUGHT.to_owned() + &answer(good))),
            "{good}"
        );
        for wrong in [&*answer(bad), good, bad, THOUGHT, CALL] {
            assert!(!accepts(&request, wrong), "{wrong}");
        }
        // The answer is split as others are.
        let prompt = request.prepare(&tokenizer(HARMONY)).unwrap();
        let mut parser = prompt.format.parser();
        let events = parser.push(&(THOUGHT.to_owned() + &answer(good)));
        assert!(events.contains(&ChatEvent::Reasoning("Hm {.".into())));
        assert!(events.contains(&ChatEvent::Content(good.into())));
        // Beside tools, the model may call instead.
        let tools = Tools::new([tool("f")]).unwrap();
        let both = request
            .clone()
            .with_tools(tools.clone(), ToolChoice::Auto, true)
            .unwrap();
        let preamble = "<|channel|>commentary<|message|>So:<|end|><|start|>assistant";
        for text in [
            answer(good),
            CALL.into(),
            THOUGHT.to_owned() + preamble + CALL,
        ] {
            assert!(accepts(&both, &text), "{text}");
        }
        assert!(!accepts(&both, &answer(bad)));
        // A demanded call is not in the format of the text.
        let call = request
            .with_tools(tools, ToolChoice::Required, true)
            .unwrap();
        assert!(accepts(&call, CALL) && !accepts(&call, &answer(good)));
    }
}

#[test]
fn thoughts_on_their_channel_are_limited_and_switched_off() {
    let thought = |length: usize| {
        let text = "x".repeat(length);
        format!("<|channel|>analysis<|message|>{text}<|end|><|start|>assistant")
    };
    let answer = "<|channel|>final<|message|>Any <text>.";
    let mut limited = request();
    limited.thinking_limit = Some(20);
    assert!(accepts(&limited, answer));
    assert!(accepts(&limited, &(thought(20) + answer)));
    assert!(!accepts(&limited, &(thought(21) + answer)));
    let mut off = request();
    off.thinking = Some(false);
    assert!(accepts(&off, answer));
    assert!(!accepts(&off, &(thought(1) + answer)));
    let free = request().prepare(&tokenizer(HARMONY)).unwrap();
    assert_eq!(free.constraint, None);
}

/// Answers show the tokens of channels, which GGUF's own tokenizers do not skip.
#[test]
fn tokens_of_channels_are_control_tokens_in_gguf_files_too() {
    let letters: Vec<String> = ('!'..='~').chain(['Ġ', 'Ċ']).map(String::from).collect();
    let tokens: Vec<&str> = letters.iter().map(String::as_str).chain(CONTROL).collect();
    let kinds = [vec![1; letters.len()], vec![3; CONTROL.len()]].concat();
    let header = header("gpt2", &tokens)
        .with("ggml.pre", Meta::Text("gpt-4o".to_owned()))
        .with("ggml.merges", texts(&[]))
        .with("ggml.token_type", Meta::Ints(kinds))
        .with("chat_template", Meta::Text(HARMONY.to_owned()));
    let tokenizer = Tokenizer::from_gguf(&header).unwrap();
    let mut request = request();
    request.answer = Some(Constraint::JsonObject);
    let prompt = request.prepare(&tokenizer).unwrap();
    let stop = ["<|return|>", "<|call|>"].map(|text| tokenizer.id(text).unwrap());
    let compiler = GrammarCompiler::new(&tokenizer, &stop).unwrap();
    let grammar = compiler.compile(&prompt.constraint.unwrap()).unwrap();
    let accepts = |answer: &str| {
        let mut matcher = grammar.matcher();
        let mut tokens = tokenizer.encode(answer, false, true).unwrap().into_iter();
        tokens.all(|token| matcher.consume(token).is_ok()) && matcher.is_accepting()
    };
    assert!(accepts("<|channel|>final<|message|>{}"));
    assert!(accepts(&format!(
        "{THOUGHT}<|channel|>final<|message|>{{\"a\": 1}}"
    )));
    assert!(!accepts("<|channel|>final<|message|>[]") && !accepts("{}"));
}

#[test]
fn a_format_holds_behind_a_thought_between_markers() {
    let mut request = request();
    request.answer = Some(Constraint::JsonObject);
    let opened = THINKER.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}");
    for (template, right, wrong) in [
        (
            THINKER,
            "<think>\nHm {.\n</think>\n\n{\"a\": 1}",
            "Hm.</think>{}",
        ),
        (THINKER, "{\"a\": 1}", "<think>Hm.</think>Yes."),
        // White space may be that before a thought, but forces none.
        (THINKER, "\n{\"a\": 1}", "\n\n\n\n\n{}"),
        (THINKER, "\n<think>Hm.</think>{\"a\": 1}", "\nYes."),
        (opened.as_str(), "Hm {.\n</think>\n\n{\"a\": 1}", "{}"),
    ] {
        assert!(accepts_behind(template, &request, right), "{right}");
        assert!(!accepts_behind(template, &request, wrong), "{wrong}");
    }
    let prompt = request.prepare(&tokenizer(THINKER)).unwrap();
    let events = prompt.format.parser().push("<think>\nHm.\n</think>\n\n{}");
    let expected = [
        ChatEvent::Reasoning("Hm.".into()),
        ChatEvent::Content("{}".into()),
    ];
    assert_eq!(events, expected);
    request.thinking_limit = Some(2);
    let thought = |text: &str| format!("<think>{text}</think>{{}}");
    assert!(accepts_behind(THINKER, &request, &thought("Hm")));
    assert!(!accepts_behind(THINKER, &request, &thought("Hm.")));
    // A choice is the whole text.
    request.answer = Some(Constraint::Choices(vec!["yes".into(), "no".into()]));
    for right in ["yes", "<think>Hm</think>\nno"] {
        assert!(accepts_behind(THINKER, &request, right), "{right}");
    }
    for wrong in ["\nyes", "\n<think>Hm</think>no", "maybe"] {
        assert!(!accepts_behind(THINKER, &request, wrong), "{wrong}");
    }
}

#[test]
fn elsewhere_a_format_holds_from_the_first_byte_on() {
    let constraint = |template: &str, request: &ChatRequest| {
        let prompt = request.prepare(&tokenizer(template)).unwrap();
        prompt.constraint
    };
    let mut request = request();
    request.answer = Some(Constraint::JsonObject);
    request.thinking = Some(false);
    request.thinking_limit = Some(5);
    assert_eq!(constraint(THINKER, &request), request.answer);
    request.thinking = None;
    let without_thoughts = "{{ messages[0].content }}";
    assert_eq!(constraint(without_thoughts, &request), request.answer);
    // An expression may match the beginning of a thought.
    request.answer = Some(Constraint::Regex("a+".into()));
    assert_eq!(constraint(THINKER, &request), request.answer);
    // Rules of Lark cannot be a part of others.
    request.answer = Some(Constraint::Lark("start: \"a\"".into()));
    assert_eq!(constraint(HARMONY, &request), request.answer);
}

#[test]
fn expressions_that_are_no_part_of_a_rule_hold_for_the_whole_answer() {
    let mut request = request();
    for pattern in ["", "a\\", "a\\\n", &"a".repeat(70_000)] {
        request.answer = Some(Constraint::Regex(pattern.into()));
        let prompt = request.prepare(&tokenizer(HARMONY)).unwrap();
        assert_eq!(prompt.constraint, request.answer);
    }
}

#[test]
fn answers_continue_the_last_message() {
    let continued = |template: &str, text: &str| {
        let messages = [Message::new("user", "Hi"), Message::new("assistant", text)];
        let mut request = ChatRequest::new(messages);
        request.start = AnswerStart::Continued;
        request.thinking = Some(false);
        request.prepare(&tokenizer(template)).unwrap()
    };
    let prompt = continued(HARMONY, "So <|end|> ");
    let expected =
        "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>So <|end|> ";
    assert_eq!(prompt.text, expected);
    // What the client writes is plain text, and the prompt ends within the message.
    let tokenizer = tokenizer(HARMONY);
    let end = tokenizer.id("<|end|>").unwrap();
    let ends = prompt.tokens.iter().filter(|token| **token == end).count();
    assert_eq!(ends, 1);
    let events = prompt.format.parser().push("on.");
    assert_eq!(events, [ChatEvent::Content("on.".into())]);
    let prompt = continued(THINKER, "So ");
    assert!(prompt.text.ends_with("</think>\n\nSo "), "{}", prompt.text);
    let events = prompt.format.parser().push("<think>");
    assert_eq!(events, [ChatEvent::Content("<think>".into())]);
    // A marker at its end begins no thought that would have to be closed.
    let prompt = continued(THINKER, "It is <think>");
    assert!(prompt.text.ends_with("It is <think>"), "{}", prompt.text);
    // Without a continued message.
    let mut plain = request();
    plain.start = AnswerStart::Unprompted;
    let text = plain.prepare(&tokenizer).unwrap().text;
    assert_eq!(text, "<|start|>user<|message|>Hi<|end|>");
}

#[test]
fn what_cannot_be_continued_is_refused() {
    let mut call = Message::new("assistant", "");
    let calls = json!([{ "function": { "name": "f", "arguments": "{}" } }]);
    call.extra.insert("tool_calls".into(), calls);
    let silent = "{% for message in messages %}{{ message.role }}{% endfor %}";
    for (template, last, words) in [
        (HARMONY, Message::new("user", "a"), "only a last message"),
        (HARMONY, call, "only a last message"),
        (
            silent,
            Message::new("assistant", "a"),
            "does not write the last message",
        ),
    ] {
        let mut request = ChatRequest::new([Message::new("user", "Hi"), last]);
        request.start = AnswerStart::Continued;
        request.control_tokens = ControlTokens::Anywhere;
        let error = request.prepare(&tokenizer(template)).unwrap_err();
        assert!(matches!(error, ChatTemplateError::Failed { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_function_that_the_choice_names_is_called_once() {
    let tools = Tools::new([tool("f"), tool("g")]).unwrap();
    let choose = |choice: ToolChoice| request().with_tools(tools.clone(), choice, true).unwrap();
    let named = choose(ToolChoice::Function("f".into()));
    assert!(choose(ToolChoice::Required).parallel_calls());
    assert!(!named.parallel_calls());
    // The parser agrees, also in the format of gpt-oss, whose grammar has no second call.
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    for (template, answer) in [
        (THINKER, format!("{call}\n{call}")),
        (HARMONY, CALL.repeat(2)),
    ] {
        for (request, expected) in [(&named, 1), (&choose(ToolChoice::Required), 2)] {
            let prompt = request.prepare(&tokenizer(template)).unwrap();
            let mut parser = prompt.format.parser();
            let mut events = parser.push(&answer);
            events.extend(parser.finish());
            let begun = events
                .iter()
                .filter(|event| matches!(event, ChatEvent::Call(call) if call.name.is_some()));
            assert_eq!(begun.count(), expected, "{answer}: {events:?}");
        }
    }
}

#[test]
fn strict_tools_constrain_answers_on_channels() {
    let offered = |is_strict: bool| {
        let tools = Tools::new([tool("f").with_strict(is_strict)]).unwrap();
        let offered = request().with_tools(tools, ToolChoice::Auto, true);
        offered.unwrap()
    };
    let free = offered(false).prepare(&tokenizer(HARMONY)).unwrap();
    assert_eq!(free.constraint, None);
    let strict = offered(true);
    let wrong = CALL.replace("\"a\"", "5");
    assert!(accepts(&strict, CALL) && !accepts(&strict, &wrong));
    assert!(accepts(&strict, "<|channel|>final<|message|>Any text."));
}

#[test]
fn only_allowed_tools_are_called() {
    let tools = Tools::new([tool("f"), tool("g")]).unwrap();
    let offered = request()
        .with_tools(tools, ToolChoice::Required, true)
        .unwrap();
    let allowed = offered.clone().with_allowed_tools(["f"]).unwrap();
    let other = CALL.replace("functions.f", "functions.g");
    assert!(accepts(&offered, CALL) && accepts(&offered, &other));
    assert!(accepts(&allowed, CALL) && !accepts(&allowed, &other));
    let prompt = allowed.prepare(&tokenizer(THINKER)).unwrap();
    assert!(
        prompt.text.contains("\"g\""),
        "both are described: {}",
        prompt.text
    );
    let mut parser = prompt.format.parser();
    let answer = |name: &str| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{}}}}\n</tool_call>")
    };
    let mut events = parser.push(&answer("g"));
    events.extend(parser.finish());
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, ChatEvent::Call(_))),
        "{events:?}"
    );
    assert_eq!(
        offered.clone().with_allowed_tools([]),
        Err(ToolError::NoneAllowed)
    );
    let unknown = ToolError::Unknown { name: "h".into() };
    assert_eq!(offered.with_allowed_tools(["h"]), Err(unknown));
}
