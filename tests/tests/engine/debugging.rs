//! Debugging: what is found, how it reads, and what is printed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use safetensors::SafeTensors;
use wisp_engine::{
    extension::Extensions,
    graph::{
        CacheFormat, DType, Graph, HeadSpec, Op, RopeSpec, Unary, ValueId,
        ops::{Embed, KvWrite, Linear},
    },
    session::{
        AssertLevel, DebugConfig, InferenceSession, InitOptions, LogLevel, Model, PrintStyle,
        Tensor,
    },
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{
    bundled::session,
    on_every_device,
    program::{TestDevice, command, run, run_command},
};

fn options() -> InitOptions<'static> {
    InitOptions {
        max_dims: HashMap::from([("n".to_string(), 8)]),
        ..Default::default()
    }
}

/// What a session tells from now on.
fn told(session: &InferenceSession) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    session.set_debug_sink(move |line| sink.lock().unwrap().push(line.to_string()));
    lines
}

fn load(session: &InferenceSession, graph: &Graph) -> Model {
    let mut weights = MemoryWeights::default();
    let table: Vec<f32> = (0..96).map(|i| i as f32).collect();
    weights.insert("table", &[3, 32], &table).unwrap();
    for name in ["q", "k", "v"] {
        weights.insert(name, &[32, 32], &[0.125; 1024]).unwrap();
    }
    weights.insert("angles", &[4, 32], &[0.5; 128]).unwrap();
    weights.insert("norm", &[32], &[1.0; 32]).unwrap();
    session.load_blocking(graph, &weights, options()).unwrap()
}

fn execute(model: &Model, inputs: &[&Tensor]) -> Result<Vec<Tensor>, String> {
    pollster::block_on(model.execute(inputs)).map_err(|error| error.to_string())
}

fn check(change: impl FnOnce(&mut DebugConfig)) -> DebugConfig {
    let mut config = DebugConfig::default();
    change(&mut config);
    config
}

/// `1 / sqrt(-(-x))`, one op after the other in the memory of the one before last.
fn chain() -> Graph {
    let mut graph = Graph::new("chain");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let functions = [Unary::Neg, Unary::Neg, Unary::Sqrt, Unary::Recip];
    let unary = |value: ValueId, function| graph.unary(function, value).unwrap();
    let end = functions.into_iter().fold(x, unary);
    graph.output("end", end);
    graph
}

/// The first op that made a NaN or an infinity is named, however much memory is used again after it.
fn nan_check(place: TestDevice) {
    let session = session(place);
    let model = load(&session, &chain());
    let run = |values: [f32; 4]| execute(&model, &[&Tensor::f32(&[2, 2], &values).unwrap()]);
    let nan = [4.0, 1.0, 9.0, -4.0];
    assert!(run(nan).unwrap()[0].as_f32().unwrap()[3].is_nan());
    session.set_debug_config(check(|config| config.nan_check = 1));
    assert_eq!(run([4.0; 4]).unwrap()[0].as_f32(), Some(&[0.5; 4][..]));
    assert_eq!(
        run(nan).unwrap_err(),
        "chain: sqrt made NaN: element 3 of 4 of sqrt.2"
    );
    assert_eq!(
        run([4.0, 0.0, 1.0, 1.0]).unwrap_err(),
        "chain: recip made inf: element 1 of 4 of recip.3"
    );
    // Every fourth op is looked at: the last.
    session.set_debug_config(check(|config| config.nan_check = 4));
    assert_eq!(
        run(nan).unwrap_err(),
        "chain: recip made NaN: element 3 of 4 of recip.3 (every 4th op is looked at, one between may have been the first)"
    );
    session.set_debug_config(check(|config| config.nan_check = 5));
    run(nan).unwrap();
}

/// Whole numbers are no floats, whatever their bits are.
fn whole_numbers_are_no_nan(place: TestDevice) {
    let session = session(place);
    session.set_debug_config(check(|config| {
        (config.nan_check, config.uninitialised) = (1, true)
    }));
    let mut graph = Graph::new("whole");
    let x = graph.input("x", DType::U32, shape!["n"]);
    let shown = graph.print(x, "x").unwrap();
    graph.output("x again", shown);
    let model = load(&session, &graph);
    let lines = told(&session);
    let x = Tensor::u32(&[2], &[u32::MAX, 0x7fc0_0000]).unwrap();
    assert_eq!(execute(&model, &[&x]).unwrap()[0], x);
    assert_eq!(
        lines.lock().unwrap()[..],
        ["x = u32[2] [4294967295, 2143289344]"]
    );
}

fn embedding() -> Graph {
    let mut graph = Graph::new("embedding");
    let ids = graph.input("ids", DType::U32, shape!["n"]);
    let table = graph.weight("table", Encoding::F32, shape![3u64, 32u64]);
    let rows = graph.add(Embed { scale: 1.0 }, &[ids, table]).unwrap();
    let end = graph.unary(Unary::Neg, rows).unwrap();
    graph.output("end", end);
    graph
}

/// Elements that an op does not write are reported where they are read, also beside the check for NaN.
fn uninitialised(place: TestDevice) {
    let (extensions, graph) = first_half();
    let session = session(place).with_extensions(extensions);
    let model = load(&session, &graph);
    let run = || execute(&model, &[&Tensor::f32(&[4], &[1.0; 4]).unwrap()]);
    for nan_check in [0, 1] {
        session.set_debug_config(check(|config| {
            (config.nan_check, config.uninitialised) = (nan_check, true)
        }));
        assert_eq!(
            run().unwrap_err(),
            "halves: neg reads first_half.0, of which first_half has not written element 2 of 4"
        );
    }
    // What is written is not reported.
    let model = load(&session, &embedding());
    let rows = execute(&model, &[&Tensor::u32(&[2], &[2, 0]).unwrap()]).unwrap();
    assert_eq!(rows[0].as_f32().unwrap()[..2], [-64.0, -65.0]);
}

/// Values are printed as they were when they were made, and pass through as they are.
fn prints(place: TestDevice) {
    let session = session(place);
    let mut graph = Graph::new("printing");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let negative = graph.unary(Unary::Neg, x).unwrap();
    let negative = graph.print(negative, "negative").unwrap();
    let mut end = negative;
    for _ in 0..5 {
        end = graph.unary(Unary::Neg, end).unwrap();
    }
    let end = graph.print(end, "the/end").unwrap();
    // Another label, which becomes the same name of a file.
    let end = graph.print(end, "the end").unwrap();
    graph.output("end", end);
    let twice = graph.print(end, "negative").unwrap_err().to_string();
    assert_eq!(
        twice,
        "print: another value is printed as \"negative\": choose another label (print.8: f32[n, 2])"
    );
    let model = load(&session, &graph);
    let lines = told(&session);
    let run = || {
        let values: Vec<f32> = (0..16).map(|i| i as f32 + 0.5).collect();
        let out = execute(&model, &[&Tensor::f32(&[8, 2], &values).unwrap()]).unwrap();
        assert_eq!(out[0].as_f32().unwrap(), values);
        std::mem::take(&mut *lines.lock().unwrap())
    };
    assert_eq!(
        run()[0],
        "negative = f32[8, 2] [[-0.500000, -1.500000],\n  [-2.500000, -3.500000],\n  [-4.500000, -5.500000], ...,\n  [-10.500000, -11.500000],\n  [-12.500000, -13.500000],\n  [-14.500000, -15.500000]]"
    );
    session
        .set_debug_print_options(PrintStyle::Full, 1, None)
        .unwrap();
    let full = run();
    assert_eq!(full.len(), 3);
    assert!(
        full[1].starts_with("the/end = f32[8, 2] [[0.5, 1.5],\n  [2.5, 3.5],"),
        "{}",
        full[1]
    );
    assert_eq!(full[1].lines().count(), 8);
    session
        .set_debug_print_options(PrintStyle::None, 6, None)
        .unwrap();
    assert!(run().is_empty());

    let error = session
        .set_debug_print_options(PrintStyle::Binary, 6, None)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the print style binary writes files: name a folder for them"
    );
    let folder = tempfile::tempdir().unwrap();
    let files = |style| {
        let own = folder.path().join("new");
        session
            .set_debug_print_options(style, 6, Some(own.clone()))
            .unwrap();
        assert!(run().is_empty());
        let mut files: Vec<_> = std::fs::read_dir(&own)
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        files.sort();
        let names: Vec<String> = files
            .iter()
            .map(|f| f.file_name().unwrap().to_str().unwrap().into())
            .collect();
        let bytes: Vec<Vec<u8>> = files
            .iter()
            .map(|file| std::fs::read(file).unwrap())
            .collect();
        std::fs::remove_dir_all(own).unwrap();
        (names, bytes)
    };
    let (names, bytes) = files(PrintStyle::Binary);
    assert_eq!(
        names,
        ["negative.3.bin", "the_end.3.bin", "the_end~2.3.bin"]
    );
    let negative: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes[0]);
    assert_eq!(
        negative,
        (0..16).map(|i| -(i as f32) - 0.5).collect::<Vec<_>>()
    );
    let (names, bytes) = files(PrintStyle::BinaryCheckpoint);
    assert_eq!(
        names,
        ["negative.4", "the_end.4", "the_end~2.4"].map(|name| name.to_string() + ".safetensors")
    );
    let end = SafeTensors::deserialize(&bytes[1]).unwrap();
    assert!(
        SafeTensors::deserialize(&bytes[2])
            .unwrap()
            .tensor("the end")
            .is_ok()
    );
    let end = end.tensor("the/end").unwrap();
    assert_eq!(
        (end.shape(), end.dtype()),
        (&[8, 2][..], safetensors::Dtype::F32)
    );

    // A folder that cannot be: a file is in its place.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    session
        .set_debug_print_options(PrintStyle::Binary, 6, Some(file))
        .unwrap();
    let x = Tensor::f32(&[1, 2], &[1.0; 2]).unwrap();
    let error = execute(&model, &[&x]).unwrap_err();
    assert!(error.contains("negative.5.bin: "), "{error}");
}

/// Each op that runs is told of, with its kernel, and no more than that.
fn op_log(place: TestDevice) {
    let session = session(place);
    let model = load(&session, &embedding());
    let lines = told(&session);
    let ids = Tensor::u32(&[2], &[0, 1]).unwrap();
    execute(&model, &[&ids]).unwrap();
    assert!(lines.lock().unwrap().is_empty());
    for config in [
        check(|config| config.op_log = true),
        check(|config| config.log = LogLevel::Trace),
        check(|config| (config.op_log, config.synchronous) = (true, true)),
    ] {
        session.set_debug_config(config);
        execute(&model, &[&ids]).unwrap();
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        assert_eq!(
            lines,
            [
                "op: embedding 1/2 embed table: 1 x 2 x 1 workgroups of embed.f32.baseline",
                "op: embedding 2/2 neg: 1 x 1 x 1 workgroups of map.baseline",
            ]
        );
    }
}

/// Pipelines and programs are told of from their levels on.
fn log_levels(place: TestDevice) {
    let session = session(place);
    let lines = told(&session);
    let loaded = |level| {
        session.set_shader_log_level(level);
        load(&session, &embedding());
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        lines
            .iter()
            .map(|line| line.split(':').next().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(loaded(LogLevel::Debug), ["debug", "debug", "info"]);
    assert_eq!(loaded(LogLevel::Info), ["info"]);
    assert!(loaded(LogLevel::Warning).is_empty());
    // A run that fails is an error, and told as one.
    let model = load(&session, &chain());
    let run = || execute(&model, &[&Tensor::f32(&[1, 2], &[-1.0, 1.0]).unwrap()]);
    let error = |log| {
        session.set_debug_config(check(|config| (config.nan_check, config.log) = (1, log)));
        run().unwrap_err();
        std::mem::take(&mut *lines.lock().unwrap())
    };
    assert_eq!(
        error(LogLevel::Error),
        ["error: chain: sqrt made NaN: element 0 of 2 of sqrt.2"]
    );
    assert!(error(LogLevel::Critical).is_empty());
}

/// Keys and values of `x [n, 32]` in a cache: as they are, with keys (and queries) rotated, or normed
/// before. The compiler makes one kernel of what stands before the cache.
fn caching(kind: &str) -> (Graph, Vec<(&'static str, Tensor)>) {
    let mut graph = Graph::new("asserting");
    let x = graph.input("x", DType::F32, shape!["n", 32u64]);
    let ids = graph.input("ids", DType::U32, shape!["n", 2u64]);
    let table = graph.input("table", DType::U32, shape![1u64, 2u64]);
    let heads = HeadSpec {
        heads: 1,
        head_dim: 32,
    };
    let cache = shape![3u64, 2u64, 1u64, 32u64];
    let caches = ["k cache", "v cache"].map(|name| graph.buffer(name, DType::F32, cache.clone()));
    let mut kv = [x, x];
    let mut end = x;
    if kind != "kv_write" {
        let angles = graph.weight("angles", Encoding::F32, shape![4u64, 32u64]);
        let norm = graph.weight("norm", Encoding::F32, shape![32u64]);
        let [q, k, v] = ["q", "k", "v"].map(|name| {
            let weight = graph.weight(name, Encoding::F32, shape![32u64, 32u64]);
            graph.add(Linear, &[x, weight]).unwrap()
        });
        let [q, k] = [q, k].map(|made| {
            let made = match kind {
                "norm_rope_kv_write" => graph.rms_norm(made, norm, 1e-5).unwrap(),
                _ => made,
            };
            let rope = Op::Rope(RopeSpec {
                heads,
                rotary_dim: 32,
                interleaved: false,
            });
            graph.add(rope, &[made, ids, angles]).unwrap()
        });
        (kv, end) = ([k, v], q);
    }
    let write = KvWrite {
        heads,
        page_size: 2,
        format: CacheFormat::F32,
    };
    let operands = [kv[0], kv[1], ids, table, caches[0], caches[1]];
    graph.add(write, &operands).unwrap();
    let end = graph.unary(Unary::Neg, end).unwrap();
    graph.output("end", end);
    let inputs = vec![
        ("x", Tensor::f32(&[2, 32], &[1.0; 64]).unwrap()),
        ("ids", Tensor::u32(&[2, 2], &[0, 0, 0, 3]).unwrap()),
        ("table", Tensor::u32(&[1, 2], &[1, 2]).unwrap()),
    ];
    (graph, inputs)
}

/// A graph with each kernel that asserts something, and inputs that are right.
fn asserting(kind: &str) -> (Graph, Vec<(&'static str, Tensor)>) {
    let mut graph = Graph::new("asserting");
    if kind == "embed table" {
        return (
            embedding(),
            vec![("ids", Tensor::u32(&[2], &[0, 2]).unwrap())],
        );
    }
    if kind.ends_with("kv_write") {
        return caching(kind);
    }
    let x = graph.input("x", DType::F32, shape!["n", 4u64]);
    let ids = graph.input("ids", DType::U32, shape![2u64]);
    let result = match kind {
        "gather" => graph.gather(x, ids, 0).unwrap(),
        _ => {
            let updates = graph.constant(&[5.0; 8], shape![2u64, 4u64]).unwrap();
            graph.scatter(x, ids, updates, 0, false).unwrap()
        }
    };
    graph.output("end", result);
    let x = Tensor::f32(&[2, 4], &[1.0; 8]).unwrap();
    let ids = Tensor::u32(&[2], &[1, 0]).unwrap();
    (graph, vec![("x", x), ("ids", ids)])
}

/// An index that leads nowhere is named with its kernel, at the levels that look; at the others kernels
/// keep to their memory (on the host the twins of some refuse it by themselves).
fn asserts(place: TestDevice) {
    let pairs = |values: &[u32]| Tensor::u32(&[2, 2], values).unwrap();
    let two = |values: &[u32]| Tensor::u32(&[2], values).unwrap();
    let caches = ["kv_write", "rope_kv_write", "norm_rope_kv_write"].into_iter();
    let caches = caches.flat_map(|op| {
        let page = Tensor::u32(&[1, 2], &[0, 3]).unwrap();
        [
            (
                "ids",
                pairs(&[0, 0, 1, 0]),
                "a sequence must be below 1, but number 1 is 1",
            ),
            (
                "ids",
                pairs(&[0, 4, 0, 0]),
                "a position must be below 4, but number 0 is 4",
            ),
            (
                "table",
                page,
                "a page of the cache must be below 3, but number 1 is 3",
            ),
        ]
        .map(|(input, wrong, expected)| (op, "f32.baseline", input, wrong, expected))
    });
    let others = [
        (
            "gather",
            "baseline",
            "ids",
            two(&[1, 2]),
            "an index must be below 2, but number 1 is 2",
        ),
        (
            "scatter",
            "baseline",
            "ids",
            two(&[7, 0]),
            "an index must be below 2, but number 0 is 7",
        ),
        (
            "embed table",
            "f32.baseline",
            "ids",
            two(&[0, 3]),
            "a token must be below 3, but number 1 is 3",
        ),
    ];
    for (op, variant, input, wrong, expected) in others.into_iter().chain(caches) {
        let (graph, inputs) = asserting(op);
        let run = |level, wrong: Option<&Tensor>| {
            let session = session(place);
            session.set_shader_assert_level(level);
            let lines = told(&session);
            let model = load(&session, &graph);
            let inputs: Vec<(&str, &Tensor)> = inputs
                .iter()
                .map(|(name, right)| (*name, wrong.filter(|_| *name == input).unwrap_or(right)))
                .collect();
            let done = pollster::block_on(model.execute_named(&inputs));
            let lines = lines.lock().unwrap().clone();
            (done.map_err(|error| error.to_string()), lines)
        };
        // The kernel of the op's table is called by the op, the step by the table.
        let kernel = op.split(' ').next().unwrap();
        let said = format!("{}: {op} ({kernel}.{variant}): {expected}", graph.name);
        let (done, lines) = run(AssertLevel::All, Some(&wrong));
        assert_eq!(done.unwrap_err(), said);
        assert_eq!(lines, [format!("error: {said}")]);
        let (done, lines) = run(AssertLevel::Warn, Some(&wrong));
        assert_eq!(lines[0], format!("warning: {said}"));
        // A kernel goes on; a twin may have its own word.
        assert!(done.is_ok() || place == TestDevice::Host, "{done:?}");
        // Without any checks a page that is not there is anywhere.
        let levels = [AssertLevel::Safe, AssertLevel::None];
        for level in levels
            .into_iter()
            .take(if op.ends_with("kv_write") { 1 } else { 2 })
        {
            let (done, lines) = run(level, Some(&wrong));
            assert!(
                lines.is_empty() && (done.is_ok() || place == TestDevice::Host),
                "{level:?} {done:?}"
            );
        }
        for level in [
            AssertLevel::None,
            AssertLevel::Warn,
            AssertLevel::Safe,
            AssertLevel::All,
        ] {
            let (done, lines) = run(level, None);
            assert!(
                done.is_ok() && lines.is_empty(),
                "{op} at {level:?}: {done:?} {lines:?}"
            );
        }
    }
}

/// A graph with a custom op that writes only the first half of its result, `1 / x`.
fn first_half() -> (Extensions, Graph) {
    let declaration = r#"
name = "first_half"
workgroup_size = [1, 1, 1]
workgroups = ["out.len / 2"]
inputs = [{ name = "x", dtype = "f32" }]
outputs = [{ name = "out", dtype = "f32", like = "x" }]
"#;
    let wgsl = "@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>) { out[id.x] = 1.0 / x[id.x]; }";
    let extensions = Extensions::from_source(declaration, wgsl).unwrap();
    let extensions = extensions.with_twin("first_half", |args| {
        let [len, _]: [u32; 2] = args.params()?;
        let x: &[f32] = args.read(1, len as usize)?;
        let out: &mut [f32] = args.write(2, len as usize)?;
        for i in 0..len as usize / 2 {
            out[i] = 1.0 / x[i];
        }
        Ok(())
    });
    let extensions = extensions.unwrap();
    let mut graph = Graph::new("halves");
    graph.use_extensions(&extensions).unwrap();
    let x = graph.input("x", DType::F32, shape!["n"]);
    let half = graph.custom("first_half", &[x], &[]).unwrap()[0];
    let end = graph.unary(Unary::Neg, half).unwrap();
    graph.output("end", end);
    (extensions, graph)
}

/// A custom op is checked like any other.
fn custom_ops(place: TestDevice) {
    let (extensions, graph) = first_half();
    let session = session(place).with_extensions(extensions);
    let model = load(&session, &graph);
    let run = |values: [f32; 4]| execute(&model, &[&Tensor::f32(&[4], &values).unwrap()]);
    session.set_debug_config(check(|config| config.nan_check = 1));
    assert_eq!(
        run([1.0, 0.0, 1.0, 1.0]).unwrap_err(),
        "halves: first_half made inf: element 1 of 4 of first_half.0"
    );
}

/// A whole model under every check says what it says without.
fn a_whole_model(place: TestDevice) {
    let args = [
        "generate",
        "--max-new-tokens",
        "6",
        "--temperature",
        "0",
        "--prompt",
        "Once upon",
    ];
    let args = [&args[..], place.args()].concat();
    let plain = run(&args).succeeded().stdout;
    let mut checked = command(&args);
    checked.env("WISP_DEBUG", "nan-check,uninitialised,sync,assert=all");
    assert_eq!(run_command(checked, "").succeeded().stdout, plain);
}

on_every_device!(
    nan_check,
    whole_numbers_are_no_nan,
    uninitialised,
    prints,
    op_log,
    log_levels,
    asserts,
    custom_ops,
    a_whole_model,
);

/// An error of a device in a run step by step names the op.
#[test]
fn a_step_that_fails_is_named() {
    let session = session(TestDevice::Host);
    session.set_debug_config(check(|config| config.synchronous = true));
    let (graph, inputs) = asserting("gather");
    let model = load(&session, &graph);
    let wrong = Tensor::u32(&[2], &[1, 2]).unwrap();
    let error = execute(&model, &[&inputs[0].1, &wrong]).unwrap_err();
    assert_eq!(
        error,
        "gather (gather.baseline): gather: an index must be less than 2, it is 2"
    );
}

/// The variable works, and a wrong one is an error before anything runs.
#[test]
fn the_variable_is_read() {
    let args = [
        "generate",
        "--device",
        "host",
        "--max-new-tokens",
        "1",
        "--tokens",
        "1,2",
    ];
    let mut logged = command(args);
    logged.env("WISP_DEBUG", "op-log");
    let run = run_command(logged, "").succeeded();
    assert!(run.stderr.contains("op: decoder 1/"), "{}", run.stderr);
    let mut wrong = command(args);
    wrong.env("WISP_DEBUG", "nan-check,fast");
    let said = run_command(wrong, "").failed("a wrong variable");
    assert!(
        said.contains("WISP_DEBUG: the debug setting \"fast\": there are nan-check[=STRIDE], uninitialised, sync, op-log"),
        "{said}"
    );
}
