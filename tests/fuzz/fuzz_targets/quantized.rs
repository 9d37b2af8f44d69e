//! Any `quantization_config`, and after a line feed any safetensors file: no panic, and matrices whose blocks can be read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::weights::{Checkpoint, QuantizationConfig, WeightSource};

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (settings, file) = (&data[..end], &data[end + 1..]);
    let Ok(settings) = serde_json::from_slice::<serde_json::Value>(settings) else {
        return;
    };
    let config = serde_json::json!({ "quantization_config": settings });
    let Ok(Some(config)) = QuantizationConfig::from_config(&config) else {
        return;
    };
    let Ok(mut checkpoint) = Checkpoint::from_bytes("model.safetensors", file.to_vec()) else {
        return;
    };
    if checkpoint.join_quantized(&config).is_err() {
        return;
    }
    for tensor in checkpoint.tensors() {
        if let Ok(bytes) = checkpoint.bytes(&tensor.name, 0..tensor.len) {
            assert_eq!(bytes.len() as u64, tensor.len);
        }
        if let Some(order) = checkpoint.column_order(&tensor.name) {
            assert_eq!(Some(order.len() as u64), tensor.shape.last().copied());
        }
    }
});
