//! Low-rank adapters of a model: `cargo run -p wisp-engine --example lora -- MODEL ADAPTER PROMPT`,
//! where ADAPTER is a folder in PEFT's layout. The prompt runs with and without the adapter, in one
//! batch.

use wisp_engine::{Error, Model};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, adapter, prompt] = arguments.as_slice() else {
        println!("usage: lora MODEL ADAPTER PROMPT");
        return Ok(());
    };
    // Reserve memory for two adapters of rank up to 32, which can be loaded and unloaded at any time.
    let model = Model::builder(name).adapters(2, 32).load()?;
    model.load_adapter("mine", adapter)?;
    let plain = model.generate(prompt).max_tokens(16);
    let adapted = model.generate(prompt).max_tokens(16).adapter("mine");
    for completion in model.complete_many([plain, adapted]) {
        let completion = completion?;
        println!("{}", completion.text);
    }
    model.unload_adapter("mine")
}
