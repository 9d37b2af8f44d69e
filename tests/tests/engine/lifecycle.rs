//! Reloading and releasing the weights of a model, and captured runs.

mod failed_reloads;

use std::collections::BTreeMap;

use proptest::prelude::*;
use wisp_engine::{
    graph::{Binary, DType, Graph, Module, ops::Linear},
    session::{InferenceSession, InitOptions, Model, SessionError, Tensor},
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{
    bundled::session,
    on_every_device,
    program::TestDevice,
    small::{MOST, options, three_devices, tokens as inputs, transformer, weights_of},
};

fn load(session: &InferenceSession, weights: &MemoryWeights) -> Model {
    session
        .load_blocking(&transformer(), weights, options())
        .unwrap()
}

fn execute(model: &Model, inputs: &[Tensor; 3]) -> Result<Vec<Tensor>, SessionError> {
    model.execute_blocking(&inputs.each_ref())
}

const RELEASED: &str = "the weights of small were released: reload them before it runs";

/// A reloaded model computes the same as one loaded with these weights, in the same memory; a released one
/// needs less memory.
fn reloading_replaces_weights_in_place(place: TestDevice) {
    let graph = transformer();
    let [first, second] = [1, 2].map(|seed| weights_of(&graph, seed));
    let fresh = load(&session(place), &second);
    let expected = execute(&fresh, &inputs(0, 5)).unwrap();

    let session = session(place);
    let device = session.device();
    let mut model = load(&session, &first);
    let before = execute(&model, &inputs(0, 5)).unwrap();
    assert_ne!(before, expected);
    let allocated = device.allocated();
    model.reload_blocking(&second).unwrap();
    assert_eq!(device.allocated(), allocated, "nothing is allocated");
    assert_eq!(execute(&model, &inputs(0, 5)).unwrap(), expected);

    let driver = || {
        pollster::block_on(device.finish()).unwrap();
        device.driver_allocated()
    };
    let footprint = model.program().footprint(&options().max_dims, &[]);
    let held = driver();
    model.release();
    assert_eq!(allocated.0 - device.allocated().0, footprint.weights);
    if let (Some(held), Some(now)) = (held, driver()) {
        assert!(
            now + footprint.weights <= held,
            "{held}, then {now} on {place:?}"
        );
    }
    assert_eq!(
        execute(&model, &inputs(0, 5)).unwrap_err().to_string(),
        RELEASED
    );
    let run = model.run(&model.dims(&MOST).unwrap());
    assert_eq!(run.unwrap_err().to_string(), RELEASED);
    let captured = model.capture_blocking(&inputs(0, 5).each_ref());
    assert_eq!(captured.unwrap_err().to_string(), RELEASED);

    model.reload_blocking(&first).unwrap();
    assert_eq!(device.allocated().0, allocated.0);
    assert_eq!(execute(&model, &inputs(0, 5)).unwrap(), before);
}

/// The contents of a KV cache stay while the weights are released and reloaded.
fn buffers_outlive_the_weights(place: TestDevice) {
    let weights = weights_of(&transformer(), 3);
    let session = session(place);
    let whole = load(&session, &weights);
    execute(&whole, &inputs(0, 5)).unwrap();
    let expected = execute(&whole, &inputs(5, 1)).unwrap();

    let mut model = load(&session, &weights);
    execute(&model, &inputs(0, 5)).unwrap();
    model.release();
    model.reload_blocking(&weights).unwrap();
    assert_eq!(execute(&model, &inputs(5, 1)).unwrap(), expected);
}

fn captured_runs_replay_among_other_sizes_and_weights(place: TestDevice) {
    let graph = transformer();
    let [first, second] = [4, 5].map(|seed| weights_of(&graph, seed));
    let session = session(place);
    let plain = load(&session, &first);
    let mut model = load(&session, &first);
    let captured = |model: &mut Model, at, tokens| {
        model
            .capture_blocking(&inputs(at, tokens).each_ref())
            .unwrap()
    };
    let seen = |outputs: &[Tensor]| -> Vec<Tensor> {
        let seen = outputs
            .iter()
            .map(|output| output.to_host_blocking().unwrap());
        seen.collect()
    };
    let four = captured(&mut model, 0, 4);
    let expected = execute(&plain, &inputs(0, 4)).unwrap();
    assert_eq!(seen(&four), expected);
    let mut one = captured(&mut model, 4, 1);
    execute(&plain, &inputs(4, 1)).unwrap();
    let allocated = session.device().allocated();
    for at in 5..12 {
        model.replay_blocking(&inputs(at, 1).each_ref()).unwrap();
        let expected = execute(&plain, &inputs(at, 1)).unwrap();
        assert_eq!(seen(&one), expected, "token {at} on {place:?}");
        // Others in between change nothing.
        if at == 8 {
            assert_eq!(
                execute(&model, &inputs(0, 3)).unwrap(),
                execute(&plain, &inputs(0, 3)).unwrap()
            );
        }
    }
    model.replay_blocking(&inputs(0, 4).each_ref()).unwrap();
    assert_eq!(seen(&four), expected);
    // A second time nothing is made anew.
    one = captured(&mut model, 11, 1);
    assert_eq!(session.device().allocated(), allocated);
    let error = model.replay_blocking(&inputs(0, 2).each_ref()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "small has not captured a run of inputs of these sizes (tokens=2 batch=1 max_pages=4): capture it first"
    );

    // After a release too, and with other weights.
    model.release();
    let error = model.replay_blocking(&inputs(0, 4).each_ref()).unwrap_err();
    assert_eq!(error.to_string(), RELEASED);
    model.reload_blocking(&second).unwrap();
    let other = load(&session, &second);
    model.replay_blocking(&inputs(0, 4).each_ref()).unwrap();
    assert_eq!(seen(&four), execute(&other, &inputs(0, 4)).unwrap());
    model.replay_blocking(&inputs(4, 1).each_ref()).unwrap();
    assert_eq!(seen(&one), execute(&other, &inputs(4, 1)).unwrap());
}

/// `n` rows times a weight that graphs of a module share.
fn product(name: &str, rows: u64) -> Graph {
    let mut graph = Graph::new(name);
    let x = graph.input("x", DType::F32, shape![rows, 64u64]);
    let w = graph.weight("w", Encoding::F32, shape![16u64, 64u64]);
    let b = graph.weight("b", Encoding::F32, shape![16u64]);
    let y = graph.add(Linear, &[x, w, b]).unwrap();
    graph.output("y", y);
    graph
}

fn of_product(w: f32) -> MemoryWeights {
    let mut weights = MemoryWeights::default();
    weights.insert("w", &[16, 64], &[w; 1024]).unwrap();
    weights.insert("b", &[16], &[1.0; 16]).unwrap();
    weights
}

fn load_product(session: &InferenceSession, name: &str) -> Model {
    let (graph, weights) = (product(name, 1), of_product(0.25));
    session
        .load_blocking(&graph, &weights, InitOptions::default())
        .unwrap()
}

/// Models that run again and again in the same order may become one command of the device, which ends when one of them
/// gets other memory.
fn models_in_turn_see_the_memory_of_a_reload(place: TestDevice) {
    let session = session(place);
    let [mut first, second] = ["first", "second"].map(|name| load_product(&session, name));
    for model in [&first, &second] {
        model.write("x", &[1.0f32; 64]).unwrap();
    }
    let dims = first.dims(&[]).unwrap();
    let value = |model: &Model| model.read_blocking::<f32>("y", 16).unwrap()[0];
    for weight in [0.25f32, 0.5, 2.0] {
        first.release();
        first.reload_blocking(&of_product(weight)).unwrap();
        for _ in 0..4 {
            for model in [&first, &second, &first] {
                model.run(&dims).unwrap();
            }
            assert_eq!(value(&first), 64.0 * weight + 1.0, "{place:?}");
            assert_eq!(value(&second), 17.0, "{place:?}");
        }
    }
}

/// Shared weights change for all models, and are freed when the last one releases them.
fn reloading_one_model_changes_shared_weights_of_all(place: TestDevice) {
    let mut module = Module::default();
    for rows in [1, 3] {
        module.add(product(&format!("by {rows}"), rows)).unwrap();
    }
    let session = session(place);
    let mut models = session
        .load_all_blocking(&module, &of_product(0.25), InitOptions::default())
        .unwrap();
    let (mut one, mut three) = (
        models.remove("by 1").unwrap(),
        models.remove("by 3").unwrap(),
    );
    let value = |model: &Model, rows: u64| {
        let x = Tensor::f32(&[rows, 64], &vec![1.0; 64 * rows as usize]).unwrap();
        let y = model.execute_blocking(&[&x]).unwrap();
        y[0].as_f32().unwrap()[0]
    };
    one.reload_blocking(&of_product(0.5)).unwrap();
    assert_eq!((value(&one, 1), value(&three, 3)), (33.0, 33.0));
    let both = session.device().allocated().0;
    one.release();
    assert_eq!(session.device().allocated().0, both, "the other has them");
    assert_eq!(value(&three, 3), 33.0);
    one.reload_blocking(&of_product(2.0)).unwrap();
    assert_eq!((value(&one, 1), value(&three, 3)), (129.0, 33.0));
    let weights = three.program().footprint(&Default::default(), &[]).weights;
    assert_eq!(session.device().allocated().0, both + weights);
    three.release();
    assert_eq!(session.device().allocated().0, both);
    drop((one, three));
    assert_eq!(session.device().allocated().0, 0);
}

/// Each run in a submission has the parameters of its own sizes.
fn runs_of_several_sizes_share_a_submission(place: TestDevice) {
    let mut graph = Graph::new("double");
    let x = graph.input("x", DType::F32, shape!["n"]);
    let twice = graph.add(Binary::Add, &[x, x]).unwrap();
    graph.output("twice", twice);
    let session = session(place);
    let options = InitOptions {
        max_dims: [("n".to_string(), 8)].into(),
        ..InitOptions::default()
    };
    let model = session
        .load_blocking(&graph, &MemoryWeights::default(), options)
        .unwrap();
    model.write("x", &[1.0f32; 8]).unwrap();
    let [five, three] = [5, 3].map(|n| model.dims(&[("n", n)]).unwrap());
    for _ in 0..2 {
        model.run(&five).unwrap();
        model.run(&three).unwrap();
    }
    let out: Vec<f32> = model.read_blocking("twice", 5).unwrap();
    assert_eq!(out, [2.0; 5]);
}

on_every_device!(
    reloading_replaces_weights_in_place,
    buffers_outlive_the_weights,
    captured_runs_replay_among_other_sizes_and_weights,
    models_in_turn_see_the_memory_of_a_reload,
    reloading_one_model_changes_shared_weights_of_all,
    runs_of_several_sizes_share_a_submission
);

/// The error lists all problems, and the model keeps its weights.
#[test]
fn wrong_weights_change_nothing() {
    let session = session(TestDevice::Host);
    let mut model = load_product(&session, "product");
    let mut wrong = MemoryWeights::default();
    wrong
        .insert_encoded("w", Encoding::F16, &[16, 64], vec![0; 2048])
        .unwrap();
    wrong.insert("b", &[8], &[0.0; 8]).unwrap();
    let x = Tensor::f32(&[1, 64], &[1.0; 64]).unwrap();
    let mut said = |weights: &MemoryWeights| {
        let error = model.reload_blocking(weights).unwrap_err().to_string();
        let y = model.execute_blocking(&[&x]).unwrap();
        assert_eq!(y[0].as_f32().unwrap(), [17.0; 16], "after {error}");
        error
    };
    assert_eq!(
        said(&wrong),
        "the checkpoint does not fit product: b has 8 elements, expected 16; w is F16, expected F32"
    );
    assert_eq!(
        said(&MemoryWeights::default()),
        "the checkpoint does not fit product: b is missing; w is missing"
    );
    let mut wrong = of_product(1.0);
    wrong.insert("w", &[8, 64], &[0.0; 512]).unwrap();
    assert_eq!(
        said(&wrong),
        "the checkpoint does not fit product: w has shape [8, 64], expected [16, 64]"
    );
}

#[test]
fn an_output_that_is_a_released_weight_is_refused() {
    let mut graph = Graph::new("held");
    let b = graph.weight("b", Encoding::F32, shape![16u64]);
    graph.output("b", b);
    let session = session(TestDevice::Host);
    let mut model = session
        .load_blocking(&graph, &of_product(1.0), InitOptions::default())
        .unwrap();
    let read = |model: &Model| model.read_blocking::<f32>("b", 16);
    assert_eq!(read(&model).unwrap(), [1.0; 16]);
    model.release();
    assert_eq!(
        read(&model).unwrap_err().to_string(),
        "the weights of held were released: reload them before it runs"
    );
}

/// An operation on a model of `n` rows.
#[derive(Clone, Copy, Debug)]
enum Act {
    Execute(u64),
    Capture(u64),
    Replay(u64),
    Reload(u8),
    Release,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0u64..5).prop_map(Act::Execute),
        2 => (0u64..5).prop_map(Act::Capture),
        3 => (0u64..5).prop_map(Act::Replay),
        2 => any::<u8>().prop_map(Act::Reload),
        1 => Just(Act::Release),
    ]
}

/// Performs an operation; returns its result, or on an error whether it is that of a released model.
fn done(model: &mut Model, act: Act, kept: &mut BTreeMap<u64, Tensor>) -> Result<Vec<f32>, bool> {
    let x = |rows: u64| Tensor::f32(&[rows, 64], &vec![1.0; 64 * rows as usize]).unwrap();
    let result = pollster::block_on(async {
        let output = match act {
            Act::Execute(rows) => model.execute(&[&x(rows)]).await?.remove(0),
            Act::Capture(rows) => {
                let output = model.capture(&[&x(rows)]).await?.remove(0);
                kept.insert(rows, output.clone());
                output.to_host().await?
            }
            Act::Replay(rows) => {
                model.replay(&[&x(rows)]).await?;
                kept[&rows].to_host().await?
            }
            Act::Reload(w) => {
                model.reload(&of_product(f32::from(w))).await?;
                return Ok(Vec::new());
            }
            Act::Release => {
                model.release();
                return Ok(Vec::new());
            }
        };
        Ok(output.as_f32().unwrap().to_vec())
    });
    result.map_err(|error: SessionError| matches!(error, SessionError::Released { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is done to a model in whatever order, it computes with the weights that it has last, or
    /// says why it cannot.
    #[test]
    fn any_order(acts in prop::collection::vec(act(), 1..30)) {
        let mut graph = Graph::new("product");
        let x = graph.input("x", DType::F32, shape!["n", 64u64]);
        let w = graph.weight("w", Encoding::F32, shape![16u64, 64u64]);
        let b = graph.weight("b", Encoding::F32, shape![16u64]);
        let y = graph.add(Linear, &[x, w, b]).unwrap();
        graph.output("y", y);
        for device in [0, 2] {
            let session = three_devices().on(device).unwrap();
            let mut model = session.load_blocking(&graph, &of_product(1.0), options()).unwrap();
            let (mut weight, mut kept) = (Some(1.0f32), BTreeMap::new());
            for act in &acts {
                let was_kept = |rows| kept.contains_key(rows);
                let expected = match (act, weight) {
                    (Act::Replay(rows), _) if !was_kept(rows) => Err(false),
                    (Act::Execute(rows) | Act::Capture(rows) | Act::Replay(rows), weight) => {
                        let rows = |w: f32| vec![64.0 * w + 1.0; 16 * *rows as usize];
                        weight.map(rows).ok_or(true)
                    }
                    (Act::Reload(w), _) => {
                        weight = Some(f32::from(*w));
                        Ok(Vec::new())
                    }
                    (Act::Release, _) => {
                        weight = None;
                        Ok(Vec::new())
                    }
                };
                prop_assert_eq!(done(&mut model, *act, &mut kept), expected, "{:?} of {:?}", act, &acts);
            }
        }
    }
}
