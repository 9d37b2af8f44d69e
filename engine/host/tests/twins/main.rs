//! Tests of every host twin against plain loops in `f64`, and of its errors.
//!
//! They use the library as devices do, and no test build of it: one would compile every twin for every encoding and
//! set of instructions a second time. The private modules with tests of their own are compiled here.

mod attention;
mod elements;
mod errors;
mod expert_speed;
mod int8;
mod linear_recurrence;
mod products;
mod sampling;
mod support;

#[allow(dead_code, reason = "the library uses it")]
#[path = "../../src/buffer.rs"]
mod buffer;
#[allow(dead_code, reason = "the library uses it")]
#[path = "../../src/cache.rs"]
mod cache;
#[allow(dead_code, reason = "the library uses it")]
#[path = "../../src/math.rs"]
mod math;

use wisp_host::{HostBuffer, twin};
use wisp_shaders::params::MatmulParams;
use wisp_types::Encoding;

/// The parameters of a product of `[tokens, cols]` and a weight `[rows, cols]`.
fn matmul_params([tokens, rows, cols]: [usize; 3], has_bias: bool) -> MatmulParams {
    MatmulParams {
        tokens: tokens as u32,
        rows: rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        out_stride: rows as u32,
        out_offset: 0,
        bias_offset: 0,
        has_bias: has_bias.into(),
    }
}

fn zeros<T: bytemuck::Pod>(len: usize) -> HostBuffer {
    HostBuffer::new(len * size_of::<T>()).unwrap()
}

#[test]
fn ops_have_twins_by_name_and_encoding() {
    for op in [
        "rms_norm",
        "add_rms_norm",
        "rope",
        "kv_write.f32",
        "rope_kv_write.f32",
        "attention.f32",
        "gated",
        "binary_contiguous",
        "softmax",
        "argmax",
        "gather",
        "sample",
        "sample_compact",
        "sample_scan",
    ] {
        assert!(twin(op).is_some(), "{op}");
    }
    for encoding in Encoding::device_encodings() {
        assert!(twin(&format!("matmul.{}", encoding.name())).is_some());
        assert!(twin(&format!("matmul_experts.{}", encoding.name())).is_some());
        assert!(twin(&format!("matmul_gated.{}", encoding.name())).is_some());
        assert!(twin(&format!("embed.{}", encoding.name())).is_some());
    }
    assert!(twin("matmul").is_none() && twin("matmul.q9").is_none() && twin("rope.f32").is_none());
}
