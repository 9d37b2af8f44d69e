//! A model for unit tests: one product, on the host.

use wisp_device::Device;
use wisp_graph::Graph;
use wisp_types::{DType, Encoding, shape};
use wisp_weights::MemoryWeights;

use crate::{InferenceSession, InitOptions, Model};

/// Loads the product of `x: f32 [tokens, 32]`, of at most `max_tokens` tokens, and a weight `f32 [16, 32]`.
pub(crate) fn product(max_tokens: u64) -> (InferenceSession, Model) {
    let mut graph = Graph::new("product");
    let x = graph.input("x", DType::F32, shape!["tokens", 32u64]);
    let weight = graph.weight("w", Encoding::F32, shape![16u64, 32u64]);
    let y = graph.linear(x, weight, None).unwrap();
    graph.output("y", y);
    let mut weights = MemoryWeights::default();
    let values: Vec<f32> = (0..16 * 32).map(|i| (i as f32 * 0.7).sin()).collect();
    weights.insert("w", &[16, 32], &values).unwrap();
    let session = InferenceSession::new(Device::host(1).unwrap());
    let options = InitOptions {
        max_dims: [("tokens".to_string(), max_tokens)].into(),
        ..Default::default()
    };
    let model = session.load_blocking(&graph, &weights, options).unwrap();
    (session, model)
}
