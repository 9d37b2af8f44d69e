//! The dispatches of a token. Each costs a GPU some microseconds in which it computes nothing, so that their number
//! bounds the speed of small models.

use std::sync::{Arc, Mutex};

use wisp_engine::{
    Precision,
    pipelines::{ModelFiles, ModelLimits, Request, SamplingParams, text_generation::TextGenerator},
    session::{DebugConfig, InferenceSession},
    weights::Encoding,
};
use wisp_tests::{
    bundled::{files, folder, session},
    program::TestDevice,
    quantize::requantize,
};

/// The dispatches of a dense layer in a short context, by what they compute and the first weight that they multiply
/// by. In long contexts attention takes one more, which combines its chunks.
const LAYER: [&str; 8] = [
    "linear blk.1.attn_q.weight",
    "rope_kv_write",
    "attention",
    "linear blk.1.attn_output.weight",
    "add_rms_norm",
    "gated blk.1.ffn_gate.weight",
    "linear blk.1.ffn_down.weight",
    "add_rms_norm",
];

/// Layers of the bundled model.
const LAYERS: usize = 3;

/// The same with activations in 8 bits: norms quantise their results, attention and gated products do not.
const INT8_LAYER: [&str; 10] = [
    "linear blk.1.attn_q.weight",
    "rope_kv_write",
    "attention",
    "linear",
    "linear blk.1.attn_output.weight",
    "add_rms_norm",
    "gated blk.1.ffn_gate.weight",
    "linear",
    "linear blk.1.ffn_down.weight",
    "add_rms_norm",
];

/// Loads the bundled model on the host, with a context of this length. In int8, its weights are integers.
fn load(max_length: u64, precision: Precision) -> (InferenceSession, TextGenerator) {
    let limits = ModelLimits {
        max_length,
        ..ModelLimits::default()
    };
    let session = session(TestDevice::Host);
    session.set_precision(precision);
    let quantised = tempfile::tempdir().unwrap();
    let files = match precision {
        Precision::Exact | Precision::F16 => files(),
        Precision::Int8 => {
            let original = std::fs::read(folder().join("wisp-tiny.gguf")).unwrap();
            let file = quantised.path().join("q8_0.gguf");
            std::fs::write(&file, requantize(&original, Encoding::Q8_0)).unwrap();
            ModelFiles::open(&file).unwrap()
        }
    };
    let generator = TextGenerator::load_blocking(&session, &files, limits).unwrap();
    (session, generator)
}

/// Returns what the run that decodes a token dispatches. The host selects kernels of class gpu, so that these are the
/// dispatches of a GPU.
fn dispatches(precision: Precision) -> Vec<String> {
    let (session, mut generator) = load(96, precision);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    session.set_debug_sink(move |line| sink.lock().unwrap().push(line.to_string()));
    session.set_debug_config(DebugConfig {
        op_log: true,
        ..DebugConfig::default()
    });
    let request = Request {
        tokens: vec![1, 2, 3],
        sampling: SamplingParams::default(),
        max_new_tokens: 2,
        stop_tokens: Vec::new(),
        ..Request::default()
    };
    generator.add(request).unwrap();
    while !generator.is_idle() {
        pollster::block_on(generator.step()).unwrap();
    }

    let lines = lines.lock().unwrap();
    let decoder = lines
        .iter()
        .filter_map(|line| line.strip_prefix("op: decoder "));
    // "12/31 linear blk.1.attn_q.weight: 96 x 1 x 1 workgroups of …"
    let labels = decoder.filter_map(|line| Some(line.split_once(' ')?.1.split_once(": ")?.0));
    let labels: Vec<&str> = labels.collect();
    // The run that decodes comes last.
    let first = labels
        .iter()
        .rposition(|label| label.starts_with("embed"))
        .unwrap();
    labels[first..].iter().copied().map(String::from).collect()
}

/// Returns the dispatches of the second layer.
fn second_layer(run: &[String]) -> &[String] {
    let first = run.iter().position(|label| label == LAYER[0]).unwrap();
    let count = run[first..]
        .iter()
        .position(|label| label.contains("blk.2."));
    &run[first..][..count.unwrap()]
}

#[test]
fn dense_layers_take_eight_dispatches_each() {
    let run = dispatches(Precision::Exact);
    assert_eq!(second_layer(&run), LAYER, "{run:#?}");
    // Before the layers: the embedding and its norm. After them: the last tokens' rows and their logits.
    assert_eq!(run.len(), 2 + LAYERS * LAYER.len() + 2, "{run:#?}");
}

#[test]
fn dense_layers_take_ten_dispatches_each_with_activations_in_8_bits() {
    let run = dispatches(Precision::Int8);
    assert_eq!(second_layer(&run), INT8_LAYER, "{run:#?}");
    // After the layers, the last tokens' rows are quantised too.
    assert_eq!(run.len(), 2 + LAYERS * INT8_LAYER.len() + 3, "{run:#?}");
}

/// The host selects kernels of class gpu, so that these are the bytes that a GPU reads.
#[test]
fn a_token_reads_weights_and_cache_once() {
    let (_, generator) = load(512, Precision::Exact);
    let model = generator.decoder().unwrap().decoder();
    let traffic = |tokens, positions| {
        let sizes = model.max_dims().into_iter().map(|(name, max)| match name {
            "tokens" => (name, tokens),
            "logit_rows" => (name, 1),
            _ => (name, max),
        });
        let sizes: Vec<(&str, u64)> = sizes.collect();
        model.traffic(&model.dims(&sizes).unwrap(), positions)
    };
    let spec = generator.decoder().unwrap().spec();
    let position_bytes = 2 * spec.kv_row_bytes(0, generator.limits().cache_format) * LAYERS as u64;
    for positions in [1, 100, 500] {
        let traffic = traffic(1, positions);
        assert_eq!(traffic.cache, positions * position_bytes);
        assert!(traffic.ratio() <= 1.02, "{traffic:?}");
        // All weights but the rest of the embedding, which is the output layer too, and the norms.
        let weights = model.program().footprint(&Default::default(), &[]).weights;
        assert!(
            (0.98..1.02).contains(&(traffic.weights as f64 / weights as f64)),
            "{traffic:?} of {weights}"
        );
    }
    // Up to eight tokens share one pass over the weights.
    let [one, eight] = [1, 8].map(|tokens| traffic(tokens, 1).weights);
    assert!((one..one + one / 50).contains(&eight), "{one}, {eight}");
}
