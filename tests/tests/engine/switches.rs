//! MAX's switches of a session: each changes the kernels that run.

use std::ops::ControlFlow;

use proptest::prelude::*;
use wisp_engine::{
    compiler::{Program, Tuning, compile_with},
    device::Capabilities,
    graph::{DType, Graph, ops::Linear},
    pipelines::{
        ModelLimits, SamplingParams,
        text_generation::{GenerateOptions, TextGenerator},
    },
    session::{
        InferenceSession, InitOptions, Model, Precision, SplitKReductionPrecision, Switches,
    },
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_tests::{
    bundled::{files, session},
    kernels::noise,
    on_every_device,
    program::TestDevice,
};

/// All candidate kernels of a program.
fn kernels(program: &Program) -> Vec<&str> {
    let calls = program.calls.iter().flat_map(|call| &call.kernels);
    calls.map(|choice| choice.name.as_str()).collect()
}

#[test]
fn false_off_no_and_0_disable_a_switch() {
    let session = session(TestDevice::Host);
    for (mode, on) in [
        ("false", false),
        ("off", false),
        ("no", false),
        ("0", false),
        ("OFF", false),
        ("true", true),
        ("on", true),
        ("1", true),
        ("", true),
        ("never", true),
    ] {
        session.enable_per_tensor_fp8_quantize(mode);
        session.use_old_top_k_kernel(mode);
        let switches = session.switches();
        assert_eq!(
            (switches.per_tensor_fp8, switches.plain_top_k),
            (on, on),
            "{mode:?}"
        );
        session.use_fi_topk_kernel(mode);
        assert_eq!(session.switches().plain_top_k, !on, "{mode:?}");
    }
    session.set_split_k_reduction_precision(SplitKReductionPrecision::Output);
    assert_eq!(
        session.switches().split_k_reduction_precision,
        SplitKReductionPrecision::Output
    );
    session.set_split_k_reduction_precision(SplitKReductionPrecision::Accum);
    assert_eq!(
        session.switches().split_k_reduction_precision,
        SplitKReductionPrecision::Accum
    );
}

/// A product with a weight `[rows, cols]`.
fn product(name: &str, encoding: Encoding, rows: u64, cols: u64) -> Graph {
    let mut graph = Graph::new(name);
    let x = graph.input("x", DType::F32, shape!["tokens", cols]);
    let weight = graph.weight("w", encoding, shape![rows, cols]);
    let out = graph.add(Linear, &[x, weight]).unwrap();
    graph.output("out", out);
    graph
}

/// Names of kernels of a product with many columns that a target uses at a precision.
fn kernels_at(precision: Precision, target: &Capabilities) -> Vec<String> {
    let switches = Switches {
        precision,
        ..Switches::default()
    };
    let graph = product("product", Encoding::Q4_0, 33, 96);
    let program = compile_with(&graph, target, switches, &Tuning::default()).unwrap();
    kernels(&program).into_iter().map(String::from).collect()
}

#[test]
fn the_precision_selects_the_kernel_for_many_tokens() {
    let gpu = Capabilities {
        f16: true,
        ..Capabilities::BASELINE
    };
    let exact = kernels_at(Precision::Exact, &gpu);
    let half = kernels_at(Precision::F16, &gpu);
    let (few, many) = half.split_at(half.len() - 1);
    assert_eq!(many, ["matmul.q4_0.f16_tile128x64"]);
    assert_eq!(exact[..exact.len() - 1], *few);
    assert_eq!(exact[exact.len() - 1], "matmul.q4_0.tile64x64");
    assert_eq!(Precision::F16.on(&gpu), Precision::F16);
    assert_eq!(Precision::Exact.on(&gpu), Precision::Exact);
}

/// No kernel of an op uses half precision unless a session asks for it.
#[test]
fn exact_precision_selects_no_kernel_with_half_precision() {
    for kernel in wisp_shaders::kernels() {
        assert!(
            !kernel.needs.f16 || kernel.switches.contains(&"f16"),
            "{}",
            kernel.name
        );
    }
}

#[test]
fn targets_without_half_precision_stay_exact() {
    let software = Capabilities {
        f16: true,
        software_kernels: true,
        ..Capabilities::BASELINE
    };
    for target in [Capabilities::BASELINE, Capabilities::HOST, software] {
        let [exact, half] = [Precision::Exact, Precision::F16].map(|it| kernels_at(it, &target));
        assert_eq!(exact, half);
        assert_eq!(Precision::F16.on(&target), Precision::Exact);
    }
}

/// The results of the kernels are tested with the other kernels, on every adapter.
#[test]
fn the_precision_of_split_k_selects_the_kernel() {
    let graph = product("product", Encoding::Q8_0, 33, 96);
    let with = |precision| {
        let switches = Switches {
            split_k_reduction_precision: precision,
            ..Switches::default()
        };
        compile_with(
            &graph,
            &Capabilities::BASELINE,
            switches,
            &Tuning::default(),
        )
        .unwrap()
    };
    let accum = with(SplitKReductionPrecision::Accum);
    let output = with(SplitKReductionPrecision::Output);
    assert_eq!(
        kernels(&accum),
        [
            "matmul.q8_0.matvec1",
            "matmul.q8_0.matvec2",
            "matmul.q8_0.matvec4",
            "matmul.q8_0.matvec8",
            "matmul.q8_0.tile64x16",
            "matmul.q8_0.tile64x32",
            "matmul.q8_0.tile64x64",
        ]
    );
    assert_eq!(
        kernels(&output),
        [
            "matmul.q8_0.matvec1_f16_partials",
            "matmul.q8_0.matvec8_f16_partials",
            "matmul.q8_0.tile64x16",
            "matmul.q8_0.tile64x32",
            "matmul.q8_0.tile64x64",
        ]
    );
    let bytes = |name| wisp_shaders::kernel(name).unwrap().workgroup_bytes;
    assert_eq!(
        bytes("matmul.q8_0.matvec8"),
        2 * bytes("matmul.q8_0.matvec8_f16_partials")
    );
}

fn generator(session: &InferenceSession) -> TextGenerator {
    let limits = ModelLimits {
        max_length: 64,
        ..ModelLimits::default()
    };
    TextGenerator::load_blocking(session, &files(), limits).unwrap()
}

fn tokens(generator: &mut TextGenerator, sampling: SamplingParams) -> Vec<u32> {
    let options = GenerateOptions {
        sampling,
        max_new_tokens: Some(24),
        ignore_eos: true,
        ..GenerateOptions::default()
    };
    let go = |_: &str| ControlFlow::Continue(());
    let generation = generator.generate_blocking(&[1, 30, 7], &options, go);
    generation.unwrap().tokens
}

fn both_top_k_kernels_sample_the_same_tokens(place: TestDevice) {
    let thresholds = session(place);
    let plain = session(place);
    plain.use_fi_topk_kernel("off");
    let (mut a, mut b) = (generator(&thresholds), generator(&plain));
    // Of each kernel that samples, whether it is the one of the plain top-k.
    let drawing = |session: &InferenceSession| -> Vec<bool> {
        let compiled = session.compiled().unwrap();
        let models = compiled.models().iter();
        let names = models.flat_map(|model| kernels(model.program()));
        let names = names.filter(|name| name.starts_with("sample."));
        names.map(|name| name.contains("plain_top_k")).collect()
    };
    assert_eq!([drawing(&thresholds), drawing(&plain)], [[false], [true]]);
    for (seed, top_k) in [(1, 1), (2, 2), (3, 7), (4, 40), (5, 1024), (6, 0)] {
        let sampling = SamplingParams {
            temperature: 1.3,
            top_k,
            seed,
            ..SamplingParams::default()
        };
        let [a, b] = [&mut a, &mut b].map(|generator| tokens(generator, sampling.clone()));
        assert_eq!(a, b, "top-k {top_k}");
    }
}

/// Loads a product; returns the bytes that it takes on the device too.
fn load(session: &InferenceSession, graph: &Graph, weights: &MemoryWeights) -> (Model, u64) {
    let before = session.device().allocated().0;
    let options = InitOptions {
        max_dims: [("tokens".to_string(), 2)].into(),
        ..InitOptions::default()
    };
    let model = session.load_blocking(graph, weights, options).unwrap();
    (model, session.device().allocated().0 - before)
}

/// `weights` rounded to the nearest E4M3 values with one scale for all.
fn rounded(weights: &[f32]) -> Vec<f64> {
    let worth = |byte: u32| {
        let (exponent, mantissa) = ((byte >> 3) as i32, f64::from(byte & 7) / 8.0);
        match exponent {
            0 => mantissa * 2f64.powi(-6),
            _ => (1.0 + mantissa) * 2f64.powi(exponent - 7),
        }
    };
    let numbers: Vec<f64> = (0..0x7f).map(worth).collect();
    let largest = weights.iter().fold(0f32, |most, w| most.max(w.abs()));
    let scale = f64::from(largest / 448.0);
    let nearest = |w: &f32| {
        let x = f64::from(w.abs()) / scale;
        let off = |number: &&f64| (**number - x).abs();
        let best = numbers.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
        best.unwrap() * scale * f64::from(w.signum())
    };
    weights.iter().map(nearest).collect()
}

/// The weight of the largest magnitude, far from the others, determines the scale of the tensor.
fn weights_become_fp8_with_one_scale_for_each_tensor(place: TestDevice) {
    let (rows, cols) = (70usize, 1024usize);
    let mut values = noise(3, rows * cols);
    values[5] = 31.0;
    let x = noise(4, 2 * cols);
    let mut weights = MemoryWeights::default();
    weights
        .insert("w", &[rows as u64, cols as u64], &values)
        .unwrap();
    let graph = product("product", Encoding::F32, rows as u64, cols as u64);
    let session = session(place);
    let (_, plain) = load(&session, &graph, &weights);
    session.enable_per_tensor_fp8_quantize("on");
    let compiled = session.compile(&graph).unwrap();
    assert_eq!(compiled.program().matrices[0].encoding, Encoding::F8_E4M3);
    let (model, small) = load(&session, &graph, &weights);
    // 36 bytes for 32 weights instead of 128; the rest is inputs, outputs and parameters.
    let saved = (rows * cols) as u64 / 32 * (128 - 36);
    assert!(plain - small >= saved - 4096, "{plain} and {small} bytes");
    model.write("x", &x).unwrap();
    model.run(&model.dims(&[("tokens", 2)]).unwrap()).unwrap();
    let out: Vec<f32> = model.read_blocking("out", (2 * rows) as u64).unwrap();
    let rounded = rounded(&values);
    let (mut off, mut norm) = (0.0, 0.0);
    for (token, x) in x.chunks(cols).enumerate() {
        for (row, weights) in rounded.chunks(cols).enumerate() {
            let expected: f64 = weights.iter().zip(x).map(|(w, x)| w * f64::from(*x)).sum();
            off += (expected - f64::from(out[token * rows + row])).powi(2);
            norm += expected.powi(2);
        }
    }
    // A weight halfway between two numbers may go either way: x / scale is rounded once more.
    assert!((off / norm).sqrt() < 1e-4, "{:e}", (off / norm).sqrt());
}
on_every_device!(
    both_top_k_kernels_sample_the_same_tokens,
    weights_become_fp8_with_one_scale_for_each_tensor
);

#[test]
fn weights_that_are_not_finite_cannot_become_fp8() {
    let session = session(TestDevice::Host);
    session.enable_per_tensor_fp8_quantize("on");
    // Rows that are no whole blocks, and weights that are quantised already, stay as they are.
    for (encoding, cols) in [(Encoding::F32, 40), (Encoding::Q4_0, 64)] {
        let compiled = session
            .compile(&product("stays", encoding, 3, cols))
            .unwrap();
        assert_eq!(compiled.program().matrices[0].encoding, encoding);
    }
    let mut weights = MemoryWeights::default();
    let mut values = noise(1, 96);
    values[70] = f32::NAN;
    weights.insert("w", &[3, 32], &values).unwrap();
    let graph = product("infinite", Encoding::F32, 3, 32);
    let options = InitOptions {
        max_dims: [("tokens".to_string(), 2)].into(),
        ..InitOptions::default()
    };
    let error = session
        .load_blocking(&graph, &weights, options)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "w has numbers that are not finite: it cannot become F8_E4M3; load it without \
         enable_per_tensor_fp8_quantize"
    );
}

#[test]
fn the_cache_distinguishes_switches() {
    let folder = tempfile::tempdir().unwrap();
    let graph = product("kept", Encoding::F32, 3, 64);
    let encoding = |mode: &str| {
        let cache = wisp_engine::files::DiskCache::new(folder.path());
        let session = session(TestDevice::Host).with_cache(cache);
        session.enable_per_tensor_fp8_quantize(mode);
        let compiled = session.compile(&graph).unwrap();
        (
            compiled.program().matrices[0].encoding,
            session.start_times().programs_cached,
        )
    };
    assert_eq!(encoding("off"), (Encoding::F32, 0));
    assert_eq!(encoding("on"), (Encoding::F8_E4M3, 0));
    assert_eq!(encoding("off"), (Encoding::F32, 1));
    assert_eq!(encoding("on"), (Encoding::F8_E4M3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn zeros_stay_zeros(rows in 1u64..9, blocks in 1u64..4) {
        let session = session(TestDevice::Host);
        session.enable_per_tensor_fp8_quantize("on");
        let cols = 32 * blocks;
        let mut weights = MemoryWeights::default();
        weights.insert("w", &[rows, cols], &vec![0.0; (rows * cols) as usize]).unwrap();
        let (model, _) = load(&session, &product("zeros", Encoding::F32, rows, cols), &weights);
        model.write("x", &noise(2, 2 * cols as usize)).unwrap();
        model.run(&model.dims(&[("tokens", 2)]).unwrap()).unwrap();
        let out: Vec<f32> = model.read_blocking("out", 2 * rows).unwrap();
        prop_assert!(out.iter().all(|x| *x == 0.0));
    }
}
