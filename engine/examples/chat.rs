//! A conversation with history: `cargo run -p wisp-engine --example chat -- MODEL`. Reads one message a
//! line from standard input; without a terminal or at the end of the input it ends.

use std::io::{BufRead, Write};

use wisp_engine::{Error, Event, Model};

fn main() -> Result<(), Error> {
    // From the repository's root.
    let own = "native-demo/model/wisp-tiny.gguf";
    let model = Model::load(std::env::args().nth(1).unwrap_or_else(|| own.into()))?;
    let mut chat = model.chat();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        // What the user writes is text: it cannot become control tokens.
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
