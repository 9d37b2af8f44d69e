//! A new GGUF file's metadata.

use super::form::Form;
use crate::{
    DecoderSpec, Pooling,
    model_files::ModelFiles,
    rope::{RopeScaling, yarn_attention_factor},
};
use wisp_graph::NormKind;
use wisp_types::Encoding;
use wisp_weights::gguf::{Gguf, GgufHeaderBuilder, Value};

/// Keys that say how the source was stored, not what it is.
const OF_THE_FILE: [&str; 3] = [
    "general.alignment",
    "general.file_type",
    "general.quantization_version",
];

/// ggml's numbers for files that are mostly in one encoding.
const FILE_TYPES: [(Encoding, u32); 7] = [
    (Encoding::F32, 0),
    (Encoding::F16, 1),
    (Encoding::Q4_0, 2),
    (Encoding::Q8_0, 7),
    (Encoding::Q4_K, 14),
    (Encoding::Q6_K, 18),
    (Encoding::BF16, 32),
];

/// Says what most tensors are, if that is known.
pub(super) fn file_type(header: &mut GgufHeaderBuilder, encoding: Option<Encoding>) {
    let row = FILE_TYPES.iter().find(|row| Some(row.0) == encoding);
    if let Some((encoding, number)) = row {
        header.key("general.file_type", Value::U32(*number));
        if !encoding.is_float() {
            header.key("general.quantization_version", Value::U32(2));
        }
    }
}

/// The source's metadata, but for what says how it was stored; parts come together.
pub(super) fn copied(gguf: &Gguf, header: &mut GgufHeaderBuilder) {
    for (key, value) in &gguf.metadata {
        if !OF_THE_FILE.contains(&key.as_str()) && !key.starts_with("split.") {
            header.key(key, value.clone());
        }
    }
}

/// A model's metadata from what loading it has found out.
pub(super) fn described(form: &Form, files: &ModelFiles, header: &mut GgufHeaderBuilder) {
    let spec = &files.model_spec.spec;
    header.key("general.architecture", Value::String(form.gguf.into()));
    let name = std::path::Path::new(&files.name).file_name();
    if let Some(name) = name.and_then(|name| name.to_str()) {
        header.key("general.name", Value::String(name.into()));
    }
    let mut key = |name: &str, value: Value| header.key(&format!("{}.{name}", form.gguf), value);
    for (name, size) in sizes(spec) {
        // The format's own type; every size was checked to be below 2^28.
        key(name, Value::U32(size as u32));
    }
    let eps = match spec.norm.kind {
        NormKind::Rms => "attention.layer_norm_rms_epsilon",
        NormKind::Layer => "attention.layer_norm_epsilon",
    };
    key(eps, Value::F32(spec.norm.eps));
    if let Some(encoder) = &spec.encoder {
        let kind = match files.sentence_transformer.pooling {
            Some(Pooling::Mean) => 1,
            Some(Pooling::Cls) => 2,
            _ => 0,
        };
        key("pooling_type", Value::U32(kind));
        let kinds = Value::U32(encoder.token_types as u32);
        header.key("tokenizer.ggml.token_type_count", kinds);
    }
    let mut key = |name: &str, value: Value| header.key(&format!("{}.{name}", form.gguf), value);
    if let Some(moe) = &spec.moe
        && !moe.normalise
    {
        key("expert_weights_norm", Value::Bool(false));
    }
    for (name, value) in form.keys {
        if let Some(value) = value(spec) {
            key(name, value);
        }
    }
    if let Some(rope) = spec.ropes.first() {
        key("rope.freq_base", Value::F32(rope.theta));
        for (name, value) in scaling(&rope.scaling) {
            key(name, value);
        }
    }
}

fn sizes(spec: &DecoderSpec) -> Vec<(&'static str, u64)> {
    let mut sizes = vec![
        ("vocab_size", spec.vocab_size),
        ("context_length", spec.max_positions),
        ("embedding_length", spec.hidden_size),
        ("block_count", spec.layers.len() as u64),
        ("feed_forward_length", spec.intermediate_size),
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
    }
    sizes
}

/// The keys of a rotary embedding's scaling; factors are tensors.
fn scaling(scaling: &RopeScaling) -> Vec<(&'static str, Value)> {
    let kind = |kind: &str| ("rope.scaling.type", Value::String(kind.into()));
    let float = |name, value: f64| (name, Value::F32(value as f32));
    let original = |original: f64| {
        let name = "rope.scaling.original_context_length";
        (name, Value::U32(original as u32))
    };
    match scaling {
        RopeScaling::Linear { factor } => {
            vec![kind("linear"), float("rope.scaling.factor", *factor)]
        }
        RopeScaling::Yarn {
            factor,
            original: context,
            beta_fast,
            beta_slow,
            attention_factor,
            ..
        } => vec![
            kind("yarn"),
            float("rope.scaling.factor", *factor),
            original(*context),
            float("rope.scaling.yarn_beta_fast", *beta_fast),
            float("rope.scaling.yarn_beta_slow", *beta_slow),
            // GGUF's is a factor on the one that YaRN has by itself.
            float(
                "rope.scaling.attn_factor",
                attention_factor / yarn_attention_factor(*factor),
            ),
        ],
        RopeScaling::LongRope {
            original: context,
            attention_factor,
            ..
        } => vec![
            original(*context),
            float("rope.scaling.attn_factor", *attention_factor),
        ],
        _ => Vec::new(),
    }
}
