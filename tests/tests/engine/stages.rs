//! Graphs split into stages on several devices of a session.

use std::ops::Range;

use proptest::prelude::*;
use wisp_engine::{
    device::Device,
    graph::{
        Binary, DType, Graph, NormKind, NormSpec, Op, Reduction, Unary, ValueId,
        ops::{Linear, ScaledAdd},
    },
    session::{SplitModel, Tensor},
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{
    kernels::noise,
    small::{options, three_devices as session, tokens, transformer, weights_of},
};

/// The sorted kernels of some programs.
fn kernels<'a>(models: impl IntoIterator<Item = &'a wisp_engine::session::Model>) -> Vec<String> {
    let calls = models.into_iter().flat_map(|model| &model.program().calls);
    let mut kernels: Vec<String> = calls.map(|call| format!("{:?}", call.kernels)).collect();
    kernels.sort();
    kernels
}

/// Asserts that two results are equal, or that each float is within a bound of the other.
#[track_caller]
fn assert_near(what: &str, got: &[Tensor], expected: &[Tensor], bound: f32) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(got.shape(), expected.shape(), "{what}");
        let (Some(a), Some(b)) = (got.as_f32(), expected.as_f32()) else {
            assert_eq!(got, expected, "{what}");
            continue;
        };
        if bound == 0.0 {
            assert!(
                a.iter()
                    .map(|x| x.to_bits())
                    .eq(b.iter().map(|x| x.to_bits())),
                "{what}"
            );
        }
        let scale = b.iter().fold(1.0f32, |most, x| most.max(x.abs()));
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            assert!((a - b).abs() <= bound * scale, "{what}, {i}: {a} for {b}");
        }
    }
}

/// The small transformer, split at every op on all pairs of devices, with a prompt and then a token that
/// attends to it. The results are equal bit for bit where the kernels are the same.
#[test]
fn a_transformer_split_at_any_op_matches_one_device() {
    let session = session();
    let graph = transformer();
    let weights = weights_of(&graph, 1);
    let steps = [tokens(0, 5), tokens(5, 1)];
    let whole = session.load_blocking(&graph, &weights, options()).unwrap();
    let execute = |inputs: &[Tensor; 3]| whole.execute_blocking(&inputs.each_ref()).unwrap();
    let expected = steps.each_ref().map(execute);
    let ops = graph.nodes().len();
    let (mut exact, mut refused) = (0, 0);
    for at in 1..ops {
        for devices in [[0, 1], [1, 0], [0, 2], [2, 1]] {
            let stages = [(0..at, devices[0]), (at..ops, devices[1])];
            let what = format!("at {at} on {devices:?}");
            let split = match session.load_split_blocking(&graph, &stages, &weights, options()) {
                Ok(split) => split,
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("is used by kv_write (op"), "{what}: {error}");
                    assert!(error.ends_with("which are in different stages: split elsewhere"));
                    refused += 1;
                    continue;
                }
            };
            let same = !devices.contains(&2) && kernels(split.stages()) == kernels([&whole]);
            exact += usize::from(same);
            for (inputs, expected) in steps.iter().zip(&expected) {
                let got = split.execute_blocking(&inputs.each_ref()).unwrap();
                assert_near(&what, &got, expected, if same { 0.0 } else { 3e-6 });
            }
            let on: Vec<&Device> = split.stages().iter().map(|stage| stage.device()).collect();
            assert_eq!(on, devices.map(|device| &session.devices()[device]));
        }
    }
    // Between writing and reading each of the two caches.
    assert_eq!(refused, 2 * 4);
    // A residual that is handed on is added and normalised in two kernels, which are one in the whole.
    assert!(exact >= 4, "{exact} splits have the kernels of the whole");
}

#[test]
fn a_transformer_in_many_stages_matches_one_device() {
    let session = session();
    let graph = transformer();
    let weights = weights_of(&graph, 2);
    let whole = session.load_blocking(&graph, &weights, options()).unwrap();
    let inputs = tokens(0, 7);
    let expected = whole.execute_blocking(&inputs.each_ref()).unwrap();
    let ops = graph.nodes().len();
    let half = (0..ops)
        .find(|at| graph.nodes()[*at].op.name() == "kv_write")
        .unwrap();
    let rest = half + 2;
    let stages = [
        (0..1, 2),
        (1..half, 1),
        (half..rest, 0),
        (rest..ops - 2, 1),
        (ops - 2..ops, 2),
    ];
    let mut split = session
        .load_split_blocking(&graph, &stages, &weights, options())
        .unwrap();
    let got = split.execute_blocking(&inputs.each_ref()).unwrap();
    assert_near("in five stages", &got, &expected, 3e-6);
    let names = ["tokens", "index", "page_table"];
    let named: Vec<(&str, &Tensor)> = names.into_iter().zip(&inputs).collect();
    let by_name = split.execute_named_blocking(&named).unwrap();
    assert_eq!((&by_name["logits"], &by_name["argmax"]), (&got[0], &got[1]));
    let ports: Vec<&str> = split.inputs().map(|port| port.name.as_str()).collect();
    assert_eq!(ports, names);
    let ports: Vec<String> = split
        .outputs()
        .map(|port| format!("{}{}", port.name, port.shape))
        .collect();
    assert_eq!(ports, ["logits[tokens, 50]", "argmax[tokens]"]);

    // All of it has other weights, or none.
    let other = weights_of(&graph, 3);
    split.reload_blocking(&other).unwrap();
    let whole = session.load_blocking(&graph, &other, options()).unwrap();
    let expected = whole.execute_blocking(&inputs.each_ref()).unwrap();
    let got = split.execute_blocking(&inputs.each_ref()).unwrap();
    assert_near("reloaded", &got, &expected, 3e-6);
    let error = split
        .reload_blocking(&MemoryWeights::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the checkpoint does not fit small[0..1], small[1.."),
        "{error}"
    );
    assert!(
        error.contains("embedding is missing; ") && error.contains("wo1 is missing"),
        "{error}"
    );
    split.release();
    let error = split.execute_blocking(&inputs.each_ref()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the weights of small[0..1] were released: reload them before it runs"
    );
}

/// Adds an op on earlier values; every value is `[n, 8]`.
fn random_op(graph: &mut Graph, live: &[ValueId], [op, x, y]: [u8; 3]) -> ValueId {
    let pick = |at: u8| live[usize::from(at) % live.len()];
    let (x, y) = (pick(x), pick(y));
    let rms = Op::Norm(NormSpec {
        kind: NormKind::Rms,
        eps: 1e-5,
        weight_offset: 0.0,
    });
    match op % 8 {
        0 => graph.unary(Unary::Tanh, x),
        1 => graph.binary(Binary::Sub, x, y),
        2 => graph.add(ScaledAdd { scale: 0.5 }, &[x, y]),
        3 => graph.softmax(x, 1),
        4 => {
            let w = graph.weight(
                &format!("w{}", op / 8 % 2),
                Encoding::F32,
                shape![8u64, 8u64],
            );
            graph.add(Linear, &[x, w])
        }
        5 => {
            let w = graph.weight("norm", Encoding::F32, shape![8u64]);
            graph.add(rms, &[x, w])
        }
        6 => {
            // A view of a value, used as such.
            let flat = graph.reshape(x, shape!["n", 2u64, 4u64]).unwrap();
            let sum = graph.reduce(Reduction::Max, flat, 1).unwrap();
            graph.concat(&[sum, sum], 1)
        }
        _ => graph.add(Binary::Mul, &[x, y]),
    }
    .unwrap()
}

/// Stages that end at these ops, on these devices in turn.
fn stages_at(ends: &[usize], ops: usize, devices: [usize; 3]) -> Vec<(Range<usize>, usize)> {
    let mut ends: Vec<usize> = ends
        .iter()
        .map(|end| end % ops)
        .filter(|end| *end > 0)
        .collect();
    ends.push(ops);
    ends.sort_unstable();
    ends.dedup();
    let starts = std::iter::once(0).chain(ends.clone());
    let stages = starts.zip(ends).map(|(start, end)| start..end);
    stages.zip(devices.into_iter().cycle()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Wherever a graph is split, and whatever its ops read, results are those of the whole.
    #[test]
    fn random_graphs(choices in prop::collection::vec(any::<[u8; 3]>(), 2..40), ends in prop::collection::vec(any::<usize>(), 0..4)) {
        let session = session();
        let mut graph = Graph::new("random");
        let mut live: Vec<ValueId> = ["a", "b", "unused"].map(|name| graph.input(name, DType::F32, shape!["n", 8u64])).into();
        live.pop();
        for choice in choices {
            let made = random_op(&mut graph, &live, choice);
            live.push(made);
        }
        for (i, id) in live.iter().rev().step_by(3).enumerate() {
            graph.output(&format!("y{i}"), *id);
        }
        let weights = weights_of(&graph, 7);
        let inputs = [1, 2, 3].map(|seed| Tensor::f32(&[5, 8], &noise(seed, 40)).unwrap());
        let whole = session.load_blocking(&graph, &weights, options()).unwrap();
        let expected = whole.execute_blocking(&inputs.each_ref()).unwrap();
        for devices in [[0, 1, 0], [1, 2, 0]] {
            let stages = stages_at(&ends, graph.nodes().len(), devices);
            let split = session.load_split_blocking(&graph, &stages, &weights, options()).unwrap();
            let got = split.execute_blocking(&inputs.each_ref()).unwrap();
            let same = devices[1] == 1 && kernels(split.stages()) == kernels([&whole]);
            assert_near(&format!("{stages:?}\n{graph}"), &got, &expected, if same { 0.0 } else { 1e-4 });
        }
    }
}

#[test]
fn wrong_stages_are_refused() {
    let session = session();
    let graph = transformer();
    let (ops, weights) = (graph.nodes().len(), weights_of(&graph, 1));
    let said = |stages: &[(Range<usize>, usize)]| -> String {
        let split: Result<SplitModel, _> =
            session.load_split_blocking(&graph, stages, &weights, options());
        split.unwrap_err().to_string()
    };
    assert_eq!(
        said(&[]),
        format!("the ops 0..{ops} of small are in no stage")
    );
    assert_eq!(
        said(&[(0..5, 0)]),
        format!("the ops 5..{ops} of small are in no stage")
    );
    assert_eq!(
        said(&[(1..ops, 0)]),
        "the ops 0..1 of small are in no stage"
    );
    assert_eq!(
        said(&[(0..2, 0), (3..ops, 1)]),
        "the ops 2..3 of small are in no stage"
    );
    assert_eq!(
        said(&[(0..3, 0), (2..ops, 1)]),
        format!(
            "the stage of the ops 2..{ops} of small begins before the one before it ends, at 3"
        )
    );
    assert_eq!(
        said(&[(0..ops + 1, 0)]),
        format!(
            "small cannot have a stage of the ops 0..{}: it has the ops 0..{ops}",
            ops + 1
        )
    );
    assert_eq!(
        said(&[(0..0, 0), (0..ops, 1)]),
        format!("small cannot have a stage of the ops 0..0: it has the ops 0..{ops}")
    );
    let names: Vec<&str> = session
        .devices()
        .iter()
        .map(|device| device.info().name.as_str())
        .collect();
    assert_eq!(
        said(&[(0..ops, 3)]),
        format!(
            "the session has no device 3, only 0 ({}), 1 ({}), 2 ({})",
            names[0], names[1], names[2]
        )
    );
    let write = (0..ops)
        .find(|at| graph.nodes()[*at].op.name() == "kv_write")
        .unwrap();
    assert_eq!(
        said(&[(0..write + 1, 0), (write + 1..ops, 1)]),
        format!(
            "the buffer k0 of small is used by kv_write (op {write}) and by attention (op {}), which are in different stages: split elsewhere",
            write + 1
        )
    );
    let error = session.load_split_blocking(
        &graph,
        &[(0..4, 0), (4..ops, 1)],
        &MemoryWeights::default(),
        options(),
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!(
            "the checkpoint does not fit small[0..4], small[4..{ops}]: "
        )),
        "{error}"
    );
}
