//! What single fields, keys and tensors of checkpoints change in their specs.

use wisp_types::Encoding;
use wisp_weights::{
    Checkpoint,
    gguf::{GgufHeaderBuilder, Value},
};

use super::{ArchitectureError, ModelSpec};
use crate::spec::{ExpertGroups, ExpertScoring, Mamba2Spec};

/// Recognizes a `config.json` of a class with further fields.
fn from_config(class: &str, fields: &str) -> Result<ModelSpec, ArchitectureError> {
    ModelSpec::from_config(&format!(r#"{{"architectures": ["{class}"], {fields}}}"#))
}

/// Recognizes a GGUF file of a small model with further keys of its architecture and further tensors.
fn from_gguf(
    architecture: &str,
    keys: &[(&str, Value)],
    tensors: &[&str],
) -> Result<ModelSpec, ArchitectureError> {
    let sizes = [
        ("block_count", 2),
        ("context_length", 64),
        ("embedding_length", 32),
        ("feed_forward_length", 48),
        ("attention.head_count", 2),
    ];
    let sizes = sizes.map(|(key, size)| (key, Value::U32(size)));
    let mut header = GgufHeaderBuilder::default();
    header.key("general.architecture", Value::String(architecture.into()));
    for (key, value) in sizes.iter().chain(keys) {
        header.key(&format!("{architecture}.{key}"), value.clone());
    }
    let (shape, ggml_type) = ([1, 32], Encoding::F32.ggml_type().unwrap());
    let tensors = [&["token_embd.weight"][..], tensors].concat();
    for name in &tensors {
        header.tensor(name, ggml_type, &shape, 128);
    }
    let mut file = header.bytes();
    file.resize(file.len() + 128 * tensors.len(), 0);
    let checkpoint = Checkpoint::from_bytes("model.gguf", file).unwrap();
    ModelSpec::from_gguf(&checkpoint, "model.gguf")
}

/// Recognizes a GGUF file of DeepSeek's architecture with experts.
fn deepseek2(key: (&str, Value), tensors: &[&str]) -> Result<ModelSpec, ArchitectureError> {
    let sizes = [
        ("attention.kv_lora_rank", 16),
        ("attention.value_length", 16),
        ("expert_count", 4),
        ("expert_used_count", 2),
    ];
    let sizes = sizes.map(|(key, size)| (key, Value::U32(size)));
    from_gguf("deepseek2", &[&sizes[..], &[key]].concat(), tensors)
}

#[test]
fn decoders_that_are_not_causal_embed_whole_texts() {
    let keys = [
        ("attention.causal", Value::Bool(false)),
        ("pooling_type", Value::U32(3)),
    ];
    for (model, field) in [
        (
            from_config("Qwen2ForCausalLM", r#""is_causal": false"#),
            "`is_causal`",
        ),
        (from_gguf("qwen2", &keys, &[]), "`attention.causal`"),
    ] {
        let model = model.unwrap();
        assert!(!model.encoder().unwrap().1.causal);
        let error = model.decoder().unwrap_err().to_string();
        assert!(error.contains(&format!("{field} is false")), "{error}");
    }
    let causal = from_config("Qwen2ForCausalLM", r#""is_causal": true"#).unwrap();
    assert!(causal.decoder().is_ok());
}

#[test]
fn decoders_with_windows_or_a_head_must_be_causal() {
    for class in ["MistralForCausalLM", "Qwen3ForSequenceClassification"] {
        let error = from_config(class, r#""is_causal": false"#).unwrap_err();
        assert!(
            error.to_string().contains("`is_causal` is false"),
            "{error}"
        );
    }
}

#[test]
fn decoders_without_an_output_layer_embed_texts() {
    for class in [
        "LlamaModel",
        "MistralModel",
        "Gemma2Model",
        "Qwen2Model",
        "Qwen3Model",
    ] {
        let model = from_config(class, r#""num_hidden_layers": 2"#).unwrap();
        assert!(model.decoder().is_err(), "{class}");
        assert!(model.encoder().unwrap().1.causal, "{class}");
        assert!(model.spec.tied, "{class}");
        // transformers saves such models without a prefix.
        let prefix = model
            .tensor_names()
            .prefix(|name| name == "embed_tokens.weight");
        assert_eq!(prefix, "", "{class}");
    }
}

#[test]
fn rerankers_that_score_the_mean_of_tokens_are_refused() {
    let mean = r#""classifier_pooling": "mean""#;
    let error = from_config("ModernBertForSequenceClassification", mean).unwrap_err();
    assert!(
        error.to_string().contains("`classifier_pooling`"),
        "{error}"
    );
    // Without the head, the field means nothing.
    assert!(from_config("ModernBertModel", mean).is_ok());
}

#[test]
fn steps_of_nemotron_h_have_the_limits_of_time_step_limit() {
    let step_limit = |fields: &str| {
        let model = from_config("NemotronHForCausalLM", fields).unwrap();
        let mut layers = model.spec.layers.iter();
        let mamba = layers.find_map(|layer| layer.mixer.mamba2());
        mamba.unwrap().step_limit
    };
    assert_eq!(step_limit(r#""time_step_min": 0.1"#), Mamba2Spec::ANY_STEP);
    let limit = r#""time_step_min": 0.1, "time_step_limit": [0.5, Infinity]"#;
    assert_eq!(step_limit(limit), [0.5, f32::INFINITY]);
}

#[test]
fn experts_of_deepseek_without_a_gating_function_are_scored_by_their_bias() {
    let scoring = |gating: (&str, Value), tensors: &[&str]| {
        let model = deepseek2(gating, tensors).unwrap();
        model.spec.moe.unwrap().scoring
    };
    let bias = &["blk.1.exp_probs_b.bias"];
    let none = ("expert_weights_scale", Value::F32(1.0));
    assert_eq!(scoring(none.clone(), &[]), ExpertScoring::Softmax);
    assert_eq!(scoring(none, bias), ExpertScoring::Sigmoid);
    let gating = |number| ("expert_gating_func", Value::U32(number));
    assert_eq!(scoring(gating(0), bias), ExpertScoring::Sigmoid);
    assert_eq!(scoring(gating(1), bias), ExpertScoring::Softmax);
}

#[test]
fn growing_queries_of_latent_attention_are_refused() {
    let key = "attention.temperature_scale";
    let error = deepseek2((key, Value::F32(0.1)), &[]).unwrap_err();
    assert!(error.to_string().contains(key), "{error}");
    assert!(deepseek2((key, Value::F32(0.0)), &[]).is_ok());
}

#[test]
fn norms_of_low_ranks_have_an_epsilon_of_their_own() {
    let eps = |model: ModelSpec| {
        let spec = model.spec;
        [spec.norm.eps, spec.latent.unwrap().norm_eps]
    };
    let model = from_config("DeepseekV3ForCausalLM", r#""rms_norm_eps": 1e-3"#);
    assert_eq!(eps(model.unwrap()), [1e-3, 1e-6]);
    // GGUF has one for all norms.
    let key = ("attention.layer_norm_rms_epsilon", Value::F32(1e-3));
    assert_eq!(eps(deepseek2(key, &[]).unwrap()), [1e-3; 2]);
}

#[test]
fn experts_of_glm_may_be_in_groups() {
    let groups = |fields: &str| {
        let model = from_config("Glm4MoeForCausalLM", fields).unwrap();
        model.spec.moe.unwrap().groups
    };
    assert_eq!(groups(r#""n_group": 1"#), None);
    let expected = ExpertGroups {
        groups: 4,
        chosen: 3,
        best: 2,
    };
    let fields = r#""n_group": 4, "topk_group": 3"#;
    assert_eq!(groups(fields), Some(expected));
    let keys = [
        ("expert_count", 8),
        ("expert_used_count", 2),
        ("expert_group_count", 4),
        ("expert_group_used_count", 3),
    ];
    let keys = keys.map(|(key, number)| (key, Value::U32(number)));
    let model = from_gguf("glm4moe", &keys, &[]).unwrap();
    assert_eq!(model.spec.moe.unwrap().groups, Some(expected));
}

#[test]
fn layers_that_predict_further_tokens_are_left_out() {
    let keys = [("nextn_predict_layers", Value::U32(1))];
    let model = from_gguf("llama", &keys, &[]).unwrap();
    assert_eq!(model.spec.layers.len(), 1);
}

#[test]
fn experts_in_tensors_of_their_own_have_the_names_of_the_first_files() {
    let name_of = |tensors: &[&str]| {
        let model = from_gguf("llama", &[], tensors).unwrap();
        model.tensor_names().expert_down.to_string()
    };
    assert_eq!(name_of(&["blk.0.ffn_gate.0.weight"]), "blk.{}.ffn_down.{}");
    assert_eq!(name_of(&["blk.0.ffn_gate.weight"]), "blk.{}.ffn_down_exps");
}

#[test]
fn window_that_gguf_cannot_express_is_left_out() {
    let model = from_config("Gemma3TextModel", r#""sliding_window": 4294967295"#).unwrap();
    let keys = model.architecture.gguf_metadata(&model.spec);
    let mut keys = keys.iter().map(|(key, _)| *key);
    assert!(!keys.any(|key| key == "attention.sliding_window"));
}
