//! Tests of the tests: a kernel without one of its barriers fails on the emulated CUDA device, whichever barrier it is.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
    sync::Mutex,
};

use wisp_shaders::Kernel;
use wisp_tests::cuda::{emulator, find_in};

/// Barriers without which kernels pass: the op, the beginning of the variants' names, the barrier's number from 1, and why it
/// stays.
const REDUNDANT: &[(&str, &str, u32, &str)] = &[
    ("attention_split", "heads1", 2, ONE_HEAD),
    ("attention_split_wide", "heads1", 2, ONE_HEAD),
    ("attention_tiled", "cooperative", 3, UNIFORM_LOAD),
    ("attention_tiled", "cooperative", 4, SUBGROUPS),
    ("attention_tiled", "cooperative", 12, UNIFORM_LOAD),
    ("full_attention_tiled", "cooperative", 3, UNIFORM_LOAD),
    ("full_attention_tiled", "cooperative", 4, SUBGROUPS),
    ("full_attention_tiled", "cooperative", 12, UNIFORM_LOAD),
    ("matmul", "cooperative", 1, SUBGROUPS),
    ("matmul", "cooperative", 3, FOLLOWED),
    ("matmul", "cooperative", 5, UNIFORM_LOAD),
    ("matmul_experts", "f16_tile", 4, UNIFORM_LOAD),
    ("matmul_experts", "mma_tile", 4, UNIFORM_LOAD),
    ("matmul_experts", "tile", 4, UNIFORM_LOAD),
    ("matmul_experts_int8", "mma_tile", 4, UNIFORM_LOAD),
    ("matmul_experts_int8", "tile", 4, UNIFORM_LOAD),
    ("sample_compact", "", 10, UNIFORM_LOAD),
    ("sample_compact", "", 11, TWO_SPACES),
    ("sample_compact", "", 12, TWO_SPACES),
    ("sample_compact", "small", 5, ONE_NUMBER),
    ("sample_compact", "small", 7, ONE_NUMBER),
    ("sample_scan", "small", 3, ONE_NUMBER),
    ("sample_scan", "small", 7, ONE_NUMBER),
];

const FOLLOWED: &str = "`find_largest` ends with a barrier for kernels that have no other before they read what it found";

const ONE_HEAD: &str =
    "with one head, invocations read and replace only what they wrote themselves";

const ONE_NUMBER: &str =
    "in a workgroup of 16, invocations first reduce one number each, their own";

const TWO_SPACES: &str = "a `storageBarrier` and a `workgroupBarrier` in a row are the same on CUDA, and both needed elsewhere";

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

/// The op of a kernel, without its encoding or format, and its variant.
fn op_and_variant(kernel: &Kernel) -> (&'static str, &'static str) {
    let op = kernel.op.split('.').next().unwrap_or(kernel.op);
    (op, kernel.name.rsplit('.').next().unwrap_or(kernel.name))
}

/// One kernel of each variant of each op, and of those with another number of barriers: some encodings have one more.
fn kernels() -> Vec<(usize, &'static Kernel)> {
    let mut of_variants = BTreeMap::new();
    for (place, kernel) in wisp_shaders::kernels().iter().enumerate() {
        let barriers = kernel.wgsl.text().matches("workgroupBarrier()").count();
        let key = (op_and_variant(kernel), barriers);
        of_variants.entry(key).or_insert((place, kernel));
    }
    of_variants.into_values().collect()
}

/// Runs the tests of the kernel at a place of the table in an order of threads, without its `barrier`th barrier; 0 is none.
fn run_without(
    folder: &Path,
    (place, kernel): (usize, &Kernel),
    barrier: u32,
    order: &str,
) -> Output {
    let program = std::env::current_exe().expect("the path of this program");
    let (op, _) = op_and_variant(kernel);
    let mut command = Command::new(program);
    let tests = format!("{}::", tests_of(op));
    command.args([&tests, "--test-threads=1", "--nocapture"]);
    let sample = format!("{}:{place}", wisp_shaders::kernels().len());
    let barrier = barrier.to_string();
    let variables = [
        ("WISP_TEST_DEVICE", "cuda"),
        ("WISP_TEST_SAMPLE", &sample),
        ("CUDA_EMULATOR_DROP_BARRIER", &barrier),
        ("CUDA_EMULATOR_ORDER", order),
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
    let run = |barrier, order| run_without(folder, (place, kernel), barrier, order);
    let whole = run(0, "forward");
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
    let (op, variant) = op_and_variant(kernel);
    let mut wrong = Vec::new();
    for barrier in 1.. {
        let output = run(barrier, "forward");
        let last = format!("{}.cu has no barrier number", kernel.name);
        if String::from_utf8_lossy(&output.stderr).contains(&last) {
            return (barrier - 1, wrong);
        }
        let known = REDUNDANT.iter().any(|(of, start, number, _)| {
            *of == op && variant.starts_with(start) && *number == barrier
        });
        // Operations on atomics do not race: without a barrier between them their order decides.
        let passes = output.status.success() && run(barrier, "backward").status.success();
        if passes != known {
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
