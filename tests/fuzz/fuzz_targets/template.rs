//! Any text as a chat template and, after a line of dashes, the messages as JSON: it compiles or not, and what
//! it renders is within its limits and the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::chat_template::{ChatTemplate, Message};

fuzz_target!(|text: &str| {
    let (source, messages) = text.split_once("\n---\n").unwrap_or((text, ""));
    let messages: Vec<Message> = serde_json::from_str(messages)
        .unwrap_or_else(|_| vec![Message::new("system", "Be brief."), Message::new("user", "Hi <b>!")]);
    let Ok(template) = ChatTemplate::new(source, "<s>", "</s>") else {
        return;
    };
    let render = || template.render(&messages, true, &Default::default());
    if let Ok(prompt) = render() {
        // What a template writes grows with its source and messages, which are short here.
        assert!(prompt.len() < 16 << 20, "{} bytes", prompt.len());
        if !source.contains("strftime") {
            assert_eq!(render().ok(), Some(prompt));
        }
    }
});
