//! The op log and the log levels.

use wisp_engine::{
    graph::Module,
    session::{LogLevel, Tensor},
    weights::MemoryWeights,
};
use wisp_tests::{bundled::session, on_every_device, program::TestDevice};

use super::{
    captured_lines, config, execute,
    graphs::{chain, embedding},
    load, options,
};

/// The op log has one line for each kernel call, and nothing else.
fn op_log_has_a_line_for_each_kernel_call(place: TestDevice) {
    let session = session(place);
    let model = load(&session, &embedding());
    let lines = captured_lines(&session);
    let ids = Tensor::u32(&[2], &[0, 1]).unwrap();
    execute(&model, &[&ids]).unwrap();
    assert!(lines.lock().unwrap().is_empty());
    for config in [
        config(|config| config.op_log = true),
        config(|config| config.log = LogLevel::Trace),
        config(|config| (config.op_log, config.synchronous) = (true, true)),
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

/// Pipelines are logged at `debug`, programs at `info`.
fn the_log_level_selects_messages_about_loading(place: TestDevice) {
    let session = session(place);
    let lines = captured_lines(&session);
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
}

/// Each model of a module and each stage of a split graph is logged as one that is loaded by itself.
fn every_model_that_is_loaded_is_logged(place: TestDevice) {
    let session = session(place);
    let lines = captured_lines(&session);
    session.set_shader_log_level(LogLevel::Info);
    let (graph, weights) = (chain(), MemoryWeights::default());
    let mut module = Module::default();
    module.add(chain()).unwrap();
    let loaded = session.load_all_blocking(&module, &weights, options());
    assert_eq!(loaded.unwrap().len(), 1);
    let stages = [(0..1, 0), (1..graph.nodes().len(), 0)];
    let split = session.load_split_blocking(&graph, &stages, &weights, options());
    assert_eq!(split.unwrap().stages().len(), 2);
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines.iter().all(|line| line.starts_with("info: ")),
        "{lines:?}"
    );
}

/// A failed run is logged as an error.
fn a_failed_run_is_logged_as_an_error(place: TestDevice) {
    let session = session(place);
    let lines = captured_lines(&session);
    let model = load(&session, &chain());
    let run = || execute(&model, &[&Tensor::f32(&[1, 2], &[-1.0, 1.0]).unwrap()]);
    let error = |log| {
        session.set_debug_config(config(|config| (config.nan_check, config.log) = (1, log)));
        run().unwrap_err();
        std::mem::take(&mut *lines.lock().unwrap())
    };
    assert_eq!(
        error(LogLevel::Error),
        ["error: chain: sqrt made NaN: element 0 of 2 of sqrt.2"]
    );
    assert!(error(LogLevel::Critical).is_empty());
}

on_every_device!(
    op_log_has_a_line_for_each_kernel_call,
    the_log_level_selects_messages_about_loading,
    every_model_that_is_loaded_is_logged,
    a_failed_run_is_logged_as_an_error,
);
