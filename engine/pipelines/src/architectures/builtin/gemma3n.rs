//! Gemma 3n's text model: Gemma 3 with several versions of the residual stream, a branch beside attention, embeddings for
//! each layer, sparse activations in the first layers, and last layers that read keys and values of earlier ones.

use wisp_weights::gguf::{Array, Value};

use super::{gemma, gemma2};
use crate::{
    architectures::{
        architecture::Architecture,
        error::ArchitectureError,
        gguf_metadata::GgufMetadata,
        hf_config::{HfConfig, LayerType},
    },
    normal_quantile::normal_quantile,
    rope::RopeScaling,
    spec::{
        AltUp, DecoderSpec, LayerEmbeddings, NormPlacement, QkNorm, RopeSettings, TensorNames,
        in_layer,
    },
};

/// The first layers of the published models keep only the largest activations.
const SPARSE_LAYERS: usize = 10;

/// The part of activations that they do not keep.
const SPARSITY: f64 = 0.95;

/// Norms do not add 1 to their weights. Multimodal checkpoints store the text model under other prefixes.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("gemma3n")
        .config_classes(["Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"])
        .config_defaults(
            r#"{"vocab_size": 262400, "hidden_size": 2048, "intermediate_sizes": 16384,
            "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2,
            "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 32768,
            "tie_word_embeddings": true, "sliding_window": 512, "final_logit_softcapping": 30.0,
            "rope_theta": 1e6, "rope_local_base_freq": 1e4, "vocab_size_per_layer_input": 262144,
            "hidden_size_per_layer_input": 256, "altup_active_idx": 0, "altup_correct_scale": true,
            "altup_num_inputs": 4, "num_kv_shared_layers": 15, "laurel_rank": 64}"#,
        )
        .config_key("hidden_act", "hidden_activation")
        .config_key("intermediate_sizes", "intermediate_size")
        .tensor_names(TensorNames {
            prefixes: ["model.", "model.language_model.", "language_model.model."]
                .map(Into::into)
                .into(),
            ..gemma2::tensor_names()
        })
        .spec_from_config(from_config)
        .gguf("gemma3n")
        .spec_from_gguf(from_gguf)
        .gguf_key("altup.num_inputs", |spec| {
            Some(Value::U32(spec.alt_up?.inputs))
        })
        .gguf_key("altup.active_idx", |spec| {
            Some(Value::U32(spec.alt_up?.active))
        })
        .gguf_key("activation_sparsity_scale", |spec| {
            let cutoffs = spec.layers.iter().map(|layer| layer.activation_cutoff);
            let cutoffs = cutoffs.map(|cutoff| cutoff.unwrap_or(f32::NEG_INFINITY));
            Some(Value::Array(Array::F32(cutoffs.collect())))
        });
    with_gguf_keys(architecture)
}

/// Adds the metadata that files of Gemma 3n and Gemma 4 have.
pub(super) fn with_gguf_keys(architecture: Architecture) -> Architecture {
    architecture
        .gguf_key("attention.sliding_window_pattern", |spec| {
            let layers = spec.layers.iter().map(|layer| layer.window.is_some());
            Some(Value::Array(Array::Bool(layers.collect())))
        })
        .gguf_key("attention.shared_kv_layers", |spec| {
            let layers = spec.layers.iter();
            let shared = layers.filter(|layer| layer.shared_kv.is_some()).count();
            Some(Value::U32(shared as u32))
        })
        .gguf_key("embedding_length_per_layer_input", |spec| {
            let width = spec.layer_embeddings.map_or(0, |all| all.width);
            Some(Value::U32(width as u32))
        })
        .gguf_key("rope.freq_base_swa", |spec| {
            Some(Value::F32(spec.ropes.get(1)?.theta))
        })
        .gguf_key("final_logit_softcapping", |spec| {
            Some(Value::F32(spec.logit_softcap))
        })
}

/// Files without a key are of the published models.
fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = from_common_gguf(metadata)?;
    spec.logit_softcap = metadata.f32_or("final_logit_softcapping", 30.0)?;
    let shared = match metadata.optional_u32("attention.shared_kv_layers")? {
        Some(shared) => shared.into(),
        None => (spec.layers.len() as u64).saturating_sub(20),
    };
    share_caches(&mut spec, shared);
    let cutoffs = metadata.layer_floats("activation_sparsity_scale");
    for (i, layer) in spec.layers.iter_mut().enumerate() {
        // Layers that keep all activations have minus infinity.
        layer.activation_cutoff = match &cutoffs {
            Some(cutoffs) => cutoffs.get(i).copied().filter(|cutoff| cutoff.is_finite()),
            None => (i < SPARSE_LAYERS).then(|| normal_quantile(SPARSITY) as f32),
        };
    }
    let names = TensorNames::gguf();
    let scale = in_layer(&names.alt_up_scale, 0);
    spec.alt_up = Some(AltUp {
        inputs: metadata.u32_or("altup.num_inputs", 4)?,
        active: metadata.u32_or("altup.active_idx", 0)?,
        scaled: metadata.has(&scale),
    });
    let rank = metadata.weight_rows(&in_layer(&names.laurel_left, 0));
    spec.laurel_rank = Some(rank.unwrap_or(64));
    Ok(spec)
}

/// Returns what Gemma 3n and Gemma 4 have in common. Layers do not share keys and values yet.
pub(super) fn from_common_gguf(
    metadata: &GgufMetadata<'_>,
) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = gemma::from_gguf(metadata)?;
    spec.norm_placement = NormPlacement::Sandwich;
    spec.qk_norm = QkNorm::PerHead;
    spec.v_norm = true;
    spec.set_attention_scale(1.0);
    metadata.set_windows(&mut spec, 5)?;
    let theta = metadata.f32_or("rope.freq_base_swa", 10_000.0)?;
    spec.set_local_rope(RopeSettings::new(theta, RopeScaling::None));
    metadata.set_widths(&mut spec);
    let width = metadata.optional_u32("embedding_length_per_layer_input")?;
    let table = metadata.weight_rows(&TensorNames::gguf().layer_embeddings);
    spec.layer_embeddings = match width {
        Some(0) => None,
        width => table.map(|vocab_size| LayerEmbeddings {
            width: width.unwrap_or(256).into(),
            vocab_size,
        }),
    };
    Ok(spec)
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.embedding_multiplier = (spec.hidden_size as f32).sqrt();
    spec.norm_placement = NormPlacement::Sandwich;
    spec.qk_norm = QkNorm::PerHead;
    spec.v_norm = true;
    spec.set_attention_scale(1.0);
    spec.logit_softcap = config.f32_or("final_logit_softcapping", 0.0)?;
    let window = config.optional_u32("sliding_window")?;
    config.set_windows(&mut spec, window, |layer| !(layer + 1).is_multiple_of(5))?;
    spec.set_local_rope(config.rope(LayerType::SlidingAttention)?);
    share_caches(&mut spec, config.u64_or("num_kv_shared_layers", 0)?);
    set_widths(&mut spec, config)?;
    spec.alt_up = Some(AltUp {
        inputs: config.u32("altup_num_inputs")?,
        active: config.u32("altup_active_idx")?,
        scaled: config.bool_or("altup_correct_scale", true)?,
    });
    spec.laurel_rank = Some(config.u64("laurel_rank")?);
    spec.layer_embeddings = Some(LayerEmbeddings {
        width: config.u64("hidden_size_per_layer_input")?,
        vocab_size: config.u64("vocab_size_per_layer_input")?,
    });
    Ok(spec)
}

/// Lets the last `count` layers read the keys and values of the last layer before them that has a window, or none, as they
/// have.
pub(super) fn share_caches(spec: &mut DecoderSpec, count: u64) {
    let layers = spec.layers.len();
    let first = layers - usize::try_from(count).unwrap_or(layers).min(layers);
    let (before, shared) = spec.layers.split_at_mut(first);
    for layer in shared {
        let is_alike = |earlier: &crate::spec::LayerSpec| earlier.window == layer.window;
        // A model without such a layer is refused with the others that name none.
        layer.shared_kv = Some(before.iter().rposition(is_alike).unwrap_or(layers));
    }
}

/// Sets the width and the cutoff of each layer's feed-forward network.
fn set_widths(spec: &mut DecoderSpec, config: &HfConfig) -> Result<(), ArchitectureError> {
    let layers = spec.layers.len();
    match config.optional_u64("intermediate_sizes") {
        Ok(width) => spec.intermediate_size = width.unwrap_or(16384),
        Err(_) => {
            let widths = config
                .optional_list("intermediate_sizes")?
                .unwrap_or_default();
            spec.intermediate_size = widths.iter().copied().max().unwrap_or(0);
            for (layer, width) in spec.layers.iter_mut().zip(widths) {
                layer.intermediate_size = Some(width);
            }
        }
    }
    let sparse = config.optional_numbers("activation_sparsity_pattern")?;
    let is_sparse = |layer| layers > SPARSE_LAYERS && layer < SPARSE_LAYERS;
    let otherwise = |layer| if is_sparse(layer) { SPARSITY } else { 0.0 };
    for (i, layer) in spec.layers.iter_mut().enumerate() {
        let sparsity = match &sparse {
            Some(sparse) => sparse.get(i).copied().unwrap_or(0.0),
            None => otherwise(i),
        };
        layer.activation_cutoff = (sparsity > 0.0).then(|| normal_quantile(sparsity) as f32);
    }
    Ok(())
}
