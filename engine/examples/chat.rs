//! A conversation with history: `cargo run -p wisp-engine --example chat -- MODEL`. It reads one
//! message per line from standard input and ends at the end of the input.

use std::io::{BufRead, Write};

use wisp_engine::{Error, Event, Model};

fn main() -> Result<(), Error> {
    // The path is relative to the repository's root.
    let own = "native-demo/model/wisp-tiny.gguf";
    let model = Model::load(std::env::args().nth(1).unwrap_or_else(|| own.into()))?;
    let mut chat = model.chat();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        // The user's message is plain text: it cannot produce control tokens.
        for event in chat.send_with(line, |answer| answer.max_tokens(64)) {
            if let Event::Text(text) = event? {
                print!("{text}");
                let _ = std::io::stdout().flush();
            }
        }
        println!();
        if !chat.dropped().is_empty() {
            eprintln!(
                "{} messages no longer fit the context",
                chat.dropped().len()
            );
        }
    }
    Ok(())
}
