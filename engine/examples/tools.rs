//! A model that calls a function of the program: `cargo run -p wisp-engine --example tools -- MODEL`.

use wisp_engine::{
    Model,
    tools::{Tool, ToolChoice},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The path is relative to the repository's root.
    let own = "native-demo/model/wisp-tiny.gguf";
    let model = Model::load(std::env::args().nth(1).unwrap_or_else(|| own.into()))?;
    let schema = r#"{"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}"#;
    let weather =
        Tool::new("weather", schema.parse()?)?.with_description("Returns the weather of a city.");
    // The model inside the program was not trained to call functions: here it must.
    let mut chat = model.chat().tools([weather], ToolChoice::Required)?;
    let question = "How is the weather in Oslo?";
    let answer = chat
        .send_with(question, |answer| answer.max_tokens(96))
        .complete()?;
    for call in &answer.tool_calls {
        println!("{}({})", call.name, call.arguments);
    }
    // The results, in the order of the calls.
    let results = answer.tool_calls.iter().map(|_| "Sunny.");
    let answer = chat
        .send_results_with(results, |answer| answer.max_tokens(96))
        .complete()?;
    println!("{} calls more: {}", answer.tool_calls.len(), answer.text);
    Ok(())
}
