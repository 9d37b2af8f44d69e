//! Tests of tuning on the host, with functions in place of kernels.

use std::{
    ops::ControlFlow,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use wisp_device::Pipeline;
use wisp_host::{Args, HostError, Twin, twin};

use super::*;
use crate::product::product;

const TOKENS: u64 = 4;
const OP: &str = "matmul.f32";

/// The microseconds that the functions have taken, on whatever thread of the device's. A real clock would let
/// other programs decide which is faster.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Held by the test that reads the clock.
static CLOCK_IS_READ: Mutex<()> = Mutex::new(());

/// The host's twin in the time given.
fn right_in(microseconds: u64, args: &Args<'_>) -> Result<(), HostError> {
    CLOCK.fetch_add(microseconds, Ordering::Relaxed);
    twin(OP).unwrap()(args)
}

fn right(args: &Args<'_>) -> Result<(), HostError> {
    right_in(10, args)
}

fn slow(args: &Args<'_>) -> Result<(), HostError> {
    right_in(1000, args)
}

/// Fast, and wrong: leaves whatever the result's memory holds.
fn nothing(_: &Args<'_>) -> Result<(), HostError> {
    Ok(())
}

/// A product on the host, with its inputs.
fn product_with_inputs() -> (InferenceSession, Model, Dims) {
    let (session, model) = product(TOKENS);
    let x: Vec<f32> = (0..TOKENS * 32).map(|i| (i as f32 * 0.3).cos()).collect();
    model.write("x", &x).unwrap();
    let dims = model.dims(&[("tokens", TOKENS)]).unwrap();
    (session, model, dims)
}

/// Tunes the product with functions in place of its kernels, by the kernel's name.
fn tune(
    limit: Duration,
    progress: OnTuning<'_>,
    function: impl Fn(&str) -> Twin,
) -> (TuneReport, &'static str) {
    let _guard = CLOCK_IS_READ.lock().unwrap();
    let (session, model, dims) = product_with_inputs();
    let default = model.kernel_of(0, &dims).unwrap();
    let now = || Duration::from_micros(CLOCK.load(Ordering::Relaxed));
    let mut tuner = Tuner::new(&session, limit, &now, progress);
    let pipeline = |kernel: &'static Kernel| -> Pipeline {
        let function = function(kernel.name);
        session.device().twin_pipeline(kernel, function).unwrap()
    };
    tuner.replaced = wisp_shaders::candidates(OP).map(pipeline).collect();
    pollster::block_on(tuner.measure(&model, &dims, &[])).unwrap();
    (tuner.finish(), default)
}

const FOREVER: Duration = Duration::from_secs(600);
const GO_ON: OnTuning<'static> = &|_| ControlFlow::Continue(());

#[test]
fn a_faster_kernel_is_chosen_and_a_wrong_one_never() {
    let default = default_kernel();
    let fast = "matmul.f32.scalar";
    assert_ne!(default, fast);
    let (report, default) = tune(FOREVER, GO_ON, |name| match name {
        "matmul.f32.scalar" => right,
        // The baseline is what results are compared with.
        "matmul.f32.baseline" => slow,
        name if name == default => slow,
        _ => nothing,
    });
    let [point] = &report.points[..] else {
        panic!("{} points", report.points.len());
    };
    assert_eq!((point.default, point.chosen), (default, fast));
    assert!(point.is_complete && point.rows == TOKENS as u32);
    let wrong = point
        .variants
        .iter()
        .filter(|variant| variant.problem.is_some());
    let wrong: Vec<_> = wrong.collect();
    assert!(!wrong.is_empty());
    for variant in wrong {
        assert!(![default, fast, "matmul.f32.baseline"].contains(&variant.kernel));
        assert!(variant.problem.as_ref().unwrap().contains("wrong results"));
        assert_eq!(variant.ratio, None, "a wrong kernel is not timed");
    }
    let call = &report.tuning.calls()[0];
    assert!(call.kernels.iter().any(|choice| choice.name == fast));
    let table = report.table();
    assert!(
        table.contains("scalar") && table.contains("wrong results"),
        "{table}"
    );
    assert!(table.contains("1 of 1 defaults are beaten"), "{table}");
}

fn default_kernel() -> &'static str {
    let (_, model, dims) = product_with_inputs();
    model.kernel_of(0, &dims).unwrap()
}

#[test]
fn equal_kernels_leave_the_default() {
    let (report, default) = tune(FOREVER, GO_ON, |_| slow);
    assert!(report.tuning.is_empty(), "{}", report.table());
    assert_eq!(report.points[0].chosen, default);
    assert!(
        report.points[0]
            .variants
            .iter()
            .all(|it| it.error.unwrap() < 1e-6)
    );
}

#[test]
fn the_time_limit_and_the_caller_end_the_tuning() {
    let (report, _) = tune(Duration::ZERO, GO_ON, |_| right);
    assert!(report.points.is_empty() && report.left_out == 1 && !report.is_cancelled);
    assert!(
        report
            .table()
            .contains("1 measurements did not fit the time limit")
    );
    let (report, _) = tune(FOREVER, &|_| ControlFlow::Break(()), |_| right);
    assert!(report.points.is_empty() && report.is_cancelled);
}

#[test]
fn the_host_measures_nothing_and_says_so() {
    let (session, model, dims) = product_with_inputs();
    let now = || Duration::ZERO;
    let mut tuner = Tuner::new(&session, FOREVER, &now, GO_ON);
    pollster::block_on(tuner.measure(&model, &dims, &[])).unwrap();
    let report = tuner.finish();
    assert!(report.points.is_empty() && report.tuning.is_empty());
    assert!(report.table().contains("nothing to choose"));
}

#[test]
fn tuning_changes_no_result() {
    let (_, model, dims) = product_with_inputs();
    let read = |model: &Model| -> Vec<f32> {
        model.run(&dims).unwrap();
        model.read_blocking("y", TOKENS * 16).unwrap()
    };
    let before = read(&model);
    let (session, now) = (InferenceSession::new(model.device().clone()), || {
        Duration::ZERO
    });
    let mut tuner = Tuner::new(&session, FOREVER, &now, GO_ON);
    let right = twin(OP).unwrap();
    let pipeline = |kernel| session.device().twin_pipeline(kernel, right).unwrap();
    tuner.replaced = wisp_shaders::candidates(OP).map(pipeline).collect();
    pollster::block_on(tuner.measure(&model, &dims, &[])).unwrap();
    assert_eq!(read(&model), before);
}
