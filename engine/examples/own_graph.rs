//! A graph of your own: the mean of each row of a matrix, compiled and run on the best available
//! device. `cargo run -p wisp-engine --example own_graph`

use wisp_engine::{
    device::{Device, DeviceOptions, DeviceSpec},
    graph::{DType, Graph, Reduction},
    session::{InferenceSession, InitOptions, Tensor},
    shape,
    weights::MemoryWeights,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut graph = Graph::new("means");
    let x = graph.input("x", DType::F32, shape!["rows", 4u64]);
    let mean = graph.reduce(Reduction::Mean, x, 1)?;
    graph.output("mean", mean);

    let device = Device::open_blocking(&DeviceSpec::Auto, DeviceOptions::default())?;
    let session = InferenceSession::new(device);
    let max_dims = [("rows".to_string(), 64)].into();
    let options = InitOptions {
        max_dims,
        ..Default::default()
    };
    let model = session.load_blocking(&graph, &MemoryWeights::default(), options)?;

    let rows = Tensor::f32(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
    let outputs = pollster::block_on(model.execute(&[&rows.ok_or("eight numbers")?]))?;
    println!("{:?}", outputs[0].as_f32().unwrap_or_default());
    Ok(())
}
