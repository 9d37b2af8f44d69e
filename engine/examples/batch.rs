//! Runs many prompts in one batch: `cargo run -p wisp-engine --example batch -- MODEL PROMPT…`.

use wisp_engine::{Error, Model};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    // The path is relative to the repository's root.
    let own = "native-demo/model/wisp-tiny.gguf";
    let name = arguments.next().unwrap_or_else(|| own.into());
    let mut prompts: Vec<String> = arguments.collect();
    if prompts.is_empty() {
        prompts = ["The sun", "A cat", "Once upon a time"]
            .map(String::from)
            .into();
    }

    let model = Model::builder(name).parallel_sequences(8).load()?;
    // Each request has its own settings and gets the same tokens as if it ran alone.
    let requests = prompts.iter().zip(1..).map(|(prompt, seed)| {
        let request = model.generate(prompt).max_tokens(24);
        request.temperature(0.8).seed(seed).stop("\n")
    });
    for (prompt, completion) in prompts.iter().zip(model.complete_many(requests)) {
        let completion = completion?;
        println!("{prompt}{}", completion.text);
    }
    Ok(())
}
