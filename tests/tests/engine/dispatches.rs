//! The dispatches of a token. Each costs a GPU some microseconds in which it computes nothing, so that their number
//! bounds the speed of small models.

use wisp_engine::pipelines::{ModelLimits, text_generation::TextGenerator};
use wisp_shaders::DeviceClass;
use wisp_tests::{
    bundled::{files, session},
    program::TestDevice,
};

/// The dispatches of a dense layer, in order, by what they compute and the first weight that they multiply by.
const LAYER: [&str; 9] = [
    "linear blk.1.attn_q.weight",
    "rope_kv_write",
    "attention",
    "linear blk.1.attn_output.weight",
    "add_rms_norm",
    "linear blk.1.ffn_gate.weight",
    "gated",
    "linear blk.1.ffn_down.weight",
    "add_rms_norm",
];

/// Layers of the bundled model.
const LAYERS: usize = 3;

/// The host selects kernels of class gpu, so that these are the dispatches of a GPU.
#[test]
fn dense_layers_take_nine_dispatches_each() {
    let limits = ModelLimits {
        max_length: 96,
        ..ModelLimits::default()
    };
    let session = session(TestDevice::Host);
    let generator = TextGenerator::load_blocking(&session, &files(), limits).unwrap();
    let decoder = generator.decoder().unwrap();
    let program = decoder.decoder().program();

    let kernels = program.calls.iter().flat_map(|call| &call.kernels);
    for kernel in kernels.filter_map(|choice| wisp_shaders::kernel(&choice.name)) {
        assert_ne!(
            kernel.device_class,
            DeviceClass::Software,
            "{}",
            kernel.name
        );
    }
    let labels: Vec<&str> = program
        .calls
        .iter()
        .map(|call| call.label.as_str())
        .collect();
    let second = labels.iter().position(|label| *label == LAYER[0]).unwrap();
    assert_eq!(labels[second..][..LAYER.len()], LAYER);
    // Before the layers: the embedding and its norm. After them: the last tokens' rows and their logits.
    assert_eq!(labels.len(), 2 + LAYERS * LAYER.len() + 2, "{labels:#?}");
}
