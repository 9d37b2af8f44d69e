//! Any text as a chat template, and its first line as what a user writes: no panic, and no more memory or time than a
//! rendering may use.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::chat_template::{ChatTemplate, Message};

fuzz_target!(|source: &str| {
    let Ok(template) = ChatTemplate::new(source, "<s>", "</s>") else {
        return;
    };
    let user = source.lines().next().unwrap_or_default();
    let messages = [
        Message::new("system", "Be brief."),
        Message::new("user", user),
        Message::new("assistant", " Hello! "),
    ];
    let _ = template.render(&messages, true, &Default::default());
});
