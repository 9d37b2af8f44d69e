//! Nemotron-H and Nemotron 3: layers that are each a Mamba 2 mixer, attention without rotation, a feed-forward network, or
//! a mixture of experts. The activation is the square of ReLU.

use super::{glm4_moe, nemotron_h_moe};
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{
        Activation, DecoderSpec, ExpertScoring, FeedForward, FeedForwardGate, Mixer, SharedExpert,
        TensorNames,
    },
};

/// The kinds of layers in `layers_block_type`, with the older names behind, and the letters of
/// `hybrid_override_pattern` for the first four.
const KINDS: [&str; 6] = [
    "linear_attention",
    "full_attention",
    "mlp",
    "moe",
    "mamba",
    "attention",
];

const LETTERS: &str = "M*-E";

/// The one norm of a layer stands before whatever the layer is. Layers that predict further tokens are not used.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("nemotron_h")
        .config_classes(["NemotronHForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 21504,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "mlp_hidden_act": "relu2",
            "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 8, "mamba_d_state": 128,
            "mamba_d_conv": 4, "num_local_experts": 8, "num_experts_per_tok": 2,
            "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688,
            "routed_scaling_factor": 1.0, "norm_topk_prob": true}"#,
        )
        .config_key("rms_norm_eps", "layer_norm_epsilon")
        .config_key("layer_types", "layers_block_type")
        .config_key("mamba_n_heads", "mamba_num_heads")
        .config_key("mamba_d_head", "mamba_head_dim")
        .config_key("mamba_n_groups", "n_groups")
        .config_key("mamba_d_state", "ssm_state_size")
        .config_key("mamba_d_conv", "conv_kernel")
        .config_key("num_local_experts", "n_routed_experts")
        .tensor_names(tensor_names())
        .spec_from_config(from_config);
    nemotron_h_moe::with_gguf(architecture, "nemotron_h")
        .gguf_written_with_experts_as(nemotron_h_moe::NAME)
}

/// Makes the architecture that GGUF files of models with experts name.
pub(super) fn with_experts() -> Architecture {
    let architecture = Architecture::new(nemotron_h_moe::NAME).tensor_names(tensor_names());
    nemotron_h_moe::with_gguf(architecture, nemotron_h_moe::NAME)
}

fn tensor_names() -> TensorNames {
    let names = TensorNames::hugging_face();
    let in_mixer = |name: &str| format!("layers.{{}}.mixer.{name}").into();
    TensorNames {
        prefixes: vec!["model.".into(), "backbone.".into()],
        embedding: "embeddings".into(),
        attention_norm: "layers.{}.norm".into(),
        mlp_norm: "layers.{}.norm".into(),
        q: in_mixer("q_proj"),
        k: in_mixer("k_proj"),
        v: in_mixer("v_proj"),
        o: in_mixer("o_proj"),
        mamba_in: in_mixer("in_proj"),
        mamba_conv: in_mixer("conv1d"),
        mamba_a_log: in_mixer("A_log"),
        mamba_step_bias: in_mixer("dt_bias"),
        mamba_d: in_mixer("D"),
        mamba_norm: in_mixer("norm"),
        mamba_out: in_mixer("out_proj"),
        up: in_mixer("up_proj"),
        down: in_mixer("down_proj"),
        router: in_mixer("gate"),
        selection_bias: in_mixer("gate.e_score_correction_bias"),
        expert_in: in_mixer("fc1_latent_proj"),
        expert_up: in_mixer("experts.{}.up_proj"),
        expert_down: in_mixer("experts.{}.down_proj"),
        expert_out: in_mixer("fc2_latent_proj"),
        shared_up: in_mixer("shared_experts.up_proj"),
        shared_down: in_mixer("shared_experts.down_proj"),
        final_norm: "norm_f".into(),
        ..names
    }
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let kinds = layer_kinds(config)?;
    let mut spec = config.decoder_spec_of(kinds.len() as u64)?;
    spec.ropes.clear();
    (spec.activation, spec.gate) = match config.optional_text("mlp_hidden_act") {
        Some("relu2") => (Activation::Relu, FeedForwardGate::Own),
        _ => (config.activation("mlp_hidden_act")?, FeedForwardGate::None),
    };
    // `time_step_min` is a bound of the steps with which training begins.
    let mamba = config.mamba2(0)?;
    for (layer, kind) in spec.layers.iter_mut().zip(&kinds) {
        (layer.mixer, layer.feed_forward) = match kind {
            0 => (Mixer::Mamba2(mamba), FeedForward::None),
            1 => (Mixer::Attention, FeedForward::None),
            2 => (Mixer::None, FeedForward::Dense),
            _ => (Mixer::None, FeedForward::Experts),
        };
        layer.rope = None;
    }
    if kinds.contains(&3) {
        let normalize = config.bool_or("norm_topk_prob", true)?;
        let mut moe = config.moe("moe_intermediate_size", normalize)?;
        moe.scoring = ExpertScoring::Sigmoid;
        moe.selection_bias = true;
        moe.scale = config.f32_or("routed_scaling_factor", 1.0)?;
        moe.latent_size = config.optional_u64("moe_latent_size")?;
        moe.shared = Some(SharedExpert {
            intermediate_size: config.u64("moe_shared_expert_intermediate_size")?,
            gated: false,
        });
        if !kinds.contains(&2) {
            spec.intermediate_size = moe.intermediate_size;
        }
        spec.moe = Some(moe);
        glm4_moe::set_groups(&mut spec, config, 2)?;
    }
    Ok(spec)
}

/// Returns what each layer is: the index of one of the first four kinds.
fn layer_kinds(config: &HfConfig) -> Result<Vec<usize>, ArchitectureError> {
    if let Some(kinds) = config.layer_types(&KINDS, 0)? {
        return Ok(kinds.into_iter().map(|kind| kind % LETTERS.len()).collect());
    }
    let key = "hybrid_override_pattern";
    let pattern = config.optional_text(key).unwrap_or("ME*-");
    let kind_of = |letter: char| {
        let error = || {
            config.error(format!(
                "`{key}` has {letter:?}; M, E, * and - are supported"
            ))
        };
        LETTERS.find(letter).ok_or_else(error)
    };
    pattern.chars().map(kind_of).collect()
}
