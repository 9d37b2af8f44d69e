//! Twins of all kernels in plain Rust, under the same op names and with the same bindings. The crate
//! may depend only on the kernels' parameter structs and on the weight encodings; it knows no device,
//! graph or model. It exists so that every kernel has an oracle, and so that Wisp runs on machines
//! without a GPU.
//!
//! Kernel tests compare against the twins, and the host device runs them. Each twin checks its
//! bindings against its parameters before it touches them. Work is distributed over rayon's current
//! thread pool; on a target without threads everything runs on the calling thread.

mod args;
mod buffer;
mod cache;
mod dot;
mod error;
mod exact;
mod int8;
mod int8_rows;
mod integer_dot;
mod integer_panel;
mod integer_rows;
mod math;
mod paged;
mod panel;
mod pool;
mod spans;

mod argmax;
mod attention;
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
mod kv_write;
mod linear_recurrence;
mod lora_expand;
mod lora_shrink;
mod map;
mod matmul;
mod matmul_experts;
mod measure;
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
mod strided;
mod top_k;

pub use args::{Args, Binding};
pub use buffer::{HostBuffer, OutOfBounds, OutOfMemory};
pub use error::HostError;

use wisp_types::Encoding;
use wisp_weights::blocks::{with_encoding, with_integer_encoding};

use exact::Exact;
use int8::Int8;

/// Runs one op on its arguments. All variants of an op share one twin.
pub type Twin = fn(&Args) -> Result<(), HostError>;

/// Returns the twin of an op, whose name may end in an encoding or cache format: `rope`,
/// `matmul.q4_k`.
pub fn twin(op: &str) -> Option<Twin> {
    if let Some((op, name)) = op.split_once('.') {
        match op {
            "attention" | "attention_tiled" => return Some(attention::attention),
            "attention_split" | "attention_split_wide" => return Some(attention::attention_split),
            "full_attention" | "full_attention_tiled" => {
                return Some(attention::full_attention);
            }
            "key_write" => return Some(kv_write::key_write),
            "kv_write" => return Some(kv_write::kv_write),
            "norm_rope_kv_write" => return Some(rope_kv_write::norm_rope_kv_write),
            "rope_kv_write" => return Some(rope_kv_write::rope_kv_write),
            _ => {}
        }
        let encoding = Encoding::device_encodings().find(|encoding| encoding.name() == name)?;
        return match op {
            "embed" => Some(with_encoding!(encoding, E => embed::embed::<E>)),
            "matmul" => Some(
                with_encoding!(encoding, E => |args: &Args| matmul::matmul(Exact::of::<E>(), args)),
            ),
            "matmul_gated" => Some(
                with_encoding!(encoding, E => |args: &Args| matmul::matmul_gated(Exact::of::<E>(), args)),
            ),
            "matmul_experts" => Some(
                with_encoding!(encoding, E => |args: &Args| matmul_experts::matmul_experts(Exact::of::<E>(), args)),
            ),
            "matmul_int8" => {
                with_integer_encoding!(encoding, E => Some(|args: &Args| matmul::matmul(Int8::of::<E>(), args)), else None)
            }
            "matmul_gated_int8" => {
                with_integer_encoding!(encoding, E => Some(|args: &Args| matmul::matmul_gated(Int8::of::<E>(), args)), else None)
            }
            "matmul_experts_int8" => {
                with_integer_encoding!(encoding, E => Some(|args: &Args| matmul_experts::matmul_experts(Int8::of::<E>(), args)), else None)
            }
            _ => None,
        };
    }
    Some(match op {
        "add_layer_norm" => norm::add_layer_norm,
        "add_rms_norm" => norm::add_rms_norm,
        "add_rms_norm_int8" => norm::add_rms_norm_int8,
        "batch_matmul" => batch_matmul::batch_matmul,
        "binary" => binary::binary,
        "select" => select::select,
        "causal_conv" | "gated_causal_conv" => causal_conv::causal_conv,
        "conv2d" => conv2d::conv2d,
        "copy" => copy::copy,
        "quantize" => quantize::quantize,
        "reduce" => reduce::reduce,
        "scatter" => scatter::scatter,
        "top_k" => top_k::top_k,
        "argmax" => argmax::argmax,
        "attention_combine" => attention::attention_combine,
        "clamped_swiglu" => clamped_swiglu::clamped_swiglu,
        "combine_experts" => combine_experts::combine_experts,
        "binary_contiguous" => binary_contiguous::binary_contiguous,
        "gated" => gated::gated,
        "gated_delta_rule" | "mamba2_scan" => linear_recurrence::linear_recurrence,
        "gated_delta_rule_chunked" | "mamba2_scan_chunked" => {
            linear_recurrence::linear_recurrence_chunked
        }
        "gated_delta_rule_scores" | "mamba2_scan_scores" => {
            linear_recurrence::linear_recurrence_scores
        }
        "gather" => gather::gather,
        "layer_norm" => norm::layer_norm,
        "lora_expand" => lora_expand::lora_expand,
        "lora_shrink" => lora_shrink::lora_shrink,
        "map" => map::map,
        "measure_fma" => measure::measure_fma,
        "measure_read" => measure::measure_read,
        "rms_norm" => norm::rms_norm,
        "rms_norm_int8" => norm::rms_norm_int8,
        "rope" => rope::rope,
        "route" => route::route,
        "sample" => sample::sample,
        "sample_compact" => sample::sample_compact,
        "sample_scan" => sample::sample_scan,
        "softmax" => softmax::softmax,
        _ => return None,
    })
}
