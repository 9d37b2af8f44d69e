//! The checks for NaN and for uninitialised reads.

use wisp_engine::{
    graph::{DType, Graph},
    session::Tensor,
    shape,
};
use wisp_tests::{bundled::session, on_every_device, program::TestDevice};

use super::{
    captured_lines, config, execute,
    graphs::{chain, embedding, first_half},
    load,
};

/// The first op that made a NaN or an infinity is named, even if its memory is reused afterwards.
fn nan_check_names_the_first_op_that_made_one(place: TestDevice) {
    let session = session(place);
    let model = load(&session, &chain());
    let run = |values: [f32; 4]| execute(&model, &[&Tensor::f32(&[2, 2], &values).unwrap()]);
    let nan = [4.0, 1.0, 9.0, -4.0];
    assert!(run(nan).unwrap()[0].as_f32().unwrap()[3].is_nan());
    session.set_debug_config(config(|config| config.nan_check = 1));
    assert_eq!(run([4.0; 4]).unwrap()[0].as_f32(), Some(&[0.5; 4][..]));
    assert_eq!(
        run(nan).unwrap_err(),
        "chain: sqrt made NaN: element 3 of 4 of sqrt.2"
    );
    assert_eq!(
        run([4.0, 0.0, 1.0, 1.0]).unwrap_err(),
        "chain: recip made inf: element 1 of 4 of recip.3"
    );
    // A stride of 4 checks only the last op.
    session.set_debug_config(config(|config| config.nan_check = 4));
    assert_eq!(
        run(nan).unwrap_err(),
        "chain: recip made NaN: element 3 of 4 of recip.3 (every 4th op is looked at, one between may have been the first)"
    );
    session.set_debug_config(config(|config| config.nan_check = 5));
    run(nan).unwrap();
}

/// Integers whose bits are those of a NaN pass the check.
fn integers_are_never_nan(place: TestDevice) {
    let session = session(place);
    session.set_debug_config(config(|config| {
        (config.nan_check, config.uninitialised) = (1, true)
    }));
    let mut graph = Graph::new("whole");
    let x = graph.input("x", DType::U32, shape!["n"]);
    let shown = graph.print(x, "x").unwrap();
    graph.output("x again", shown);
    let model = load(&session, &graph);
    let lines = captured_lines(&session);
    let x = Tensor::u32(&[2], &[u32::MAX, 0x7fc0_0000]).unwrap();
    assert_eq!(execute(&model, &[&x]).unwrap()[0], x);
    assert_eq!(
        lines.lock().unwrap()[..],
        ["x = u32[2] [4294967295, 2143289344]"]
    );
}

/// Elements that an op leaves unwritten are reported where they are read, with and without the NaN
/// check.
fn reads_of_unwritten_elements_are_reported(place: TestDevice) {
    let (extensions, graph) = first_half();
    let session = session(place).with_extensions(extensions);
    let model = load(&session, &graph);
    let run = || execute(&model, &[&Tensor::f32(&[4], &[1.0; 4]).unwrap()]);
    for nan_check in [0, 1] {
        session.set_debug_config(config(|config| {
            (config.nan_check, config.uninitialised) = (nan_check, true)
        }));
        assert_eq!(
            run().unwrap_err(),
            "halves: neg reads first_half.0, of which first_half has not written element 2 of 4"
        );
    }
    // Results that are written whole are not reported.
    let model = load(&session, &embedding());
    let rows = execute(&model, &[&Tensor::u32(&[2], &[2, 0]).unwrap()]).unwrap();
    assert_eq!(rows[0].as_f32().unwrap()[..2], [-64.0, -65.0]);
}

fn results_of_custom_ops_are_checked(place: TestDevice) {
    let (extensions, graph) = first_half();
    let session = session(place).with_extensions(extensions);
    let model = load(&session, &graph);
    let run = |values: [f32; 4]| execute(&model, &[&Tensor::f32(&[4], &values).unwrap()]);
    session.set_debug_config(config(|config| config.nan_check = 1));
    assert_eq!(
        run([1.0, 0.0, 1.0, 1.0]).unwrap_err(),
        "halves: first_half made inf: element 1 of 4 of first_half.0"
    );
}

on_every_device!(
    nan_check_names_the_first_op_that_made_one,
    integers_are_never_nan,
    reads_of_unwritten_elements_are_reported,
    results_of_custom_ops_are_checked,
);
