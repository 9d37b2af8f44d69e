//! Every kernel against its twin on the host, one file an op or a family of ops.

mod argmax;
mod attention;
#[cfg(feature = "cuda")]
mod barriers;
mod batch_matmul;
mod binary;
mod binary_contiguous;
mod causal_conv;
mod clamped_swiglu;
mod combine_experts;
mod conv2d;
mod copy;
mod embed;
mod gated;
mod gather;
mod half_precision;
mod kv_write;
mod linear_recurrence;
mod linear_recurrence_chunked;
mod lora_expand;
mod lora_shrink;
mod map;
mod matmul;
mod matmul_experts;
mod matmul_gated;
mod matmul_int8;
mod measure_fma;
mod measure_read;
mod norm;
mod quantize;
mod reduce;
mod rope;
mod rope_kv_write;
mod route;
mod sample;
mod scatter;
mod select;
mod softmax;
mod top_k;

// Shared by several ops.
mod lora;
mod measure;
mod paged;
mod rows;
mod spans;
mod strided;

use wisp_engine::{device::host::twin, weights::Encoding};

/// Ops with a table of cases here, without encodings.
const TESTED: &[&str] = &[
    "add_layer_norm",
    "add_rms_norm",
    "add_rms_norm_int8",
    "argmax",
    "attention",
    "attention_combine",
    "attention_split",
    "attention_split_wide",
    "attention_tiled",
    "batch_matmul",
    "binary",
    "binary_contiguous",
    "causal_conv",
    "clamped_swiglu",
    "combine_experts",
    "conv2d",
    "copy",
    "embed",
    "full_attention",
    "full_attention_tiled",
    "gated",
    "gated_causal_conv",
    "gated_delta_rule",
    "gated_delta_rule_chunked",
    "gated_delta_rule_scores",
    "gather",
    "key_write",
    "kv_write",
    "layer_norm",
    "lora_expand",
    "lora_shrink",
    "mamba2_scan",
    "mamba2_scan_chunked",
    "mamba2_scan_scores",
    "map",
    "matmul",
    "matmul_experts",
    "matmul_experts_int8",
    "matmul_gated",
    "matmul_gated_int8",
    "matmul_int8",
    "measure_fma",
    "measure_read",
    "norm_rope_kv_write",
    "quantize",
    "reduce",
    "rms_norm",
    "rms_norm_int8",
    "rope",
    "rope_kv_write",
    "route",
    "sample",
    "sample_compact",
    "sample_scan",
    "scatter",
    "select",
    "softmax",
    "top_k",
];

#[test]
fn every_op_has_a_twin() {
    for kernel in wisp_shaders::kernels() {
        assert!(twin(kernel.op).is_some(), "{}", kernel.op);
    }
}

#[test]
fn every_op_is_tested() {
    for kernel in wisp_shaders::kernels() {
        let (op, encoding) = kernel.op.split_once('.').unzip();
        assert!(TESTED.contains(&op.unwrap_or(kernel.op)), "{}", kernel.op);
        let known = |name| Encoding::device_encodings().any(|encoding| encoding.name() == name);
        assert!(encoding.is_none_or(known), "{}", kernel.op);
    }
}
