//! Recognises handwritten digits, on any device: `cargo run -p wisp-engine --example image_classifier -- [DEVICE]`.
//!
//! [`model`] builds the graph with the public interface alone; `train.py` trained its weights with
//! PyTorch. Here it is compiled, given the weights, and run.

mod model;

use std::{error::Error, path::Path};

use wisp_engine::{
    device::{Device, DeviceOptions, DeviceSpec},
    session::{InferenceSession, InitOptions, Tensor},
    weights::{Checkpoint, encodings},
};

/// The numbers of a tensor of a checkpoint.
fn numbers(checkpoint: &Checkpoint, name: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let tensor = checkpoint.require(name)?;
    let count = tensor.shape.iter().product::<u64>() as usize;
    let bytes = checkpoint.bytes(name, 0..tensor.len)?;
    Ok(encodings::dequantize(tensor.encoding()?, &bytes, 1, count)?)
}

/// A picture in characters, the darker the more ink.
fn draw(picture: &[f32]) {
    for row in picture.chunks(model::SIDE as usize) {
        let line = row
            .iter()
            .map(|ink| [" ", "░", "▒", "▓", "█"][(ink * 4.0).round() as usize % 5]);
        println!("    {}", line.flat_map(|c| [c, c]).collect::<String>());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let spec = std::env::args().nth(1).unwrap_or("auto".into());
    let device = Device::open_blocking(&spec.parse::<DeviceSpec>()?, DeviceOptions::default())?;
    println!("on {}", device.info().name);

    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/image_classifier"
    ));
    let weights = Checkpoint::open(folder.join("model.safetensors"))?;
    let samples = Checkpoint::open(folder.join("samples.safetensors"))?;
    let (images, labels) = (numbers(&samples, "images")?, numbers(&samples, "labels")?);
    let count = labels.len() as u64;

    let session = InferenceSession::new(device);
    let max_dims = [("batch".to_string(), count)].into();
    let options = InitOptions {
        max_dims,
        ..Default::default()
    };
    let classifier = session.load_blocking(&model::graph()?, &weights, options)?;

    let input = Tensor::f32(&[count, 1, model::SIDE, model::SIDE], &images)
        .ok_or("a picture is cut off")?;
    let outputs = pollster::block_on(classifier.execute_named(&[("images", &input)]))?;
    let classes = outputs["classes"]
        .as_u32()
        .ok_or("classes are whole numbers")?;
    let probabilities = outputs["probabilities"]
        .as_f32()
        .ok_or("probabilities are floats")?;

    let pictures = images.chunks((model::SIDE * model::SIDE) as usize);
    for (i, picture) in pictures.take(3).enumerate() {
        let class = classes[i];
        println!(
            "a {class}, to {:.1} %:",
            100.0 * probabilities[i * 10 + class as usize]
        );
        draw(picture);
    }
    let right = classes
        .iter()
        .zip(&labels)
        .filter(|(class, label)| **class as f32 == **label)
        .count();
    println!("{right} of {count} right");
    Ok(())
}
