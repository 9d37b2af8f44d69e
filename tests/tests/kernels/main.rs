//! Every kernel against its twin on the host.

mod attention;
mod elementwise;
mod experts;
mod lora;
mod matmul;
mod measure;
mod rows;
mod sample;
mod tensor;

use wisp_engine::{device::host::twin, weights::Encoding};

#[test]
fn every_op_has_a_twin() {
    for kernel in wisp_shaders::kernels() {
        assert!(twin(kernel.op).is_some(), "{}", kernel.op);
    }
}

/// Ops that have a table of cases here, encodings aside.
const TESTED: &[&str] = &[
    "add_layer_norm",
    "add_rms_norm",
    "argmax",
    "attention",
    "batch_matmul",
    "binary",
    "choose",
    "combine_experts",
    "conv2d",
    "copy",
    "elementwise",
    "embed",
    "full_attention",
    "gated",
    "gather",
    "kv_write",
    "layer_norm",
    "lora_expand",
    "lora_shrink",
    "map",
    "matmul",
    "matmul_experts",
    "measure_fma",
    "measure_read",
    "norm_rope_kv_write",
    "reduction",
    "rms_norm",
    "rope",
    "rope_kv_write",
    "route",
    "sample",
    "scatter",
    "softmax",
    "top_k",
];

#[test]
fn every_op_is_tested() {
    for kernel in wisp_shaders::kernels() {
        let (op, encoding) = kernel.op.split_once('.').unzip();
        assert!(TESTED.contains(&op.unwrap_or(kernel.op)), "{}", kernel.op);
        let known = |name| Encoding::device_encodings().any(|encoding| encoding.name() == name);
        assert!(encoding.is_none_or(known), "{}", kernel.op);
    }
}
