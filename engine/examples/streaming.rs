//! Streams a text as it is generated: `cargo run -p wisp-engine --example streaming -- MODEL PROMPT`.
//! Without arguments the repository's own small model continues a story.

use std::io::Write;

use wisp_engine::{Error, Event, Model};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    // The path is relative to the repository's root.
    let own = "native-demo/model/wisp-tiny.gguf";
    let model = Model::load(arguments.next().unwrap_or_else(|| own.into()))?;
    let prompt = arguments
        .next()
        .unwrap_or_else(|| "Once upon a time".into());

    print!("{prompt}");
    for event in model.generate(prompt).max_tokens(48).log_probabilities(0) {
        match event? {
            Event::Prefill { done, total } => eprintln!("{done} of {total} tokens of the prompt"),
            Event::Text(text) => {
                print!("{text}");
                // A closed terminal is no reason to stop.
                let _ = std::io::stdout().flush();
            }
            Event::End { reason, usage } => {
                println!("\n{reason:?} after {} tokens", usage.completion_tokens);
            }
            _ => {}
        }
    }
    Ok(())
}
