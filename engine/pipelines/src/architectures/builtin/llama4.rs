//! Llama 4's text model: layers that rotate and attend to chunks of positions beside layers that do neither and whose
//! queries grow with the position, and in some layers an expert whose input is weighted, beside a shared one.

use wisp_weights::gguf::{Array, Value};

use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::{
        DecoderSpec, ExpertScoring, FeedForward, GateUpOrder, QkNorm, QueryScaling, SharedExpert,
        TensorNames,
    },
};

/// Without `no_rope_layers`, every `no_rope_layer_interval`th layer does not rotate; without `moe_layers`, every
/// `interleave_moe_layer_step`th layer has experts. Multimodal checkpoints store the text model under other prefixes.
pub(super) fn architecture() -> Architecture {
    Architecture::new("llama4")
        .config_classes(["Llama4ForCausalLM", "Llama4ForConditionalGeneration"])
        .config_defaults(
            r#"{"vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192,
            "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40,
            "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
            "rms_norm_eps": 1e-5, "rope_theta": 5e5, "num_experts_per_tok": 1,
            "num_local_experts": 16, "interleave_moe_layer_step": 1, "use_qk_norm": true,
            "no_rope_layer_interval": 4, "attention_chunk_size": 8192,
            "attn_temperature_tuning": true, "floor_scale": 8192, "attn_scale": 0.1}"#,
        )
        .tensor_names(TensorNames {
            prefixes: ["model.", "language_model.model.", "model.language_model."]
                .map(Into::into)
                .into(),
            gate: "layers.{}.feed_forward.gate_proj".into(),
            up: "layers.{}.feed_forward.up_proj".into(),
            down: "layers.{}.feed_forward.down_proj".into(),
            router: "layers.{}.feed_forward.router".into(),
            expert_gate: "".into(),
            expert_up: "".into(),
            expert_gate_up: "layers.{}.feed_forward.experts.gate_up_proj".into(),
            gate_up_order: GateUpOrder::Stacked,
            expert_down: "layers.{}.feed_forward.experts.down_proj".into(),
            shared_gate: "layers.{}.feed_forward.shared_expert.gate_proj".into(),
            shared_up: "layers.{}.feed_forward.shared_expert.up_proj".into(),
            shared_down: "layers.{}.feed_forward.shared_expert.down_proj".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(from_config)
        .gguf("llama4")
        .spec_from_gguf(from_gguf)
        .gguf_key("attention.sliding_window_pattern", |spec| {
            let layers = spec.layers.iter().map(|layer| layer.chunked);
            Some(Value::Array(Array::Bool(layers.collect())))
        })
        .gguf_key("attention.temperature_scale", |spec| {
            Some(Value::F32(spec.query_scaling?.beta))
        })
        .gguf_key("attention.temperature_length", |spec| {
            Some(Value::U32(spec.query_scaling?.context as u32))
        })
        .gguf_key("interleave_moe_layer_step", |spec| {
            let mut layers = spec.layers.iter();
            let first = layers.position(|layer| layer.feed_forward == FeedForward::Experts)?;
            Some(Value::U32(first as u32 + 1))
        })
}

/// The number of experts of Maverick, whose queries and keys have no norms.
const EXPERTS_WITHOUT_QK_NORM: u32 = 128;

/// Files of other programs have no keys for the size of chunks, for the layers without rotation and for the growth of
/// queries, which are those of the published models. A window of 0 stands for layers that all rotate and attend to
/// everything.
fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    spec.rope_interleaved = true;
    let chunk = metadata.u32_or("attention.sliding_window", 8192)?;
    if chunk > 0 {
        let listed = metadata.layer_flags("attention.sliding_window_pattern");
        for (i, layer) in spec.layers.iter_mut().enumerate() {
            layer.chunked = match &listed {
                Some(listed) => listed.get(i).copied().unwrap_or(false),
                None => !(i + 1).is_multiple_of(4),
            };
            layer.window = layer.chunked.then_some(chunk);
            layer.rope = layer.rope.filter(|_| layer.chunked);
        }
        let context = metadata.u32_or("attention.temperature_length", 8192)?;
        spec.query_scaling = Some(QueryScaling {
            beta: metadata.f32_or("attention.temperature_scale", 0.1)?,
            context: context.into(),
            offset: 1,
            rotated: false,
        });
    }
    if let Some(moe) = &mut spec.moe {
        if moe.experts != EXPERTS_WITHOUT_QK_NORM {
            spec.qk_norm = QkNorm::UnweightedPerRotatedHead;
        }
        moe.scoring = ExpertScoring::Sigmoid;
        moe.weighted_input = true;
        moe.normalize = false;
    }
    Ok(spec)
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.rope_interleaved = true;
    if config.bool_or("use_qk_norm", false)? {
        spec.qk_norm = QkNorm::UnweightedPerRotatedHead;
    }
    set_layers(&mut spec, config)?;
    if config.bool_or("attn_temperature_tuning", false)? {
        spec.query_scaling = Some(QueryScaling {
            beta: config.f32_or("attn_scale", 0.1)?,
            context: config.optional_f64("floor_scale")?.unwrap_or(8192.0),
            offset: 1,
            rotated: false,
        });
    }
    let mut moe = config.moe("intermediate_size", false)?;
    moe.scoring = ExpertScoring::Sigmoid;
    moe.weighted_input = true;
    moe.shared = Some(SharedExpert {
        intermediate_size: moe.intermediate_size,
        gated: false,
    });
    spec.moe = Some(moe);
    spec.intermediate_size = config.u64("intermediate_size_mlp")?;
    let step = config.u64("interleave_moe_layer_step")?.max(1);
    let listed = config.optional_list("moe_layers")?;
    spec.set_expert_layers(|i| match &listed {
        Some(listed) => listed.contains(&(i as u64)),
        None => (i as u64 + 1).is_multiple_of(step),
    });
    Ok(spec)
}

/// Sets the layers that rotate, and those that attend to chunks.
fn set_layers(spec: &mut DecoderSpec, config: &HfConfig) -> Result<(), ArchitectureError> {
    let interval = config.u64("no_rope_layer_interval")?.max(1);
    let listed = config.optional_list("no_rope_layers")?.unwrap_or_default();
    let chunk = config.optional_u32("attention_chunk_size")?;
    let kinds = &["full_attention", "chunked_attention"];
    let types = config.layer_types(kinds, spec.layers.len())?;
    for (i, layer) in spec.layers.iter_mut().enumerate() {
        // The list has 1 for a layer that rotates.
        let rotates = match listed.get(i) {
            Some(rotates) => *rotates != 0,
            None => !(i as u64 + 1).is_multiple_of(interval),
        };
        layer.rope = layer.rope.filter(|_| rotates);
        layer.chunked = types.as_ref().map_or(rotates, |types| types[i] == 1);
        layer.window = chunk.filter(|chunk| layer.chunked && *chunk > 0);
    }
    Ok(())
}
