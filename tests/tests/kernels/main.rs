//! Every kernel against its twin on the host.

mod attention;
mod elementwise;
mod matmul;
mod rows;

use wisp_engine::device::host::twin;

#[test]
fn every_op_has_a_twin() {
    for kernel in wisp_shaders::kernels() {
        assert!(twin(kernel.op).is_some(), "{}", kernel.op);
    }
}

/// Ops that have a table of cases here, encodings aside.
const TESTED: &[&str] = &[
    "add_rms_norm",
    "argmax",
    "attention",
    "elementwise",
    "embed",
    "gated",
    "gather_rows",
    "kv_write",
    "matmul",
    "rms_norm",
    "rope",
    "softmax",
];

/// Ops that have none yet. The outputs of `measure_*` are not what their twins write: they measure time.
const UNTESTED: &[&str] = &["measure_fma", "measure_read", "rope_kv_write", "sample"];

#[test]
fn every_op_is_accounted_for() {
    for kernel in wisp_shaders::kernels() {
        let op = kernel.op.split('.').next().unwrap();
        assert!(TESTED.contains(&op) != UNTESTED.contains(&op), "{op}");
    }
}
