//! The metadata of a new GGUF file.

use std::path::Path;

use wisp_graph::NormKind;
use wisp_types::Encoding;
use wisp_weights::gguf::{Array, Gguf, GgufHeaderBuilder, Value};

use crate::{
    model_files::ModelFiles,
    pooling::Pooling,
    rope::{RopeScaling, yarn_attention_factor},
    spec::{DecoderSpec, ExpertScoring, Mamba2Spec, MoeSpec},
};

/// Keys that describe how the source is stored rather than the model.
const STORAGE_KEYS: [&str; 3] = [
    "general.alignment",
    "general.file_type",
    "general.quantization_version",
];

/// The numbers in llama.cpp's `llama_ftype` of files that are mostly in one encoding.
const FILE_TYPES: [(Encoding, u32); 11] = [
    (Encoding::F32, 0),
    (Encoding::F16, 1),
    (Encoding::Q4_0, 2),
    (Encoding::Q4_1, 3),
    (Encoding::Q8_0, 7),
    (Encoding::Q5_0, 8),
    (Encoding::Q5_1, 9),
    (Encoding::Q4_K, 14),
    (Encoding::Q5_K, 16),
    (Encoding::Q6_K, 18),
    (Encoding::BF16, 32),
];

/// Writes the number of the encoding that most tensors have, if the format has one.
pub(super) fn file_type(header: &mut GgufHeaderBuilder, encoding: Option<Encoding>) {
    let row = FILE_TYPES.iter().find(|row| Some(row.0) == encoding);
    if let Some((encoding, number)) = row {
        header.key("general.file_type", Value::U32(*number));
        if !encoding.is_float() {
            header.key("general.quantization_version", Value::U32(2));
        }
    }
}

/// Copies the metadata of a GGUF file, except for the keys that describe how it is stored or split.
pub(super) fn copy(gguf: &Gguf, header: &mut GgufHeaderBuilder) {
    for (key, value) in &gguf.metadata {
        if !STORAGE_KEYS.contains(&key.as_str()) && !key.starts_with("split.") {
            header.key(key, value.clone());
        }
    }
}

/// Writes the metadata of a model in Hugging Face's layout.
pub(super) fn describe(files: &ModelFiles, header: &mut GgufHeaderBuilder) {
    let (spec, architecture) = (&files.model_spec.spec, &files.model_spec.architecture);
    let prefix = architecture.gguf_output_name(spec);
    header.key("general.architecture", Value::String(prefix.into()));
    let name = Path::new(&files.name).file_name();
    if let Some(name) = name.and_then(|name| name.to_str()) {
        header.key("general.name", Value::String(name.into()));
    }
    let mut keys = sizes(spec);
    keys.push(match spec.norm.kind {
        NormKind::Rms => (
            "attention.layer_norm_rms_epsilon",
            Value::F32(spec.norm.eps),
        ),
        NormKind::Layer => ("attention.layer_norm_epsilon", Value::F32(spec.norm.eps)),
    });
    if let Some(encoder) = &spec.encoder {
        let settings = &files.sentence_transformer;
        // Where no file names a pooling, embeddings of decoders are those of the last token.
        let is_last = encoder.causal && settings.unsupported.is_none();
        let pooling_type = match settings.pooling.or(is_last.then_some(Pooling::Last)) {
            Some(Pooling::Mean) => 1,
            Some(Pooling::Cls) => 2,
            Some(Pooling::Last) => 3,
            None => 0,
        };
        keys.push(("pooling_type", Value::U32(pooling_type)));
        if !encoder.causal {
            keys.push(("attention.causal", Value::Bool(false)));
        }
    }
    let own = architecture.gguf_metadata(spec);
    let write = |header: &mut GgufHeaderBuilder, mut keys: Vec<(&str, Value)>| {
        keys.retain(|(key, _)| !architecture.has_gguf_key(key));
        write_keys(header, prefix, keys);
    };
    write(header, keys);
    if let Some(encoder) = &spec.encoder {
        let token_types = Value::U32(encoder.token_types as u32);
        header.key("tokenizer.ggml.token_type_count", token_types);
    }
    if let Some(moe) = &spec.moe {
        write(header, experts(moe));
    }
    if let Some(mamba) = spec.layers.iter().find_map(|layer| layer.mixer.mamba2()) {
        write(header, mamba2(mamba));
    }
    write_keys(header, prefix, own);
    if let Some(rope) = spec.ropes.first() {
        let base = ("rope.freq_base", Value::F32(rope.theta));
        write(header, vec![base]);
        write(header, scaling(&rope.scaling));
    }
}

/// Writes keys with the architecture's prefix.
fn write_keys(header: &mut GgufHeaderBuilder, prefix: &str, keys: Vec<(&str, Value)>) {
    for (name, value) in keys {
        header.key(&format!("{prefix}.{name}"), value);
    }
}

fn sizes(spec: &DecoderSpec) -> Vec<(&'static str, Value)> {
    let mut sizes = vec![
        ("vocab_size", spec.vocab_size),
        ("context_length", spec.max_positions),
        ("embedding_length", spec.hidden_size),
        ("block_count", spec.layers.len() as u64),
        ("attention.head_count", spec.heads.into()),
        ("attention.head_count_kv", spec.kv_heads.into()),
        ("attention.key_length", spec.head_dim.into()),
        ("attention.value_length", spec.head_dim.into()),
    ];
    if !spec.ropes.is_empty() {
        sizes.push(("rope.dimension_count", spec.rotary_dim.into()));
    }
    if let Some(moe) = &spec.moe {
        sizes.extend([
            ("expert_count", moe.experts.into()),
            ("expert_used_count", moe.experts_per_token.into()),
            ("expert_feed_forward_length", moe.intermediate_size),
        ]);
        if let Some(shared) = moe.shared {
            let inner = shared.intermediate_size;
            sizes.push(("expert_shared_feed_forward_length", inner));
            // Some readers count experts of the width of the others instead.
            let count = inner.div_ceil(moe.intermediate_size.max(1));
            sizes.push(("expert_shared_count", count));
        }
    }
    // The format stores sizes in 32 bits. The spec was checked, so every size is at most 2^28.
    let sizes = sizes.into_iter();
    let sizes = sizes.map(|(name, size)| (name, Value::U32(size as u32)));
    sizes
        .chain([("feed_forward_length", widths(spec))])
        .collect()
}

/// Returns the width of the feed-forward network, or that of each layer if they differ.
fn widths(spec: &DecoderSpec) -> Value {
    let layers = 0..spec.layers.len();
    let widths: Vec<u32> = layers.map(|layer| spec.dense_width(layer) as u32).collect();
    match widths.iter().all(|width| Some(width) == widths.first()) {
        true => Value::U32(widths.first().copied().unwrap_or(0)),
        false => Value::Array(Array::U32(widths)),
    }
}

/// Returns the keys that describe the routing to experts.
fn experts(moe: &MoeSpec) -> Vec<(&'static str, Value)> {
    // Without this key, readers assume what is usual for the architecture.
    let mut keys = vec![("expert_weights_norm", Value::Bool(moe.normalize))];
    if moe.scoring == ExpertScoring::Sigmoid {
        keys.push(("expert_gating_func", Value::U32(2)));
    }
    if moe.scale != 1.0 {
        keys.push(("expert_weights_scale", Value::F32(moe.scale)));
    }
    if let Some(groups) = moe.groups {
        keys.push(("expert_group_count", Value::U32(groups.groups)));
        keys.push(("expert_group_used_count", Value::U32(groups.chosen)));
    }
    if let Some(latent) = moe.latent_size {
        keys.push(("moe_latent_size", Value::U32(latent as u32)));
    }
    keys
}

/// Returns the keys that describe a Mamba 2 mixer.
fn mamba2(mamba: Mamba2Spec) -> Vec<(&'static str, Value)> {
    let mut keys = vec![
        ("ssm.conv_kernel", Value::U32(mamba.width)),
        ("ssm.inner_size", Value::U32(mamba.inner() as u32)),
        ("ssm.state_size", Value::U32(mamba.state_dim)),
        ("ssm.time_step_rank", Value::U32(mamba.heads)),
        ("ssm.group_count", Value::U32(mamba.groups)),
    ];
    // Other programs do not limit the steps.
    let [least, greatest] = mamba.step_limit;
    if least > 0.0 {
        keys.push(("ssm.time_step_min", Value::F32(least)));
    }
    if greatest.is_finite() {
        keys.push(("ssm.time_step_max", Value::F32(greatest)));
    }
    keys
}

/// Returns the keys that describe the scaling of a rotary embedding. Factors of individual
/// frequencies are stored as tensors instead.
fn scaling(scaling: &RopeScaling) -> Vec<(&'static str, Value)> {
    let kind = |kind: &str| ("rope.scaling.type", Value::String(kind.into()));
    let float = |name, value: f64| (name, Value::F32(value as f32));
    let trained_context = |original: f64| {
        let name = "rope.scaling.original_context_length";
        (name, Value::U32(original as u32))
    };
    match scaling {
        RopeScaling::Linear { factor } => {
            vec![kind("linear"), float("rope.scaling.factor", *factor)]
        }
        RopeScaling::Yarn {
            factor,
            original,
            beta_fast,
            beta_slow,
            attention_factor,
            ..
        } => vec![
            kind("yarn"),
            float("rope.scaling.factor", *factor),
            trained_context(*original),
            float("rope.scaling.yarn_beta_fast", *beta_fast),
            float("rope.scaling.yarn_beta_slow", *beta_slow),
            // GGUF's factor is multiplied by the one that YaRN implies.
            float(
                "rope.scaling.attn_factor",
                attention_factor / yarn_attention_factor(*factor),
            ),
        ],
        RopeScaling::LongRope {
            original,
            attention_factors: [_, for_long],
            ..
        } => vec![
            trained_context(*original),
            float("rope.scaling.attn_factor", *for_long),
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wisp_weights::encodings::QUANTIZABLE;

    #[test]
    fn all_encodings_of_conversions_have_file_types() {
        for encoding in QUANTIZABLE {
            assert!(FILE_TYPES.iter().any(|row| row.0 == encoding), "{encoding}");
        }
    }
}
