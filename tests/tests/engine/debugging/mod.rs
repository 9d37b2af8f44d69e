//! Debugging: checks, their messages, and what graphs print.

mod asserts;
mod checks;
mod graphs;
mod log;
mod print;
mod whole_program;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use wisp_engine::{
    graph::Graph,
    session::{DebugConfig, InferenceSession, InitOptions, Model, Tensor},
    weights::MemoryWeights,
};

fn options() -> InitOptions<'static> {
    InitOptions {
        max_dims: HashMap::from([("n".to_string(), 8)]),
        ..Default::default()
    }
}

/// The lines that a session logs and prints from now on.
fn captured_lines(session: &InferenceSession) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    session.set_debug_sink(move |line| sink.lock().unwrap().push(line.to_string()));
    lines
}

/// Loads a graph of these tests with weights for all of them; dimension `n` is at most 8.
fn load(session: &InferenceSession, graph: &Graph) -> Model {
    let mut weights = MemoryWeights::default();
    let table: Vec<f32> = (0..96).map(|i| i as f32).collect();
    weights.insert("table", &[3, 32], &table).unwrap();
    for name in ["q", "k", "v"] {
        weights.insert(name, &[32, 32], &[0.125; 1024]).unwrap();
    }
    weights.insert("angles", &[4, 32], &[0.5; 128]).unwrap();
    weights.insert("norm", &[32], &[1.0; 32]).unwrap();
    session.load_blocking(graph, &weights, options()).unwrap()
}

/// Runs a model; an error is its message.
fn execute(model: &Model, inputs: &[&Tensor]) -> Result<Vec<Tensor>, String> {
    model
        .execute_blocking(inputs)
        .map_err(|error| error.to_string())
}

/// The default settings with a change.
fn config(change: impl FnOnce(&mut DebugConfig)) -> DebugConfig {
    let mut config = DebugConfig::default();
    change(&mut config);
    config
}
