//! Profiling: spans, clocks, tables and traces.

use std::collections::HashMap;

use serde_json::Value;
use wisp_engine::{
    device::Clock,
    graph::{Binary, DType, Graph, Unary, ops::Linear},
    session::{GpuProfiling, InferenceSession, InitOptions, Model, TimingReport},
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{
    bundled::session,
    on_every_device,
    program::{TestDevice, command, run, run_command},
};

/// A product of known size and an addition.
fn model(session: &InferenceSession) -> Model {
    let mut graph = Graph::new("small");
    let x = graph.input("x", DType::F32, shape!["tokens", 64u64]);
    let w = graph.weight("blk.0.w", Encoding::F32, shape![64u64, 64u64]);
    let y = graph.add(Linear, &[x, w]).unwrap();
    let sum = graph.add(Binary::Add, &[x, y]).unwrap();
    graph.output("sum", sum);
    let mut weights = MemoryWeights::default();
    weights.insert("blk.0.w", &[64, 64], &[0.5; 4096]).unwrap();
    let options = InitOptions {
        max_dims: HashMap::from([("tokens".to_string(), 8)]),
        ..Default::default()
    };
    session.load_blocking(&graph, &weights, options).unwrap()
}

/// Runs the model with three tokens and checks what it computes.
fn run_model(model: &Model) {
    model.write("x", &[1.0f32; 192]).unwrap();
    model.run(&model.dims(&[("tokens", 3)]).unwrap()).unwrap();
    let sum: Vec<f32> = model.read_blocking("sum", 192).unwrap();
    assert_eq!(sum, [33.0; 192]);
}

/// Checks that spans do not overlap and have a duration.
fn check_order(profile: &TimingReport) {
    for two in profile.spans.windows(2) {
        let (first, next) = (&two[0].nanoseconds, &two[1].nanoseconds);
        assert!(first.end <= next.start, "{first:?}, then {next:?}");
    }
    assert!(profile.seconds() > 0.0 && profile.seconds() < 60.0);
}

fn each_mode_records_its_spans(place: TestDevice) {
    let session = session(place);
    let model = model(&session);
    let clock = match place {
        TestDevice::Vulkan | TestDevice::VulkanGpu => Clock::Device,
        TestDevice::Host | TestDevice::VulkanBaseline => Clock::Host,
    };
    let profiler = session.profiler();

    // Tests run without the variable.
    assert_eq!(profiler.mode(), GpuProfiling::Off);
    run_model(&model);
    assert_eq!(profiler.take_blocking().unwrap().spans, []);

    session.gpu_profiling(GpuProfiling::On);
    run_model(&model);
    run_model(&model);
    let profile = profiler.take_blocking().unwrap();
    assert_eq!(profile.clock, clock, "{place:?}");
    assert_eq!(profile.device, session.device().info().name);
    assert_eq!(profile.spans.len(), 2);
    check_order(&profile);
    let calls = model.dispatches_per_run();
    let work = &profile.spans[0].work;
    assert_eq!((&*work.name, work.kernel), ("small", None));
    assert_eq!((&*work.sizes, work.dispatches), ("tokens=3", calls));
    assert_eq!(
        (work.bytes, work.operations),
        (64 * 64 * 4, 2 * 3 * 64 * 64)
    );

    session.gpu_profiling(GpuProfiling::Detailed);
    run_model(&model);
    let profile = profiler.take_blocking().unwrap();
    assert_eq!(profile.spans.len(), calls);
    check_order(&profile);
    let product = |bytes: u64| profile.spans.iter().find(|span| span.work.bytes == bytes);
    let product = &product(64 * 64 * 4).expect("a product").work;
    assert_eq!(product.operations, 2 * 3 * 64 * 64);
    let kernel = product.kernel.expect("a kernel");
    assert!(kernel.starts_with("matmul"), "{kernel}");
    let table = profile.table(None);
    assert!(table.contains(&clock.to_string()), "{table}");
    assert!(table.contains("blk.N.w"), "{table}");

    session.gpu_profiling(GpuProfiling::Off);
    run_model(&model);
    assert_eq!(profiler.take_blocking().unwrap().spans, []);
}

fn more_kernels_than_a_query_set_holds_are_all_timed(place: TestDevice) {
    const OPS: usize = 2100;
    let mut graph = Graph::new("long");
    let mut x = graph.input("x", DType::F32, shape![4u64]);
    for _ in 0..OPS {
        x = graph.unary(Unary::Neg, x).unwrap();
    }
    graph.output("y", x);
    let session = session(place);
    let none = MemoryWeights::default();
    let model = session.load_blocking(&graph, &none, InitOptions::default());
    let model = model.unwrap();
    let calls = model.dispatches_per_run();
    assert_eq!(calls, OPS);
    session.gpu_profiling(GpuProfiling::Detailed);
    for _ in 0..2 {
        model.run(&model.dims(&[]).unwrap()).unwrap();
    }
    let profile = session.profiler().take_blocking().unwrap();
    assert_eq!(profile.spans.len(), 2 * calls);
    check_order(&profile);
    assert_eq!(
        profile.rows().iter().map(|row| row.spans).sum::<usize>(),
        2 * calls
    );
}

fn bench_prints_a_table_and_writes_a_trace(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let bench = [
        "bench", "--json", "-p", "4", "-n", "2", "-r", "1", "--trace",
    ];
    let bench = [&bench[..], &[trace.to_str().unwrap()], &place.args()].concat();
    let spans = || {
        let trace: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let spans = events.iter().filter(|event| event["ph"] == "X");
        spans.cloned().collect::<Vec<Value>>()
    };
    // The flag wins over the variable.
    let mut on = command([&bench[..], &["--profiling", "on"]].concat());
    on.env("WISP_ENABLE_PROFILING", "detailed");
    let json = run_command(on, "").json();
    let names: Vec<&str> = json["rows"].as_array().unwrap().iter().map(name).collect();
    let models = ["decoder", "sampler"];
    assert!(names.iter().all(|name| models.contains(name)), "{json}");
    assert!(models.iter().all(|name| names.contains(name)), "{json}");
    assert!(json["ceilings"]["read_bytes_per_second"].as_f64() > Some(0.0));
    let runs = spans().len();
    assert!((1..20).contains(&runs), "{runs}");

    let mut detailed = command(&bench);
    detailed.env("WISP_ENABLE_PROFILING", "detailed");
    let json = run_command(detailed, "").json();
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["kernel"].is_string()), "{json}");
    let seconds: Vec<f64> = rows
        .iter()
        .map(|row| row["seconds"].as_f64().unwrap())
        .collect();
    assert!(seconds.is_sorted_by(|a, b| a >= b), "{seconds:?}");
    assert!(spans().len() > 10 * runs);
}

fn name(row: &Value) -> &str {
    row["name"].as_str().unwrap()
}

on_every_device!(
    each_mode_records_its_spans,
    more_kernels_than_a_query_set_holds_are_all_timed,
    bench_prints_a_table_and_writes_a_trace
);

#[test]
fn generate_prints_the_profile() {
    let args = [
        "generate",
        "--device",
        "host",
        "--max-new-tokens",
        "2",
        "--tokens",
        "1,2",
    ];
    assert!(!run(args).succeeded().stderr.contains("spans"));
    let mut profiled = command(args);
    profiled.env("WISP_ENABLE_PROFILING", "1");
    let run = run_command(profiled, "").succeeded();
    assert!(
        run.stderr.contains("spans, by the host's clock"),
        "{}",
        run.stderr
    );
    for model in ["  decoder tokens=", "  sampler "] {
        assert!(run.stderr.contains(model), "{}", run.stderr);
    }
}

#[test]
fn a_trace_needs_profiling() {
    let run = run(["bench", "--device", "host", "--trace", "unused.json"]);
    let said = run.failed("a trace of nothing");
    assert!(said.contains("--trace needs --profiling"), "{said}");
}
