//! Tools in chats: calls that the model must make, and their results.

use serde_json::{Value, json};
use wisp_engine::{
    Event, Message, Model,
    chat::ChatRequest,
    grammar::Constraint,
    tools::{Tool, ToolChoice, ToolError, Tools},
};
use wisp_tests::bundled;

fn model() -> Model {
    let path = bundled::folder().join("wisp-tiny.gguf");
    let builder = Model::builder(path.to_str().expect("a path in UTF-8"));
    builder.device("host").unwrap().load().unwrap()
}

fn weather() -> Tool {
    let city = json!({ "enum": ["Rome", "Oslo"] });
    let schema = json!({ "type": "object", "properties": { "city": city }, "required": ["city"] });
    Tool::new("weather", schema).unwrap()
}

#[test]
fn a_chat_calls_tools_and_gets_their_results() {
    let mut chat = model()
        .chat()
        .tools([weather()], ToolChoice::Required)
        .unwrap();
    let answer = chat
        .send_with("How is it?", |answer| answer.max_tokens(60))
        .complete()
        .unwrap();
    assert_eq!(answer.text, "");
    assert!(!answer.tool_calls.is_empty());
    assert_eq!(answer.tool_calls[0].name, "weather");
    let arguments: Value = serde_json::from_str(&answer.tool_calls[0].arguments).unwrap();
    assert!(arguments["city"] == "Rome" || arguments["city"] == "Oslo");
    let calls = chat.messages()[1].extra["tool_calls"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(calls.len(), answer.tool_calls.len());
    let results = answer.tool_calls.iter().map(|_| "Sunny.");
    let next = chat.send_results_with(results, |answer| answer.max_tokens(1));
    next.complete().unwrap();
    let messages = chat.messages();
    assert_eq!(messages[2].role, "tool");
    assert_eq!(messages[2].extra["tool_call_id"], calls[0]["id"]);
    // Without an answer the results are taken back, and so is the answer of a request that fails.
    let before = chat.messages().len();
    drop(chat.send_with("And now?", |answer| answer.max_tokens(8)));
    assert_eq!(chat.messages().len(), before);
    assert_eq!(
        chat.clone()
            .tools([weather(), weather()], ToolChoice::Auto)
            .unwrap_err(),
        ToolError::Duplicate {
            name: "weather".into()
        }
    );
}

#[test]
fn events_have_the_parts_of_calls_in_order() {
    let model = model();
    let tools = Tools::new([weather()]).unwrap();
    let request = ChatRequest::new([Message::new("user", "How is it?")]);
    let request = request
        .with_tools(tools, ToolChoice::Required, false)
        .unwrap();
    let prompt = model.prepare_chat(&request).unwrap();
    let rendered = model.text().render_chat(&request).unwrap();
    assert_eq!(rendered.tokens, prompt.tokens);
    assert!(prompt.grammar.is_some() && rendered.grammar.is_none());
    let (mut parts, mut text) = (Vec::new(), String::new());
    for event in model.answer(&prompt).max_tokens(60) {
        match event.unwrap() {
            Event::ToolCall(part) => parts.push(part),
            Event::Text(piece) => text += &piece,
            _ => {}
        }
    }
    assert_eq!(text, "");
    assert!(parts.len() > 1, "{parts:?}");
    assert_eq!(parts[0].name.as_deref(), Some("weather"));
    assert!(parts.iter().all(|part| part.index == 0));
    assert!(parts[1..].iter().all(|part| part.name.is_none()));
    let arguments: String = parts.iter().map(|part| part.arguments.as_str()).collect();
    assert!(
        serde_json::from_str::<Value>(&arguments)
            .unwrap()
            .is_object()
    );
}

#[test]
fn text_that_a_constraint_demands_is_no_call() {
    let model = model();
    let tools = Tools::new([weather()]).unwrap();
    let request = ChatRequest::new([Message::new("user", "How is it?")]);
    let request = request.with_tools(tools, ToolChoice::Auto, true).unwrap();
    let prompt = model.prepare_chat(&request).unwrap();
    let call = r#"<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>"#;
    let demanded = Constraint::Choices(vec![call.into()]);
    let answer = model.answer(&prompt).constraint(demanded);
    let answer = answer.max_tokens(200).complete().unwrap();
    assert_eq!(answer.text, call);
    assert!(answer.tool_calls.is_empty());
}
