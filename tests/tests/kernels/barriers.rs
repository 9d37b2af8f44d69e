//! Tests of the tests: a kernel without one of its barriers fails on the emulated CUDA device, whichever barrier it is.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
    sync::Mutex,
};

use wisp_shaders::Kernel;
use wisp_tests::cuda::{emulator, find_in};

/// Barriers without which kernels pass: the beginning of the kernels' names, the barrier's number from 1, and why it stays.
const REDUNDANT: &[(&str, u32, &str)] = &[
    ("attention_tiled.f16.cooperative", 3, UNIFORM_LOAD),
    ("attention_tiled.f16.cooperative", 4, SUBGROUPS),
    ("attention_tiled.f16.cooperative", 12, UNIFORM_LOAD),
    ("full_attention_tiled.f16.cooperative", 3, UNIFORM_LOAD),
    ("full_attention_tiled.f16.cooperative", 4, SUBGROUPS),
    ("full_attention_tiled.f16.cooperative", 12, UNIFORM_LOAD),
    ("matmul_experts.", 4, UNIFORM_LOAD),
    ("matmul_experts_int8.", 4, UNIFORM_LOAD),
];

const UNIFORM_LOAD: &str =
    "`workgroupUniformLoad` ends with a barrier for writes that may follow; there are none";

const SUBGROUPS: &str =
    "without it fewer subgroups are counted, which then compute some patches more than once";

/// The tests that run an op's kernels.
fn tests_of(op: &str) -> &str {
    match op {
        _ if op.ends_with("_norm") || op.ends_with("_norm_int8") => "norm",
        "gated_causal_conv" => "causal_conv",
        "gated_delta_rule" | "mamba2_scan" => "linear_recurrence",
        _ if op.starts_with("gated_delta_rule") || op.starts_with("mamba2_scan") => {
            "linear_recurrence_chunked"
        }
        "key_write" => "kv_write",
        "matmul_gated_int8" | "matmul_experts_int8" => "matmul_int8",
        "norm_rope_kv_write" => "rope_kv_write",
        _ if op.starts_with("attention") || op.starts_with("full_attention") => "attention",
        _ if op.starts_with("sample") => "sample",
        _ => op,
    }
}

/// One kernel of each variant of each op: barriers do not depend on the encoding.
fn kernels() -> Vec<(usize, &'static Kernel)> {
    let mut of_variants = BTreeMap::new();
    for (place, kernel) in wisp_shaders::kernels().iter().enumerate() {
        let op = kernel.op.split('.').next().unwrap_or(kernel.op);
        let variant = kernel.name.rsplit('.').next().unwrap_or(kernel.name);
        of_variants.entry((op, variant)).or_insert((place, kernel));
    }
    of_variants.into_values().collect()
}

/// Runs the tests of the kernel at a place of the table, without its `barrier`th barrier; 0 is none.
fn run_without(folder: &Path, place: usize, kernel: &Kernel, barrier: u32) -> Output {
    let program = std::env::current_exe().expect("the path of this program");
    let op = kernel.op.split('.').next().unwrap_or(kernel.op);
    let mut command = Command::new(program);
    let tests = format!("{}::", tests_of(op));
    command.args([&tests, "--test-threads=1", "--nocapture"]);
    let sample = format!("{}:{place}", wisp_shaders::kernels().len());
    let barrier = barrier.to_string();
    let variables = [
        ("WISP_TEST_DEVICE", "cuda"),
        ("WISP_TEST_SAMPLE", &sample),
        ("CUDA_EMULATOR_DROP_BARRIER", &barrier),
        ("WISP_TEST_ALL", "1"),
        // Cases that fail on purpose are neither made smaller nor kept.
        ("PROPTEST_MAX_SHRINK_ITERS", "0"),
        ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"),
    ];
    find_in(&mut command, folder, &variables);
    command.output().expect("the tests run")
}

/// Checks each barrier of a kernel. Returns their number and messages about those without which it passes.
fn check(folder: &Path, place: usize, kernel: &Kernel) -> (u32, Vec<String>) {
    let whole = run_without(folder, place, kernel, 0);
    let text = String::from_utf8_lossy(&whole.stdout);
    assert!(whole.status.success(), "{}: {text}", kernel.name);
    let ran = text.lines().any(|line| {
        let runs = line
            .strip_suffix(" runs")
            .and_then(|line| line.rsplit(": ").next());
        runs.is_some_and(|runs| runs != "0")
    });
    if !ran {
        println!(
            "skipped: {} does not run on the emulated device",
            kernel.name
        );
        return (0, Vec::new());
    }
    let mut wrong = Vec::new();
    for barrier in 1.. {
        let output = run_without(folder, place, kernel, barrier);
        let last = format!("{}.cu has no barrier number", kernel.name);
        if String::from_utf8_lossy(&output.stderr).contains(&last) {
            return (barrier - 1, wrong);
        }
        let known = REDUNDANT
            .iter()
            .any(|(start, number, _)| kernel.name.starts_with(start) && *number == barrier);
        if output.status.success() != known {
            let what = if known {
                "fails, though it is listed as redundant"
            } else {
                "passes"
            };
            wrong.push(format!("{} without barrier {barrier} {what}", kernel.name));
        }
    }
    unreachable!("a source has finitely many barriers")
}

#[test]
#[ignore = "takes hours: tests/run.sh barriers"]
fn kernels_without_a_barrier_fail() {
    let Some(folder) = emulator() else { return };
    let only = std::env::var("WISP_TEST_BARRIERS_OF").unwrap_or_default();
    let (kernels, results) = (Mutex::new(kernels()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = kernels.lock().expect("no panic").pop();
                    let Some((place, kernel)) = next else { break };
                    if !kernel.name.contains(&only) {
                        continue;
                    }
                    let (barriers, wrong) = check(folder, place, kernel);
                    println!("{}: {barriers} barriers", kernel.name);
                    wrong.iter().for_each(|wrong| println!("  {wrong}"));
                    results.lock().expect("no panic").push((barriers, wrong));
                }
            });
        }
    });
    let results = results.into_inner().expect("no panic");
    let barriers: u32 = results.iter().map(|(barriers, _)| barriers).sum();
    println!("{barriers} barriers of {} kernels", results.len());
    let wrong: Vec<String> = results.into_iter().flat_map(|(_, wrong)| wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(barriers > 0, "no kernel with a barrier ran");
}
