//! Falcon-H1: attention and Mamba 2 side by side in every layer, and factors on what goes into the parts of a layer and
//! on what comes out.

use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, LayerMultipliers, Mamba2Norm, Mixer, TensorNames},
};

pub(super) fn architecture() -> Architecture {
    Architecture::new("falcon_h1")
        .config_classes(["FalconH1ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 128000, "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "mamba_d_ssm": 1024,
            "mamba_n_heads": 128, "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4,
            "mamba_expand": 2, "mamba_norm_before_gate": true, "mamba_rms_norm": false}"#,
        )
        .tensor_names(TensorNames {
            mlp_norm: "layers.{}.pre_ff_layernorm".into(),
            gate: "layers.{}.feed_forward.gate_proj".into(),
            up: "layers.{}.feed_forward.up_proj".into(),
            down: "layers.{}.feed_forward.down_proj".into(),
            final_norm: "final_layernorm".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(from_config)
        .gguf("falcon-h1")
        .gguf_tensor_names(TensorNames {
            bare_mlp_norm: true,
            ..TensorNames::gguf().clone()
        })
        .gguf_scaled_weights()
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            let mamba = metadata.mamba2(spec.layers.len())?;
            for layer in &mut spec.layers {
                layer.mixer = Mixer::AttentionAndMamba2(mamba);
            }
            Ok(spec)
        })
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    let inner = match config.optional_u64("mamba_d_ssm")? {
        Some(inner) => inner,
        None => config.u64("mamba_expand")?.saturating_mul(spec.hidden_size),
    };
    let mut mamba = config.mamba2(inner)?;
    mamba.norm = match (
        config.bool_or("mamba_rms_norm", false)?,
        config.bool_or("mamba_norm_before_gate", false)?,
    ) {
        (false, _) => Mamba2Norm::None,
        (true, true) => Mamba2Norm::BeforeGate,
        (true, false) => Mamba2Norm::AfterGate,
    };
    mamba.multipliers = factors(config, "ssm_multipliers")?;
    let [gate, down] = factors(config, "mlp_multipliers")?;
    let mut factors = LayerMultipliers {
        attention_in: config.f32_or("attention_in_multiplier", 1.0)?,
        attention_out: config.f32_or("attention_out_multiplier", 1.0)?,
        mamba_in: config.f32_or("ssm_in_multiplier", 1.0)?,
        mamba_out: config.f32_or("ssm_out_multiplier", 1.0)?,
        gate,
        down,
    };
    let mut scale = config.f32_or("key_multiplier", 1.0)? / (spec.head_dim as f32).sqrt();
    // Without biases, factors on what a projection reads are factors on what it makes.
    if !config.bool_or("attention_bias", false)? {
        scale *= factors.attention_in * factors.attention_in;
        factors.attention_out *= factors.attention_in;
        factors.attention_in = 1.0;
    }
    if !config.bool_or("mamba_proj_bias", false)? {
        mamba.multipliers = mamba.multipliers.map(|factor| factor * factors.mamba_in);
        factors.mamba_in = 1.0;
    }
    spec.set_attention_scale(scale);
    spec.embedding_multiplier = config.f32_or("embedding_multiplier", 1.0)?;
    spec.logit_multiplier = config.f32_or("lm_head_multiplier", 1.0)?;
    spec.layer_multipliers = factors;
    for layer in &mut spec.layers {
        layer.mixer = Mixer::AttentionAndMamba2(mamba);
    }
    Ok(spec)
}

/// Returns `N` factors, all 1 if the field is missing.
fn factors<const N: usize>(config: &HfConfig, key: &str) -> Result<[f32; N], ArchitectureError> {
    let Some(numbers) = config.optional_numbers(key)? else {
        return Ok([1.0; N]);
    };
    let numbers: Vec<f32> = numbers.into_iter().map(|number| number as f32).collect();
    let wrong = |numbers: Vec<f32>| {
        let found = numbers.len();
        config.error(format!("`{key}` has {found} numbers, expected {N}"))
    };
    numbers.try_into().map_err(wrong)
}
