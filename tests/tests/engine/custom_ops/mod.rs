//! Custom ops: their results, their errors, and their kernels in compiled models.

mod errors;

use std::collections::HashMap;

use wisp_engine::{
    compiler::{ParamWord, ProgramParts, Target},
    device::{
        Capabilities,
        host::{Args, HostError},
    },
    extension::{Declaration, Extension, Extensions, Param},
    graph::{Activation, Binary, DType, Graph, Map, Unary},
    session::{CompiledModel, CompiledModule, InferenceSession, InitOptions, Tensor},
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{bundled::session, kernels::noise, on_every_device, program::TestDevice};

#[path = "../../../../engine/examples/custom_op.rs"]
#[allow(dead_code, reason = "its main function is for cargo")]
mod example;

/// Computes `out[r, i] = x[r, 2 i] * scale + x[r, 2 i + 1] + bias[i] + offset`, and counts rows in `seen`.
const PAIRS: &str = r#"
name = "pairs"
workgroup_size = [32, 1, 1]
workgroups = ["min(ceil_div(out.len, 32), 2)"]
inputs = [
    { name = "x", dtype = "f32", shape = ["_", "_"] },
    { name = "bias", dtype = "f32", shape = ["x.1 / 2"] },
    { name = "seen", dtype = "u32", shape = ["1"], writes = true },
]
outputs = [{ name = "out", dtype = "f32", shape = ["x.0", "x.1 / 2"] }]
params = [
    { name = "scale", dtype = "f32" },
    { name = "offset", dtype = "u32", default = 3 },
]
"#;

const PAIRS_WGSL: &str = "
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    if id.x == 0u { seen[0] += params.x_0; }
    for (var i = id.x; i < params.out_len; i += 32u * groups.x) {
        let row = i / params.out_1;
        let col = i % params.out_1;
        let at = row * params.x_1 + 2u * col;
        out[i] = x[at] * params.scale + x[at + 1u] + bias[col] + f32(params.offset);
    }
}";

fn pairs_twin(args: &Args) -> Result<(), HostError> {
    // x_len, x_0, x_1, bias_len, bias_0, seen_len, seen_0, out_len, out_0, out_1, scale, offset
    let p: [u32; 12] = args.params()?;
    let (cols, scale) = (p[9] as usize, f32::from_bits(p[10]));
    let x: &[f32] = args.read(1, p[0] as usize)?;
    let bias: &[f32] = args.read(2, p[3] as usize)?;
    args.write::<u32>(3, 1)?[0] += p[1];
    let out: &mut [f32] = args.write(4, p[7] as usize)?;
    for (i, out) in out.iter_mut().enumerate() {
        *out = x[2 * i] * scale + x[2 * i + 1] + bias[i % cols] + p[11] as f32;
    }
    Ok(())
}

fn pairs() -> Extensions {
    let extensions = Extensions::from_source(PAIRS, PAIRS_WGSL).unwrap();
    extensions.with_twin("pairs", pairs_twin).unwrap()
}

fn pairs_graph() -> Graph {
    let mut graph = Graph::new("pairs graph");
    graph.use_extensions(&pairs()).unwrap();
    let x = graph.input("x", DType::F32, shape!["n", 14u64]);
    let seen = graph.buffer("seen", DType::U32, shape![1u64]);
    // A weight that is not stored as f32.
    let bias = graph.weight("bias", Encoding::F16, shape![7u64]);
    let twice = graph.unary(Unary::Neg, x).unwrap();
    let scale = ("scale", Param::F32(2.0));
    let out = graph
        .custom("pairs", &[twice, bias, seen], &[scale])
        .unwrap()[0];
    let more = graph.unary(Unary::Neg, out).unwrap();
    graph.output("out", more);
    graph
}

fn pairs_weights() -> MemoryWeights {
    let mut weights = MemoryWeights::default();
    let bias: Vec<f32> = (0..7).map(|i| i as f32).collect();
    weights.insert("bias", &[7], &bias).unwrap();
    weights
}

fn options(n: u64) -> InitOptions<'static> {
    InitOptions {
        max_dims: HashMap::from([("n".to_string(), n)]),
        ..Default::default()
    }
}

/// Runs the graph with several numbers of rows, also with more than the workgroups cover at once.
fn check_pairs(session: &InferenceSession, compiled: &CompiledModel) {
    let model = session
        .init_blocking(compiled, &pairs_weights(), options(40))
        .unwrap();
    let mut seen = 0;
    for rows in [1u64, 5, 0, 40] {
        let x = noise(rows as u32, rows as usize * 14);
        let input = Tensor::f32(&[rows, 14], &x).unwrap();
        let out = pollster::block_on(model.execute(&[&input])).unwrap();
        let expected: Vec<f32> = (0..rows as usize * 7)
            .map(|i| -(-x[2 * i] * 2.0 + -x[2 * i + 1] + (i % 7) as f32 + 3.0))
            .collect();
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        let out = out[0].as_f32().unwrap();
        assert!(
            out.len() == expected.len() && out.iter().zip(&expected).all(near),
            "{rows} rows"
        );
        seen += rows as u32;
    }
    let counted: Vec<u32> = pollster::block_on(model.read("seen", 1)).unwrap();
    assert_eq!(counted, [seen]);
}

fn kernel_computes_its_formula(place: TestDevice) {
    let session = session(place).with_extensions(pairs());
    let compiled = session.compile(&pairs_graph()).unwrap();
    check_pairs(&session, &compiled);
}

/// The bytes of a compiled model are reproducible, and its kernels are checked when it is loaded.
fn compiled_models_contain_the_kernel(place: TestDevice) {
    let target = Target::named(if place == TestDevice::Host {
        "host"
    } else {
        "browser"
    })
    .unwrap();
    let compile = || CompiledModule::compile(&[pairs_graph()], &target).unwrap();
    let bytes = compile().to_bytes().unwrap();
    assert_eq!(bytes, compile().to_bytes().unwrap());
    let loaded = CompiledModule::from_bytes(&bytes).unwrap();
    let model = &loaded.models()[0];
    assert!(!model.is_trusted());
    let custom = &model.program().custom_kernels[0];
    assert!(
        custom.wgsl.contains("seen[0] += params.x_0") && custom.name.starts_with("pairs.custom.")
    );
    check_pairs(&session(place).with_extensions(pairs()), model);
}

fn heat_example_matches_plain_arithmetic(place: TestDevice) {
    let device = session(place).device().clone();
    let plate = example::plate(device, 9, 8).unwrap();
    let mut expected = vec![0.0f64; 81];
    expected[40] = 100.0;
    for _ in 0..8 {
        let before = expected.clone();
        for (i, heat) in expected.iter_mut().enumerate() {
            let (y, x) = (i / 9, i % 9);
            let places = (0..81usize).filter(|j| (j / 9).abs_diff(y) + (j % 9).abs_diff(x) == 1);
            *heat += 0.2 * places.map(|j| before[j] - before[i]).sum::<f64>();
        }
    }
    for (heat, expected) in plate.iter().zip(expected) {
        assert!(
            (f64::from(*heat) - expected).abs() < 1e-4,
            "{heat} {expected}"
        );
    }
}

fn custom_ops_replace_built_in_ops_of_the_same_name(place: TestDevice) {
    let scaled = |attribute: &str| {
        format!(
            r#"
name = "rms_norm"
workgroup_size = [64, 1, 1]
workgroups = ["ceil_div(out.len, 64)"]
inputs = [{{ name = "x", dtype = "f32" }}, {{ name = "weight", dtype = "f32", shape = ["_"] }}]
outputs = [{{ name = "out", dtype = "f32", like = "x" }}]
params = [{{ name = "{attribute}", dtype = "f32", default = 0.5 }}]
"#
        )
    };
    let wgsl = |attribute: &str| {
        format!(
            "@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    if id.x < params.x_len {{ out[id.x] = x[id.x] * weight[id.x % params.weight_0] + params.{attribute}; }}
}}"
        )
    };
    fn twin(args: &Args) -> Result<(), HostError> {
        let p: [u32; 5] = args.params()?;
        let x: &[f32] = args.read(1, p[0] as usize)?;
        let weight: &[f32] = args.read(2, p[1] as usize)?;
        for (i, out) in args.write::<f32>(3, p[0] as usize)?.iter_mut().enumerate() {
            *out = x[i] * weight[i % weight.len()] + f32::from_bits(p[4]);
        }
        Ok(())
    }
    let mut graph = Graph::new("norms");
    let x = graph.input("x", DType::F32, shape!["n", 4u64]);
    let weight = graph.weight("w", Encoding::F32, shape![4u64]);
    let y = graph.rms_norm(x, weight, 0.25).unwrap();
    // A sum that is otherwise fused with the norm is not fused.
    let sum = graph.add(Binary::Add, &[x, y]).unwrap();
    let z = graph.rms_norm(sum, weight, 0.25).unwrap();
    graph.output("z", z);
    graph.output("sum", sum);
    let mut weights = MemoryWeights::default();
    weights.insert("w", &[4], &[2.0; 4]).unwrap();
    let run = |session: InferenceSession| {
        let model = session.load_blocking(&graph, &weights, options(4)).unwrap();
        let x = Tensor::f32(&[1, 4], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        let out = pollster::block_on(model.execute(&[&x])).unwrap();
        (
            out[0].as_f32().unwrap().to_vec(),
            out[1].as_f32().unwrap().to_vec(),
        )
    };
    let own = |attribute: &str| {
        let extensions = Extensions::from_source(&scaled(attribute), &wgsl(attribute)).unwrap();
        session(place).with_extensions(extensions.with_twin("rms_norm", twin).unwrap())
    };
    // A parameter called `eps` gets the epsilon of the norm; another one has its default.
    for (attribute, value) in [("eps", 0.25), ("other", 0.5)] {
        let sum: Vec<f32> = [1.0, 2.0, 3.0, 4.0]
            .iter()
            .map(|x| 3.0 * x + value)
            .collect();
        let z = sum.iter().map(|sum| 2.0 * sum + value).collect();
        assert_eq!(run(own(attribute)), (z, sum), "{attribute}");
    }
    let built_in = run(session(place));
    assert!((built_in.1[0] - (1.0 + 2.0 / (7.5f32 + 0.25).sqrt())).abs() < 1e-5);
}

on_every_device!(
    kernel_computes_its_formula,
    compiled_models_contain_the_kernel,
    heat_example_matches_plain_arithmetic,
    custom_ops_replace_built_in_ops_of_the_same_name
);

#[test]
fn kernels_compile_for_every_target_within_its_limits() {
    for target in Target::names() {
        let target = Target::named(target).unwrap();
        CompiledModule::compile(&[pairs_graph()], &target).unwrap();
    }
    let mut declaration = Declaration::from_toml(PAIRS).unwrap();
    declaration.workgroup_size = [512, 1, 1];
    let wgsl = PAIRS_WGSL.replace("workgroup_size(32)", "workgroup_size(512)");
    let large = Extension::new(declaration, &wgsl).unwrap();
    let mut graph = Graph::new("large");
    graph
        .use_extensions(&Extensions::default().with(large).unwrap())
        .unwrap();
    let x = graph.input("x", DType::F32, shape!["n", 14u64]);
    let bias = graph.input("bias", DType::F32, shape![7u64]);
    let seen = graph.buffer("seen", DType::U32, shape![1u64]);
    let out = graph
        .custom("pairs", &[x, bias, seen], &[("scale", 1.0.into())])
        .unwrap();
    graph.output("out", out[0]);
    let error = InferenceSession::compile_for(&graph, &Capabilities::BASELINE).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("the custom op \"pairs\": pairs.custom."),
        "{message}"
    );
    assert!(
        message.ends_with("(it needs 512 invocations of a workgroup, there are 256)"),
        "{message}"
    );
}

#[test]
fn a_missing_host_twin_is_reported() {
    let error = session(TestDevice::Host)
        .load_blocking(&pairs_graph(), &pairs_weights(), options(4))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the custom op \"pairs\" has no twin on the host: give it one by Extensions::with_twin, or use a GPU"
    );
    let error = Extensions::default()
        .with_twin("pairs", pairs_twin)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no custom op \"pairs\" to give a twin to; there are: "
    );
    let error = pairs().and(pairs()).unwrap_err().to_string();
    assert_eq!(
        error,
        "two custom ops are called \"pairs\": give one of them another name"
    );
}

/// The number of workgroups is checked against the limit of the device before a run.
#[test]
fn too_many_workgroups_are_refused() {
    let declaration = PAIRS.replace("min(ceil_div(out.len, 32), 2)", "x.0 * 1000 - 1000");
    let extensions = Extensions::from_source(&declaration, PAIRS_WGSL).unwrap();
    let extensions = extensions.with_twin("pairs", pairs_twin).unwrap();
    let mut graph = Graph::new("many");
    graph.use_extensions(&extensions).unwrap();
    let x = graph.input("x", DType::F32, shape!["n", 14u64]);
    let bias = graph.input("bias", DType::F32, shape![7u64]);
    let seen = graph.buffer("seen", DType::U32, shape![1u64]);
    let out = graph
        .custom("pairs", &[x, bias, seen], &[("scale", 1.0.into())])
        .unwrap();
    graph.output("out", out[0]);
    let session = session(TestDevice::Host).with_extensions(extensions);
    let model = session
        .load_blocking(&graph, &MemoryWeights::default(), options(100))
        .unwrap();
    let run = |n| model.run(&model.dims(&[("n", n)]).unwrap());
    run(66).unwrap();
    assert_eq!(
        run(67).unwrap_err().to_string(),
        "the custom op \"pairs\": it asks for [66000, 1, 1] workgroups, at most 65535 are possible"
    );
    assert_eq!(
        run(0).unwrap_err().to_string(),
        "the custom op \"pairs\": its workgroups cannot be counted: the result is negative"
    );
}

#[test]
fn forged_kernels_in_programs_are_refused() {
    let compiled = InferenceSession::compile_for(&pairs_graph(), &Capabilities::BASELINE).unwrap();
    let parts = || ProgramParts::from(compiled.program().clone());
    let mut program = parts();
    program.check().unwrap();
    program.custom_kernels[0].wgsl += "\nfn more() -> u32 { return 1.5; }";
    let error = program.check().unwrap_err().to_string();
    assert!(
        error.ends_with("the kernel of the custom op \"pairs\" has another one's name"),
        "{error}"
    );
    let mut program = parts();
    program.calls[1].workgroups = None;
    let error = program.check().unwrap_err().to_string();
    assert!(
        error.contains("calls of custom ops, and no others, have their own number of workgroups"),
        "{error}"
    );
    let mut program = parts();
    program.calls[1].params[0] = ParamWord::Const(u32::MAX);
    program.check().unwrap();
}
