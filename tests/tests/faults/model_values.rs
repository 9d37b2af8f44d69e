//! Numbers in model files and limits with which nothing can be computed.

use serde_json::{Value, json};
use wisp_engine::{
    pipelines::{ModelFiles, ModelLimits, PipelineError, TextGenerator, architectures::ModelSpec},
    weights::gguf::{self, Gguf},
};
use wisp_tests::{bundled, fault, program::TestDevice};

/// Replaces the bytes of a number of the built-in model's metadata.
fn with_value(key: &str, found: &[u8], value: &[u8]) -> Vec<u8> {
    let mut file = std::fs::read(bundled::folder().join("wisp-tiny.gguf")).unwrap();
    let name = [&(key.len() as u64).to_le_bytes()[..], key.as_bytes()].concat();
    let mut places = file.windows(name.len());
    let key_at = places.position(|bytes| bytes == name);
    // A type of four bytes follows the key.
    let at = key_at.unwrap() + name.len() + 4;
    assert_eq!(&file[at..at + found.len()], found, "{key}");
    file[at..at + value.len()].copy_from_slice(value);
    Gguf::parse(&file).unwrap();
    file
}

/// Returns the number of a key.
fn number(key: &str) -> Vec<u8> {
    let file = std::fs::read(bundled::folder().join("wisp-tiny.gguf")).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let pair = gguf.metadata.iter().find(|(name, _)| *name == key);
    match pair.map(|(_, value)| value) {
        Some(gguf::Value::F32(value)) => value.to_le_bytes().into(),
        Some(gguf::Value::U32(value)) => value.to_le_bytes().into(),
        other => panic!("{key}: {other:?}"),
    }
}

/// Returns the message of the program for the built-in model with another number.
#[track_caller]
fn refused(key: &str, value: [u8; 4]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, with_value(key, &number(key), &value)).unwrap();
    let path = path.to_str().unwrap();
    let run = fault::run_limited([
        "generate", "--device", "host", "-m", path, "--tokens", "1,2", "-n", "3",
    ]);
    run.failed(key)
}

#[test]
fn epsilon_that_is_no_small_number_is_refused() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1e-5, 1e30] {
        let message = refused(
            "llama.attention.layer_norm_rms_epsilon",
            value.to_le_bytes(),
        );
        assert!(message.contains("epsilon is"), "{value}: {message}");
    }
}

#[test]
fn rotary_base_that_is_no_base_is_refused() {
    for value in [f32::NAN, f32::INFINITY, 0.0, -1e4, 1e-30] {
        let message = refused("llama.rope.freq_base", value.to_le_bytes());
        assert!(message.contains("rotary base is"), "{value}: {message}");
    }
}

#[test]
fn number_of_layers_is_told_as_it_is_in_the_file() {
    for layers in [0, 4097, u32::MAX] {
        let message = refused("llama.block_count", layers.to_le_bytes());
        assert!(
            message.contains(&format!("layers is {layers}")),
            "{message}"
        );
    }
}

#[test]
fn counts_of_heads_that_do_not_fit_are_refused() {
    for key in [
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
    ] {
        for heads in [0, 3, u32::MAX] {
            let message = refused(key, heads.to_le_bytes());
            assert!(!message.contains("matmul"), "{key} {heads}: {message}");
        }
    }
    for value in [0, u32::MAX] {
        refused("llama.context_length", value.to_le_bytes());
        refused("llama.embedding_length", value.to_le_bytes());
        refused("llama.feed_forward_length", value.to_le_bytes());
    }
}

/// Sets a limit.
type Set = fn(&mut ModelLimits);

fn load(limits: ModelLimits) -> Result<TextGenerator, PipelineError> {
    let files: ModelFiles = bundled::files();
    TextGenerator::load_blocking(&bundled::session(TestDevice::Host), &files, limits)
}

#[test]
fn limit_of_zero_is_named() {
    let zero: [(&str, Set); 3] = [
        ("page_size", |limits| limits.page_size = 0),
        ("max_batch", |limits| limits.max_batch = 0),
        ("max_step_tokens", |limits| limits.max_step_tokens = 0),
    ];
    for (name, set) in zero {
        let mut limits = ModelLimits::default();
        set(&mut limits);
        let error = load(limits).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}` is 0")), "{error}");
    }
}

#[test]
fn huge_limits_are_errors_or_reduced() {
    let huge: [(Set, Option<&str>); 6] = [
        (|limits| limits.max_batch = u64::MAX, Some("`max_batch` is")),
        (|limits| limits.pages = u64::MAX, Some("`pages` is")),
        (|limits| limits.max_logit_rows = u64::MAX, Some("may take")),
        (|limits| limits.max_step_tokens = u64::MAX, Some("may take")),
        (|limits| limits.max_steps = u64::MAX, Some("`max_steps` is")),
        (|limits| limits.page_size = u32::MAX, None),
    ];
    for (number, (set, expected)) in (0..).zip(huge) {
        let result = fault::call_limited(move || {
            let mut limits = ModelLimits {
                memory: 1 << 28,
                ..ModelLimits::default()
            };
            set(&mut limits);
            load(limits).map(|_| ()).map_err(|error| error.to_string())
        });
        match (&result, expected) {
            (Err(error), Some(expected)) => assert!(error.contains(expected), "{number}: {error}"),
            _ => assert_eq!(result.is_ok(), expected.is_none(), "{number}: {result:?}"),
        }
    }
}

#[test]
fn kv_cache_of_terabytes_is_refused_with_a_batch_and_a_length_that_help() {
    let limits = ModelLimits {
        max_length: 512,
        max_batch: 60_000,
        memory: 1 << 26,
        ..ModelLimits::default()
    };
    let error = load(limits).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("`max_cache_batch_size`"), "{message}");
    assert!(message.contains("`max_length`"), "{message}");
}

/// Returns the error of a `config.json` of a class with one field replaced, if there is one.
fn config_error(class: &str, field: &str, value: Value) -> Option<String> {
    let config = json!({ "architectures": [class], field: value });
    match ModelSpec::from_config(&config.to_string()) {
        Ok(model) => model.spec.check().err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn numbers_of_a_config_with_which_nothing_can_be_computed_are_refused() {
    for (class, field) in [
        ("LlamaForCausalLM", "rms_norm_eps"),
        ("LlamaForCausalLM", "rope_theta"),
        ("LlamaForCausalLM", "partial_rotary_factor"),
        ("Gemma2ForCausalLM", "query_pre_attn_scalar"),
        ("Gemma2ForCausalLM", "attn_logit_softcapping"),
        ("Gemma2ForCausalLM", "final_logit_softcapping"),
        ("GraniteForCausalLM", "embedding_multiplier"),
        ("GraniteForCausalLM", "residual_multiplier"),
        ("GraniteForCausalLM", "attention_multiplier"),
        ("GraniteForCausalLM", "logits_scaling"),
    ] {
        for value in [-1.0, 1e39, -1e300] {
            let error = config_error(class, field, value.into());
            assert!(error.is_some(), "{class}: {field} = {value}");
        }
    }
    for field in [
        "residual_multiplier",
        "attention_multiplier",
        "logits_scaling",
    ] {
        let error = config_error("GraniteForCausalLM", field, 0.into());
        assert!(error.is_some(), "{field} = 0");
    }
    assert_eq!(
        config_error("Gemma2ForCausalLM", "final_logit_softcapping", 0.into()),
        None
    );
}

#[test]
fn rope_scalings_with_which_nothing_can_be_computed_are_refused() {
    let scalings = [
        json!({"rope_type": "linear"}),
        json!({"rope_type": "dynamic"}),
        json!({"rope_type": "llama3", "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 8192}),
        json!({"rope_type": "yarn", "original_max_position_embeddings": 2048}),
    ];
    for mut scaling in scalings {
        for factor in [0.0, -2.0, 1e300] {
            scaling["factor"] = factor.into();
            let error = config_error("LlamaForCausalLM", "rope_scaling", scaling.clone());
            assert!(error.is_some(), "{scaling}");
        }
        scaling["factor"] = 2.0.into();
        let error = config_error("LlamaForCausalLM", "rope_scaling", scaling.clone());
        assert_eq!(error, None, "{scaling}");
    }
}

#[test]
fn number_of_layers_of_a_config_is_told_as_it_is() {
    for layers in [0, 4097, u32::MAX] {
        let error = config_error("LlamaForCausalLM", "num_hidden_layers", layers.into());
        assert!(error.unwrap().contains(&format!("layers is {layers}")));
    }
}
