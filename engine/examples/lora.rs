//! Low-rank adapters beside a model: `cargo run -p wisp-engine --example lora -- MODEL ADAPTER PROMPT`,
//! where ADAPTER is a folder as PEFT writes it. The prompt runs with and without it, in one batch.

use wisp_engine::{Error, Model};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, adapter, prompt] = arguments.as_slice() else {
        println!("usage: lora MODEL ADAPTER PROMPT");
        return Ok(());
    };
    // Room for two adapters of up to rank 32; they come and go while the model is loaded.
    let model = Model::builder(name).adapters(2, 32).load()?;
    model.load_adapter("mine", adapter)?;
    let plain = model.generate(prompt).max_tokens(16);
    let adapted = model.generate(prompt).max_tokens(16).adapter("mine");
    for completion in model.complete_many([plain, adapted])? {
        println!("{}", completion.text);
    }
    model.unload_adapter("mine")
}
