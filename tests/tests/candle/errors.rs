//! Models that cannot run through candle are refused with the reason, and nothing panics.

use serde_json::{Value, json};
use wisp_engine::pipelines::{
    PipelineError, PipelineModel,
    candle::{CandleError, CandleFiles, CandleModel},
};

use super::{
    load,
    tiny::{NAMES, Tiny, tiny},
    written,
};

/// Returns the error of a changed checkpoint.
#[track_caller]
fn error(name: &str, change: impl FnOnce(&mut Tiny)) -> String {
    let mut checkpoint = tiny(name);
    change(&mut checkpoint);
    load(&checkpoint).unwrap_err().to_string()
}

fn set(key: &'static str, value: Value) -> impl FnOnce(&mut Tiny) {
    move |tiny| tiny.config[key] = value
}

/// A tensor that is missing, has another shape or is not used is an error, and is named.
#[test]
fn missing_misshapen_and_unused_tensors_are_named() {
    for name in NAMES {
        let whole = tiny(name);
        for tensor in whole.tensors.keys() {
            // The embedding takes the place of Qwen 2's output layer where that is missing.
            if !(*name == "Qwen2ForCausalLM" && tensor == "lm_head.weight") {
                let missing = error(name, |tiny| drop(tiny.tensors.remove(tensor)));
                let part = tensor
                    .rsplit_once("embeddings")
                    .map_or(tensor.as_str(), |(a, _)| a);
                assert!(missing.contains(part), "{name} without {tensor}: {missing}");
            }
            let grow = |tiny: &mut Tiny| tiny.tensors.get_mut(tensor).unwrap()[0] += 1;
            error(name, grow);
        }
        let extra = error(name, |tiny| {
            tiny.tensors.insert("model.surplus.weight".into(), vec![3]);
        });
        assert!(extra.contains("model.surplus.weight"), "{name}: {extra}");
    }
}

/// Sizes are checked against the checkpoint before anything is allocated by them.
#[test]
fn sizes_beyond_the_checkpoint_are_refused() {
    for name in NAMES {
        for key in [
            "hidden_size",
            "vocab_size",
            "num_hidden_layers",
            "num_attention_heads",
        ] {
            if *name == "MambaForCausalLM" && key == "num_attention_heads" {
                continue;
            }
            for wrong in [
                json!(0),
                json!(-1),
                json!(u64::MAX),
                json!(1u64 << 40),
                json!("24"),
            ] {
                error(name, set(key, wrong));
            }
        }
    }
    let error = error("PhiForCausalLM", set("partial_rotary_factor", json!(1e9)));
    assert!(error.contains("a share"), "{error}");
}

/// Rotations are computed for the context that is used, not for the one that a model claims.
#[test]
fn huge_context_lengths_are_limited() {
    let mut checkpoint = tiny("StableLmForCausalLM");
    checkpoint.config["max_position_embeddings"] = json!(u64::MAX);
    assert_eq!(load(&checkpoint).unwrap().limits().max_length, 4096);
}

#[test]
fn values_that_candle_does_not_support_are_named() {
    for (name, key, value) in [
        ("LlamaForCausalLM", "attention_bias", json!(true)),
        ("FalconForCausalLM", "alibi", json!(true)),
        ("StableLmForCausalLM", "use_parallel_residual", json!(true)),
        ("MambaForCausalLM", "state_size", json!(32)),
        ("MistralForCausalLM", "sliding_window", json!(16)),
        (
            "LlamaForCausalLM",
            "rope_scaling",
            json!({"rope_type": "yarn", "factor": 4.0}),
        ),
        (
            "PhiForCausalLM",
            "rope_scaling",
            json!({"type": "linear", "factor": 4.0}),
        ),
    ] {
        let error = error(name, |tiny| {
            let fields = tiny.config.as_object_mut().unwrap();
            fields.remove("rope_parameters");
            fields.insert(key.into(), value);
        });
        assert!(error.contains(name) && error.contains(key), "{error}");
    }
}

#[test]
fn unknown_architectures_are_refused_with_the_supported_ones() {
    for names in [json!(["NobodyForCausalLM"]), json!([]), json!(7)] {
        let error = error("LlamaForCausalLM", set("architectures", names));
        assert!(error.contains("StableLmForCausalLM"), "{error}");
    }
}

#[test]
fn gguf_is_refused() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../native-demo/model/wisp-tiny.gguf"
    );
    let error = CandleFiles::open(path.as_ref()).unwrap_err();
    assert!(
        matches!(error, PipelineError::Candle(CandleError::Gguf { .. })),
        "{error}"
    );
}

#[test]
fn sequences_beyond_context_or_vocabulary_are_refused() {
    let folder = written(&tiny("HeliumForCausalLM"));
    let files = CandleFiles::open(folder.path()).unwrap();
    assert!(matches!(
        CandleModel::load(&files, Some(65)),
        Err(PipelineError::Config(_))
    ));
    let mut model = CandleModel::load(&files, Some(4)).unwrap();
    assert!(matches!(model.forward(&[], 0), Err(PipelineError::Batch)));
    assert!(matches!(
        model.forward(&[1; 5], 0),
        Err(PipelineError::Batch)
    ));
    assert!(matches!(
        model.forward(&[61], 0),
        Err(PipelineError::UnknownToken {
            token: 61,
            vocab_size: 61
        })
    ));
    model.forward(&[1; 4], 0).unwrap();
    assert!(matches!(model.forward(&[1], 4), Err(PipelineError::Batch)));
}
