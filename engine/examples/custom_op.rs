//! A custom op from scratch: heat spreads over a plate, computed by a kernel of your own
//! (`custom_op.wgsl` and `custom_op.toml` beside this file). `cargo run --example custom_op -- vulkan`

use std::error::Error;
use wisp_engine::{
    device::{Device, DeviceOptions, host},
    extension::Extensions,
    graph::{DType, Graph},
    session::{InferenceSession, InitOptions, Tensor},
    shape,
    weights::MemoryWeights,
};

/// The host twin of the kernel, because the host runs no WGSL.
fn twin(args: &host::Args) -> Result<(), host::HostError> {
    let [len, rows, cols, _, _, _, rate]: [u32; 7] = args.params()?;
    let (rows, cols, rate) = (rows as usize, cols as usize, f32::from_bits(rate));
    let heat: &[f32] = args.read(1, len as usize)?;
    let out: &mut [f32] = args.write(2, len as usize)?;
    for (i, out) in out.iter_mut().enumerate() {
        let (y, x) = (i / cols, i % cols);
        let near = [(y > 0, y.wrapping_sub(1), x), (x > 0, y, x.wrapping_sub(1))];
        let far = [(y + 1 < rows, y + 1, x), (x + 1 < cols, y, x + 1)];
        let more = near.iter().chain(&far).filter(|(there, ..)| *there);
        let more: f32 = more.map(|(_, y, x)| heat[y * cols + x] - heat[i]).sum();
        *out = heat[i] + rate * more;
    }
    Ok(())
}

/// Returns the plate's temperatures after some steps; at first only its middle is hot.
pub fn plate(device: Device, size: usize, steps: usize) -> Result<Vec<f32>, Box<dyn Error>> {
    let declaration = include_str!("custom_op.toml");
    let extensions = Extensions::from_source(declaration, include_str!("custom_op.wgsl"))?;
    let extensions = extensions.with_twin("spread", twin)?;
    let mut graph = Graph::new("plate");
    graph.use_extensions(&extensions)?;
    let mut heat = graph.input("heat", DType::F32, shape![size as u64, size as u64]);
    for _ in 0..steps {
        heat = graph.custom("spread", &[heat], &[("rate", 0.2.into())])?[0];
    }
    graph.output("heat", heat);
    let session = InferenceSession::new(device).with_extensions(extensions);
    let model = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
    let mut start = vec![0.0; size * size];
    start[size / 2 * size + size / 2] = 100.0;
    let start = Tensor::f32(&[size as u64, size as u64], &start).ok_or("a plate")?;
    let end = pollster::block_on(model.execute(&[&start]))?;
    Ok(end[0].as_f32().unwrap_or_default().to_vec())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = std::env::args().nth(1).unwrap_or("auto".into()).parse()?;
    let device = Device::open_blocking(&device, DeviceOptions::default())?;
    for row in plate(device, 9, 8)?.chunks(9) {
        println!("{row:5.2?}");
    }
    Ok(())
}
