//! Tests of every host twin against plain loops in `f64`, and of its errors.

mod attention;
mod elements;
mod errors;
mod int8;
mod products;
mod sampling;

use super::{HostBuffer, twin};
use wisp_types::Encoding;

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
