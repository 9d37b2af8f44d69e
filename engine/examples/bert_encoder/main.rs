//! Encodes texts with a BERT: `cargo run --release -p wisp-engine --example bert_encoder -- [DEVICE] [small|base]`.
//!
//! [`model`] builds the graph with the public interface alone, for texts of any number and length. The
//! weights are [`seeded`], not trained: what comes out is compared with what PyTorch makes of the same.

mod golden;
mod model;
mod seeded;

use std::{error::Error, time::Instant};

use wisp_engine::{
    device::{Device, DeviceOptions, DeviceSpec},
    session::{InferenceSession, InitOptions, Tensor},
};

use golden::Golden;
use model::Config;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let spec: DeviceSpec = arguments.next().unwrap_or("auto".into()).parse()?;
    let size = arguments.next().unwrap_or("small".into());
    let golden = Golden::read(&size)?;
    let config = if size == "base" {
        Config::BASE
    } else {
        Config::SMALL
    };

    let graph = config.graph()?;
    let weights = seeded::Seeded::of(&graph);
    let session = InferenceSession::new(Device::open_blocking(&spec, DeviceOptions::default())?);
    let max_dims = [
        ("batch".to_string(), golden.texts),
        ("tokens".to_string(), golden.tokens),
    ];
    let options = InitOptions {
        max_dims: max_dims.into(),
        ..Default::default()
    };
    let bert = session.load_blocking(&graph, &weights, options)?;
    println!(
        "on {}: {} weights, {} kernel calls for a batch",
        session.device().info().name,
        weights.count(),
        bert.dispatches_per_run()
    );

    let input =
        |numbers| Tensor::u32(&[golden.texts, golden.tokens], numbers).ok_or("a text is cut off");
    let (ids, kinds, mask) = (
        input(&golden.ids)?,
        input(&golden.kinds)?,
        input(&golden.mask)?,
    );
    let inputs = [("ids", &ids), ("kinds", &kinds), ("mask", &mask)];
    let began = Instant::now();
    let outputs = pollster::block_on(bert.execute_named(&inputs))?;
    println!(
        "{} texts of up to {} tokens in {:.1?}",
        golden.texts,
        golden.tokens,
        began.elapsed()
    );

    for (name, expected) in [
        ("hidden", &golden.hidden_states),
        ("pooled", &golden.pooled),
    ] {
        let states = outputs[name].as_f32().ok_or("states are floats")?;
        let difference = golden.difference(config.hidden, states, expected);
        println!(
            "{name} {:?}: within {difference:.1e} of PyTorch's",
            outputs[name].shape()
        );
    }
    Ok(())
}
