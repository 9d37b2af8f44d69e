//! Sessions: several graphs with common weights, and models as functions.

use std::collections::HashMap;

use wisp_engine::{
    device::Device,
    graph::{
        Binary, DType, Graph, Module, NormKind, NormSpec, Op,
        ops::{Argmax, Embed, Linear, ScaledAdd, Softmax},
    },
    session::{CompiledModule, InferenceSession, InitOptions, Tensor},
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{bundled::session, on_every_device, program::TestDevice};

/// `x w + b`, and the argmax of each row; `scale` makes graphs differ.
fn graph(name: &str, scale: f32) -> Graph {
    let mut graph = Graph::new(name);
    let x = graph.input("x", DType::F32, shape!["tokens", 64u64]);
    let other = graph.input("other", DType::F32, shape!["tokens", 48u64]);
    let w = graph.weight("w", Encoding::F32, shape![48u64, 64u64]);
    let b = graph.weight("b", Encoding::F32, shape![48u64]);
    let y = graph.add(Linear, &[x, w, b]).unwrap();
    let sum = graph.add(ScaledAdd { scale }, &[other, y]).unwrap();
    let argmax = graph.add(Argmax, &[sum]).unwrap();
    graph.output("sum", sum);
    graph.output("argmax", argmax);
    graph
}

fn weights() -> MemoryWeights {
    let mut weights = MemoryWeights::default();
    weights.insert("w", &[48, 64], &[0.25; 48 * 64]).unwrap();
    let bias: Vec<f32> = (0..48).map(|i| i as f32).collect();
    weights.insert("b", &[48], &bias).unwrap();
    weights
}

fn options() -> InitOptions<'static> {
    InitOptions {
        max_dims: HashMap::from([("tokens".to_string(), 8)]),
        ..Default::default()
    }
}

fn module() -> Module {
    let mut module = Module::default();
    module.add(graph("one", 1.0)).unwrap();
    module.add(graph("two", 2.0)).unwrap();
    module
}

fn executions_at_the_same_time_keep_their_inputs(place: TestDevice) {
    let session = session(place);
    let models = session
        .load_all_blocking(&module(), &weights(), options())
        .unwrap();
    let model = &models["one"];
    let runs = |number: usize| {
        let x = Tensor::f32(&[3, 64], &[0.0; 192]).unwrap();
        let other = Tensor::f32(&[3, 48], &[number as f32; 144]).unwrap();
        let expected: Vec<f32> = (0..144).map(|i| (number + i % 48) as f32).collect();
        for run in 0..50 {
            let outputs = model.execute_blocking(&[&x, &other]).unwrap();
            let sum = outputs[0].as_f32().unwrap();
            assert_eq!(sum, expected, "run {run} of {number} on {place:?}");
        }
    };
    std::thread::scope(|scope| {
        let threads = [1000, 2000, 3000].map(|number| scope.spawn(move || runs(number)));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn sizes_that_come_again_compute_the_same(place: TestDevice) {
    let session = session(place);
    let graph = graph("one", 1.0);
    let model = session.load_blocking(&graph, &weights(), options());
    let model = model.unwrap();
    for round in 0..3 {
        for tokens in [3, 8, 1, 5] {
            let x = Tensor::f32(&[tokens as u64, 64], &vec![0.0; tokens * 64]).unwrap();
            let other = vec![round as f32; tokens * 48];
            let other = Tensor::f32(&[tokens as u64, 48], &other).unwrap();
            let expected: Vec<f32> = (0..tokens * 48).map(|i| (round + i % 48) as f32).collect();
            let outputs = model.execute_blocking(&[&x, &other]).unwrap();
            let sum = outputs[0].as_f32().unwrap();
            assert_eq!(sum, expected, "{tokens} tokens on {place:?}");
        }
    }
}

/// Models that share weights run on threads of their own. On the host, several threads compute each product.
#[test]
fn models_with_common_weights_run_at_the_same_time() {
    let session = InferenceSession::new(Device::host(4).unwrap());
    let mut module = Module::default();
    for (name, scale) in [("one", 1.0), ("two", 2.0)] {
        let mut graph = Graph::new(name);
        let x = graph.input("x", DType::F32, shape!["tokens", 256u64]);
        let w = graph.weight("w", Encoding::F32, shape![2048u64, 256u64]);
        let y = graph.add(Linear, &[x, w]).unwrap();
        let y = graph.add(ScaledAdd { scale }, &[y, y]).unwrap();
        graph.output("y", y);
        module.add(graph).unwrap();
    }
    let mut weights = MemoryWeights::default();
    weights
        .insert("w", &[2048, 256], &[0.5; 2048 * 256])
        .unwrap();
    let models = session
        .load_all_blocking(&module, &weights, options())
        .unwrap();
    let runs = |name: &str, expected: f32| {
        let x = Tensor::f32(&[8, 256], &[1.0; 8 * 256]).unwrap();
        for _ in 0..200 {
            let outputs = models[name].execute_blocking(&[&x]).unwrap();
            assert!(outputs[0].as_f32().unwrap().iter().all(|y| *y == expected));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| runs("one", 256.0));
        scope.spawn(|| runs("two", 384.0));
    });
}

fn inputs_in_each_others_memory_are_swapped(place: TestDevice) {
    let session = session(place);
    let mut graph = Graph::new("pair");
    let a = graph.input("a", DType::F32, shape![4u64]);
    let b = graph.input("b", DType::F32, shape![4u64]);
    let difference = graph.binary(Binary::Sub, a, b).unwrap();
    graph.output("a", difference);
    let weights = MemoryWeights::default();
    let model = session
        .load_blocking(&graph, &weights, InitOptions::default())
        .unwrap();
    let [a, b] = [1.0, 3.0].map(|x| Tensor::f32(&[4], &[x; 4]).unwrap());
    let run = |a: &Tensor, b: &Tensor| {
        let outputs = model.execute_blocking(&[a, b]).unwrap();
        outputs[0].as_f32().unwrap()[0]
    };
    assert_eq!(run(&a, &b), -2.0);
    let dims = model.dims(&[]).unwrap();
    let own = ["a", "b"].map(|name| model.input_on_device(name, &dims).unwrap());
    assert_eq!(run(&own[1], &own[0]), 2.0);
    assert_eq!(run(&own[0], &own[1]), 2.0);
    // The output of this name, not the input.
    assert_eq!(model.read_blocking::<f32>("a", 1).unwrap(), [2.0]);
    let twice = model.execute_named_blocking(&[("a", &a), ("b", &b), ("a", &b)]);
    let error = twice.unwrap_err().to_string();
    assert!(error.contains("\"a\" is given twice"), "{error}");
}

fn execute_takes_inputs_by_position_and_by_name(place: TestDevice) {
    let session = session(place);
    let models = session
        .load_all_blocking(&module(), &weights(), options())
        .unwrap();
    let x = Tensor::f32(&[3, 64], &[1.0; 192]).unwrap();
    let mut other = vec![0.0; 144];
    (other[5], other[48 + 7]) = (100.0, 200.0);
    let other = Tensor::f32(&[3, 48], &other).unwrap();
    for (name, scale) in [("one", 1.0), ("two", 2.0)] {
        let model = &models[name];
        let names: Vec<String> = model
            .inputs()
            .chain(model.outputs())
            .map(|port| format!("{}: {}{}", port.name, port.dtype, port.shape))
            .collect();
        let ports = [
            "x: f32[tokens, 64]",
            "other: f32[tokens, 48]",
            "sum: f32[tokens, 48]",
            "argmax: u32[tokens]",
        ];
        assert_eq!(names, ports);
        let outputs = model.execute_blocking(&[&x, &other]).unwrap();
        let expected: Vec<f32> = (0..144)
            .map(|i| other.as_f32().unwrap()[i] + scale * (16.0 + (i % 48) as f32))
            .collect();
        assert_eq!(
            outputs[0].as_f32().unwrap(),
            expected,
            "{name} on {place:?}"
        );
        assert_eq!(outputs[1].as_u32().unwrap(), [5, 7, 47]);
        assert_eq!(outputs[1].shape(), [3]);
        let by_name = [("other", &other), ("x", &x)];
        let named = model.execute_named_blocking(&by_name).unwrap();
        assert_eq!(
            (&named["sum"], &named["argmax"]),
            (&outputs[0], &outputs[1])
        );
    }
}

fn common_weights_are_on_the_device_once(place: TestDevice) {
    let taken = |load: &dyn Fn(&InferenceSession)| {
        let session = session(place);
        load(&session);
        session.device().allocated().1
    };
    let alone = taken(&|session| {
        session
            .load_blocking(&graph("one", 1.0), &weights(), options())
            .unwrap();
    });
    let both = taken(&|session| {
        session
            .load_all_blocking(&module(), &weights(), options())
            .unwrap();
    });
    let footprint = session(place).compile(&graph("one", 1.0)).unwrap();
    let footprint = footprint.program().footprint(&options().max_dims, &[]);
    assert!(footprint.weights > 48 * 64 * 4, "{footprint:?}");
    assert_eq!(
        both,
        2 * alone - footprint.weights,
        "{footprint:?} on {place:?}"
    );
}

on_every_device!(
    inputs_in_each_others_memory_are_swapped,
    executions_at_the_same_time_keep_their_inputs,
    execute_takes_inputs_by_position_and_by_name,
    common_weights_are_on_the_device_once,
    sizes_that_come_again_compute_the_same
);

#[test]
fn wrong_inputs_are_named() {
    let session = session(TestDevice::Host);
    let model = session
        .load_blocking(&graph("one", 1.0), &weights(), options())
        .unwrap();
    let x = Tensor::f32(&[3, 64], &[1.0; 192]).unwrap();
    let said = |inputs: &[&Tensor]| {
        let error = model.execute_blocking(inputs).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        said(&[&x]),
        "one takes 2 inputs (x, other), but 1 are given"
    );
    assert_eq!(
        said(&[&x, &x]),
        "one: the input \"other\" is f32[3, 64], expected f32[tokens, 48]"
    );
    let short = Tensor::f32(&[2, 48], &[1.0; 96]).unwrap();
    assert_eq!(
        said(&[&x, &short]),
        "one: the input \"other\" is f32[2, 48], expected f32[tokens, 48]"
    );
    let whole = Tensor::u32(&[3, 48], &[1; 144]).unwrap();
    assert_eq!(
        said(&[&x, &whole]),
        "one: the input \"other\" is u32[3, 48], expected f32[tokens, 48]"
    );
    let long = [
        Tensor::f32(&[9, 64], &[0.0; 576]),
        Tensor::f32(&[9, 48], &[0.0; 432]),
    ];
    let [Some(a), Some(b)] = &long else {
        panic!("tensors")
    };
    assert_eq!(
        said(&[a, b]),
        "dimension tokens is 9, the model was made for at most 8"
    );
    let named = model.execute_named_blocking(&[("x", &x)]).unwrap_err();
    assert_eq!(
        named.to_string(),
        "one: the input \"other\" is not given, expected f32[tokens, 48]"
    );
    let named = model.execute_named_blocking(&[("y", &x)]).unwrap_err();
    assert_eq!(
        named.to_string(),
        "one has no input called \"y\"; it has x, other"
    );
}

#[test]
fn unknown_ports_and_reads_past_the_end_are_refused() {
    let session = session(TestDevice::Host);
    let load = |options| session.load_blocking(&graph("one", 1.0), &weights(), options);
    assert_eq!(
        load(InitOptions::default()).unwrap_err().to_string(),
        "one needs the largest size of its dimension tokens: give it in InitOptions::max_dims"
    );
    let model = load(options()).unwrap();
    let read = |name, elements| model.read_blocking::<f32>(name, elements);
    for (done, expected) in [
        (
            model.write("x", &[0f32; 513]),
            "x: bytes 0..2052 are out of range, the buffer has 2048",
        ),
        (
            model.write_at("x", 512, &[0f32]),
            "x: bytes 2048..2052 are out of range, the buffer has 2048",
        ),
        (
            read("sum", 385).map(drop),
            "sum: bytes 0..1540 are out of range, the buffer has 1536",
        ),
        (
            model.write("z", &[0f32]),
            "one has no input or buffer called \"z\"; it has x, other",
        ),
        (
            model.write("sum", &[0f32]),
            "one has no input or buffer called \"sum\"; it has x, other",
        ),
        (
            model.buffer("z").map(drop),
            "one has no input, buffer or output called \"z\"; it has x, other, sum, argmax",
        ),
        (
            read("z", 1).map(drop),
            "one has no input, buffer or output called \"z\"; it has x, other, sum, argmax",
        ),
        (
            model.dims(&[]).map(drop),
            "dimension tokens is not given, the model was made for at most 8",
        ),
    ] {
        assert_eq!(done.unwrap_err().to_string(), expected);
    }
}

#[test]
fn problems_of_all_graphs_are_listed_at_once() {
    let session = session(TestDevice::Host);
    let mut module = module();
    let mut third = Graph::new("three");
    let x = third.input("x", DType::F32, shape![1u64, 32u64]);
    let w = third.weight("third", Encoding::F32, shape![8u64, 32u64]);
    let y = third.add(Linear, &[x, w]).unwrap();
    third.output("y", y);
    module.add(third).unwrap();
    let mut weights = MemoryWeights::default();
    weights.insert("w", &[48, 32], &[0.0; 48 * 32]).unwrap();
    weights.insert("b", &[48], &[0.0; 48]).unwrap();
    let error = session
        .load_all_blocking(&module, &weights, options())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the checkpoint does not fit one, two, three: third is missing; \
         w has shape [48, 32], expected [48, 64]"
    );
}

#[test]
fn duplicate_graph_names_are_refused() {
    let mut module = module();
    let again = module.add(graph("two", 3.0)).unwrap_err();
    let said = "two graphs are called \"two\": give one of them another name";
    assert_eq!(again.to_string(), said);
    let compiled = session(TestDevice::Host).compile_module(&module).unwrap();
    let twice = [compiled.models(), &compiled.models()[1..]].concat();
    let error = CompiledModule::new(twice, Default::default()).unwrap_err();
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_shared_buffer_that_is_too_small_is_refused() {
    let session = session(TestDevice::Host);
    let mut small = Graph::new("small");
    let x = small.input("x", DType::F32, shape!["n", 4u64]);
    let sum = small.add(Binary::Add, &[x, x]).unwrap();
    small.output("sum", sum);
    let buffer = session
        .device()
        .allocate("x", 16, wisp_engine::device::Usage::Storage)
        .unwrap();
    let options = InitOptions {
        max_dims: HashMap::from([("n".to_string(), 3)]),
        shared: HashMap::from([("x".to_string(), buffer)]),
        ..InitOptions::default()
    };
    let error = session
        .load_blocking(&small, &MemoryWeights::default(), options)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "x needs 48 bytes, but the buffer given for it has 16"
    );
}

/// Kernels take sizes as 32 bits: larger weights are refused by `compile`, larger inputs by a run.
#[test]
fn sizes_above_32_bits_are_refused() {
    const MANY: u64 = 1 << 33;
    let session = session(TestDevice::Host);
    let norm = NormSpec {
        kind: NormKind::Rms,
        eps: 1e-5,
        weight_offset: 0.0,
    };
    let (floats, ids) = (DType::F32, DType::U32);
    let linear = |many| {
        (
            Op::from(Linear),
            floats,
            shape![1u64, 32u64],
            shape![many, 32u64],
        )
    };
    let embed = Op::from(Embed { scale: 1.0 });
    for ((op, dtype, x, weight), said) in [
        (
            (Op::Norm(norm), floats, shape![1u64, MANY], shape![MANY]),
            "rms_norm: the number of columns is 8589934592",
        ),
        (
            linear(MANY),
            "linear: the weight's number of rows is 8589934592",
        ),
        (
            (embed, ids, shape![1u64], shape![MANY, 32u64]),
            "embed: the table's number of rows is 8589934592",
        ),
    ] {
        let mut graph = Graph::new("great");
        let x = graph.input("x", dtype, x);
        let weight = graph.weight("weight", Encoding::F32, weight);
        let y = graph.add(op, &[x, weight]).unwrap();
        graph.output("y", y);
        assert_eq!(
            session.compile(&graph).unwrap_err().to_string(),
            format!("{said}, but kernels count only to {}", u32::MAX)
        );
    }
    // No rows of that width take no memory.
    let mut graph = Graph::new("wide");
    let x = graph.input("x", DType::F32, shape!["n", "m"]);
    let y = graph.add(Softmax, &[x]).unwrap();
    graph.output("y", y);
    let sizes = [("n", 0), ("m", MANY)];
    let options = InitOptions {
        max_dims: sizes.map(|(name, most)| (name.to_string(), most)).into(),
        ..InitOptions::default()
    };
    let none = MemoryWeights::default();
    let model = session.load_blocking(&graph, &none, options).unwrap();
    let run = model.run(&model.dims(&sizes).unwrap());
    assert_eq!(
        run.unwrap_err().to_string(),
        "softmax: a size is 8589934592, but kernels count to 4294967295: give it smaller inputs"
    );
}
