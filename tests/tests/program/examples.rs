//! The engine's examples: their graphs compared with PyTorch, and the programs themselves.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use wisp_engine::{
    compiler::Target,
    graph::Graph,
    session::{CompiledModule, InitOptions, Model, Tensor},
    weights::{Checkpoint, WeightSource, encodings},
};
use wisp_tests::{
    bundled::{self, session},
    encoder, lora, on_every_device,
    program::{TestDevice, example, run_command},
    sample,
};

#[path = "../../../engine/examples/image_classifier/model.rs"]
mod classifier;

#[path = "../../../engine/examples/bert_encoder/model.rs"]
mod bert;

#[path = "../../../engine/examples/bert_encoder/seeded.rs"]
mod seeded;

#[path = "../../../engine/examples/bert_encoder/golden.rs"]
mod golden;

fn checkpoint(name: &str) -> Checkpoint {
    let folder = "../engine/examples/image_classifier";
    Checkpoint::open(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(folder)
            .join(name),
    )
    .unwrap()
}

fn numbers(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    let tensor = checkpoint.require(name).unwrap();
    let count = tensor.shape.iter().product::<u64>() as usize;
    let bytes = checkpoint.bytes(name, 0..tensor.len).unwrap();
    encodings::dequantize(tensor.encoding().unwrap(), &bytes, 1, count).unwrap()
}

fn model(
    place: TestDevice,
    graph: &Graph,
    weights: &dyn WeightSource,
    dims: &[(&str, u64)],
) -> Model {
    let max_dims = dims.iter().map(|(name, size)| (name.to_string(), *size));
    let options = InitOptions {
        max_dims: max_dims.collect(),
        ..Default::default()
    };
    session(place)
        .load_blocking(graph, weights, options)
        .unwrap()
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

/// Logits, probabilities and classes of test images, in batches of several sizes.
fn image_classifier_matches_pytorch(place: TestDevice) {
    let samples = checkpoint("samples.safetensors");
    let [images, logits, labels] =
        ["images", "logits", "labels"].map(|name| numbers(&samples, name));
    let weights = checkpoint("model.safetensors");
    let model = model(
        place,
        &classifier::graph().unwrap(),
        &weights,
        &[("batch", 50)],
    );
    for count in [50, 1, 7] {
        let pixels = (count * classifier::SIDE * classifier::SIDE) as usize;
        let shape = [count, 1, classifier::SIDE, classifier::SIDE];
        let input = Tensor::f32(&shape, &images[..pixels]).unwrap();
        let outputs = pollster::block_on(model.execute(&[&input])).unwrap();
        let [given, probabilities, classes] = &outputs[..] else {
            panic!("{} outputs", outputs.len())
        };
        assert_eq!(given.shape(), [count, 10]);
        let expected = &logits[..count as usize * 10];
        let off = difference(given.as_f32().unwrap(), expected);
        println!("{place:?}, {count}: within {off:.1e}");
        assert!(off < 1e-5, "{place:?}, {count}: logits are off by {off}");
        let rows = expected
            .chunks(10)
            .zip(probabilities.as_f32().unwrap().chunks(10));
        for (logits, probabilities) in rows {
            let total: f32 = logits.iter().map(|logit| logit.exp()).sum();
            let expected: Vec<f32> = logits.iter().map(|logit| logit.exp() / total).collect();
            assert!(difference(probabilities, &expected) < 2e-6);
        }
        let right = classes.as_u32().unwrap().iter().zip(&labels);
        let mut right = right.map(|(class, label)| *class as f32 == *label);
        assert!(right.all(|right| right));
    }
}

fn encoded(place: TestDevice, size: &str, config: bert::Config, weights: u64) {
    let golden = golden::Golden::read(size).unwrap();
    let graph = config.graph().unwrap();
    let seeded = seeded::Seeded::of(&graph);
    assert_eq!(seeded.count(), weights);
    let dims = [("batch", golden.texts + 1), ("tokens", golden.tokens + 3)];
    let model = model(place, &graph, &seeded, &dims);
    let shape = [golden.texts, golden.tokens];
    let inputs = [&golden.ids, &golden.kinds, &golden.mask];
    let inputs = inputs.map(|numbers| Tensor::u32(&shape, numbers).unwrap());
    let outputs = pollster::block_on(model.execute(&inputs.each_ref())).unwrap();
    let expected = [&golden.hidden_states, &golden.pooled];
    for (output, expected) in outputs.iter().zip(expected) {
        assert_eq!(output.shape().last(), Some(&config.hidden));
        let off = golden.difference(config.hidden, output.as_f32().unwrap(), expected);
        println!("{size} on {place:?}: {:?} within {off:.1e}", output.shape());
        assert!(off < 1e-5, "{size} on {place:?}: states are off by {off}");
    }
}

fn small_bert_matches_pytorch(place: TestDevice) {
    encoded(place, "small", bert::Config::SMALL, 88_776);
}

/// The size of the published model, 110 million weights: in an ordinary run on the host only.
fn bert_base_matches_pytorch(place: TestDevice) {
    if place != TestDevice::Host && !sample::takes_all() {
        return;
    }
    encoded(place, "base", bert::Config::BASE, 109_482_240);
}

on_every_device!(
    image_classifier_matches_pytorch,
    small_bert_matches_pytorch,
    bert_base_matches_pytorch
);

#[test]
fn texts_longer_than_the_position_table_are_refused() {
    let graph = bert::Config::SMALL.graph().unwrap();
    let seeded = seeded::Seeded::of(&graph);
    let model = model(
        TestDevice::Host,
        &graph,
        &seeded,
        &[("batch", 1), ("tokens", 64)],
    );
    assert!(model.dims(&[("batch", 1), ("tokens", 40)]).is_ok());
    let error = model.dims(&[("batch", 1), ("tokens", 41)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bert: slice_like embeddings.position_embeddings.weight reads 41 parts, but there are 40"
    );
}

/// Kernels are translated to the shader language of each target, also without a device of that kind.
#[test]
fn examples_compile_for_every_target() {
    let graphs = [
        classifier::graph().unwrap(),
        bert::Config::BASE.graph().unwrap(),
    ];
    for (target, _) in Target::all() {
        let module = CompiledModule::compile(&graphs, &target).unwrap();
        let bytes = module.to_bytes().unwrap();
        let again = CompiledModule::compile(&graphs, &target).unwrap();
        assert_eq!(again.to_bytes().unwrap(), bytes, "{}", target.name);
        let loaded = CompiledModule::from_bytes(&bytes).unwrap();
        assert_eq!(loaded.models().len(), 2);
    }
}

/// An example as it is run from the repository's root.
fn from_root(name: &str) -> Command {
    let mut command = Command::new(example(name));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    command
}

fn printed(name: &str, arguments: &[&str]) -> String {
    let mut command = from_root(name);
    let output = command.args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn examples_of_the_facade_run() {
    let text = printed("streaming", &[]);
    assert!(
        text.starts_with("Once upon a time") && text.contains("\nLength after 48 tokens"),
        "{text}"
    );
    let text = printed("batch", &[]);
    assert!(text.lines().count() >= 3, "{text}");
    let text = printed("tools", &[]);
    assert!(text.starts_with("weather({"), "{text}");
    let text = printed("event_loop", &[]);
    assert!(text.contains("\nLength"), "{text}");
    let text = printed("own_pipeline_model", &[]);
    assert!(text.starts_with("[2, 3, 4, 5, 6, 7] None\n"), "{text}");
    let text = printed("own_graph", &[]);
    assert!(!text.is_empty());
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let path = folder.path().to_str().unwrap();
    let text = printed("embeddings", &[path, "a b", "a b", "b a"]);
    assert!(text.starts_with("1.0000 a b\n"), "{text}");
    let modules = [("model.layers.0.self_attn.q_proj".to_string(), [256, 256])];
    let adapter = lora::Adapter::plain(1, &modules, 8, 64.0);
    adapter.write(folder.path());
    let bundled = bundled::folder().join("wisp-tiny.gguf");
    let text = printed(
        "lora",
        &[bundled.to_str().unwrap(), path, "Once upon a time"],
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0] != lines[1], "{text}");
}

#[test]
fn the_chat_example_answers_until_its_input_ends() {
    let mut command = from_root("chat");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run_command(command, "Hello!\nAnother one!\n").succeeded();
    assert!(run.stdout.lines().count() >= 2, "{}", run.stdout);
}

#[test]
fn examples_of_graphs_run() {
    let text = printed("image_classifier", &["host"]);
    assert!(text.contains(" of 50 right"), "{text}");
    let text = printed("bert_encoder", &["host"]);
    assert!(text.contains("hidden [3, 13, 60]: within "), "{text}");
    assert!(text.contains("of PyTorch's"), "{text}");
}
