//! Adapters that cannot be loaded: each says why, with MAX's status, and none brings anything down.

use proptest::prelude::*;
use safetensors::tensor::TensorView;
use wisp_engine::pipelines::{AdapterFiles, LoraError, LoraStatus};

use super::*;

fn generator() -> TextGenerator {
    load(TestDevice::Host, &files(), limits())
}

/// Tensors by name: type, shape, bytes.
type Tensors = Vec<(String, Dtype, Vec<usize>, Vec<u8>)>;

fn file(tensors: &Tensors) -> Vec<u8> {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

fn name(module: &str, half: &str) -> String {
    format!("base_model.model.{module}.lora_{half}.weight")
}

const Q: &str = "model.layers.0.self_attn.q_proj";

fn zeros(name: String, shape: [usize; 2]) -> (String, Dtype, Vec<usize>, Vec<u8>) {
    (
        name,
        Dtype::F32,
        shape.to_vec(),
        vec![0; shape[0] * shape[1] * 4],
    )
}

/// An adapter of one module: in, out.
fn pair(module: &str, rank: usize, [rows, cols]: [usize; 2]) -> Tensors {
    vec![
        zeros(name(module, "A"), [rank, cols]),
        zeros(name(module, "B"), [rows, rank]),
    ]
}

fn open(config: serde_json::Value, tensors: &Tensors) -> Result<AdapterFiles, LoraError> {
    let mut all = json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8});
    for (key, value) in config.as_object().unwrap() {
        all[key] = value.clone();
    }
    AdapterFiles::from_bytes(&all.to_string(), file(tensors))
}

#[test]
fn what_does_not_fit_is_named() {
    let mut generator = generator();
    let square = [256, 256];
    let mut with_bias = pair(Q, 4, square);
    with_bias.push(zeros(format!("base_model.model.{Q}.bias"), [1, 256]));
    let mut magnitudes = pair(Q, 4, square);
    magnitudes.push(zeros(
        format!("base_model.model.{Q}.lora_magnitude_vector"),
        [1, 256],
    ));
    let integers = vec![
        (name(Q, "A"), Dtype::I32, vec![4, 256], vec![0; 4096]),
        zeros(name(Q, "B"), [256, 4]),
    ];
    let mut nan = pair(Q, 4, square);
    nan[1].3[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let mut large = pair(Q, 4, square);
    large[1].3[..4].copy_from_slice(&3e38f32.to_le_bytes());
    let no_root = vec![zeros(format!("{Q}.lora_A.weight"), [4, 256])];
    let twice = [
        pair(Q, 4, square),
        pair("layers.0.self_attn.q_proj", 4, square),
    ];
    let none = json!({});
    for (config, tensors, words) in [
        (
            &none,
            with_bias,
            "q_proj.bias is no half of a low-rank product",
        ),
        (
            &none,
            magnitudes,
            "lora_magnitude_vector is no half of a low-rank product",
        ),
        (
            &none,
            no_root,
            "expected names such as base_model.model.NAME.lora_A.weight",
        ),
        (&none, vec![], "has no tensors"),
        (
            &none,
            pair(Q, 4, square)[..1].to_vec(),
            "q_proj.lora_A.weight has no other half: base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight is missing",
        ),
        (
            &none,
            pair(Q, 4, square)[1..].to_vec(),
            "q_proj.lora_B.weight has no other half",
        ),
        (
            &none,
            pair(Q, 5, square),
            "q_proj.lora_A.weight has shape [5, 256], expected [4, 256]",
        ),
        (
            &none,
            pair(Q, 4, [256, 64]),
            "q_proj.lora_A.weight has shape [4, 64], expected [4, 256]",
        ),
        (
            &none,
            pair(Q, 4, [64, 256]),
            "q_proj.lora_B.weight has shape [64, 4], expected [256, 4]",
        ),
        (
            &none,
            pair("model.layers.3.self_attn.q_proj", 4, square),
            "model.layers.3.self_attn.q_proj cannot be adapted: the model has 3 layers",
        ),
        (
            &none,
            pair("lm_head", 4, [1024, 256]),
            "lm_head cannot be adapted: only layers.N.self_attn.q_proj, ",
        ),
        (
            &none,
            pair("model.layers.0.mlp.experts.1.up_proj", 4, square),
            "mlp.experts.1.up_proj cannot be adapted: only",
        ),
        (
            &none,
            pair("model.layers.99999999999999999999.mlp.up_proj", 4, square),
            "cannot be adapted",
        ),
        (&none, integers, "I32"),
        (
            &none,
            nan,
            "q_proj.lora_B.weight has numbers that are not finite",
        ),
        (
            &none,
            large,
            "q_proj.lora_B.weight has numbers that are not finite, or become so with its scale",
        ),
        (&none, twice.concat(), "is the same projection"),
        (
            &json!({"r": 17}),
            pair(Q, 17, square),
            "its rank is 17, and the highest that there is room for is 16 (--max-lora-rank)",
        ),
        (
            &json!({"r": 1_000_000}),
            pair(Q, 4, square),
            "its rank is 1000000",
        ),
        (
            &json!({"rank_pattern": {"q_proj": 5}}),
            pair(Q, 4, square),
            "has shape [4, 256], expected [5, 256]",
        ),
        (
            &json!({"fan_in_fan_out": true}),
            pair(Q, 4, square),
            "fan_in_fan_out is true, so its base model stores weights [in, out], but this one's are [out, in]",
        ),
    ] {
        let error = open(config.clone(), &tensors)
            .and_then(|files| generator.load_adapter("x", &files))
            .unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!(error.status(), LoraStatus::LoadInvalidAdapter, "{error}");
        assert!(!generator.lora_manager().unwrap().is_lora("x"));
    }
    let refused = open(json!({"use_dora": true}), &pair(Q, 4, square)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "adapter_config.json: use_dora is true: an adapter with DoRA's magnitudes is not supported"
    );
    assert_eq!(refused.status(), LoraStatus::LoadInvalidAdapter);
    // What was refused has left nothing behind.
    let files = open(none, &pair(Q, 4, square)).unwrap();
    let loaded = generator.load_adapter("x", &files);
    assert_eq!(LoraStatus::from(&loaded), LoraStatus::Success);
    let tokens = prompt(0, 9);
    let plain = logits(&mut generator, &tokens, None);
    assert_eq!(
        logits(&mut generator, &tokens, Some("x")),
        plain,
        "zeros add nothing"
    );
    let taken = generator.load_adapter("x", &files).unwrap_err();
    assert_eq!(taken.status(), LoraStatus::LoadNameExists);
    assert_eq!(
        taken.to_string(),
        "an adapter called \"x\" is already loaded: unload it first, or take another name"
    );
}

#[test]
fn without_room_there_are_none() {
    let limits = ModelLimits {
        max_num_loras: 0,
        ..limits()
    };
    let mut generator = load(TestDevice::Host, &files(), limits);
    let files = open(json!({}), &pair(Q, 4, [256, 256])).unwrap();
    let error = generator.load_adapter("x", &files).unwrap_err();
    assert_eq!(error.status(), LoraStatus::LoadError);
    assert!(
        error
            .to_string()
            .contains("loaded without room for adapters"),
        "{error}"
    );
    let error = generator.unload_adapter("x").unwrap_err();
    assert_eq!(error.status(), LoraStatus::UnloadNameNonexistent);
    assert_eq!(
        error.to_string(),
        "no adapter called \"x\" is loaded; none is loaded"
    );
    assert!(generator.adapter("x").is_err() && generator.lora_manager().is_none());
}

#[test]
fn paths_that_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let open = |path: &std::path::Path| AdapterFiles::open(path).unwrap_err();
    let is = |error: LoraError, status: LoraStatus, words: &str| {
        assert_eq!(error.status(), status, "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    is(
        open(&at("nowhere")),
        LoraStatus::LoadInvalidPath,
        "nowhere: it does not exist",
    );
    std::fs::write(at("file"), "").unwrap();
    is(
        open(&at("file")),
        LoraStatus::LoadInvalidPath,
        "it is no folder",
    );
    is(
        open(folder.path()),
        LoraStatus::LoadInvalidPath,
        "adapter_config.json is missing",
    );
    let (adapter, _) = &adapters()[1];
    adapter.write(folder.path());
    AdapterFiles::open(folder.path()).unwrap();
    std::fs::write(at("adapter_config.json"), "{\"r\": 3").unwrap();
    is(
        open(folder.path()),
        LoraStatus::LoadInvalidAdapter,
        "adapter_config.json: it is no JSON",
    );
    std::fs::write(at("adapter_config.json"), " ".repeat(2 << 20)).unwrap();
    is(
        open(folder.path()),
        LoraStatus::LoadInvalidAdapter,
        "which no configuration is",
    );
    std::fs::write(at("adapter_config.json"), [0xff, 0xfe]).unwrap();
    is(
        open(folder.path()),
        LoraStatus::LoadInvalidAdapter,
        "adapter_config.json: ",
    );
    std::fs::remove_file(at("adapter_model.safetensors")).unwrap();
    std::fs::write(at("adapter_model.bin"), "").unwrap();
    is(
        open(folder.path()),
        LoraStatus::LoadInvalidPath,
        "adapter_model.safetensors is missing",
    );
}

/// Wherever a file ends too early, and whatever byte of its header is another: an error or an adapter,
/// no panic.
#[test]
fn damaged_files() {
    let (adapter, dtype) = &adapters()[1];
    let (config, weights) = (adapter.config.to_string(), adapter.weights(*dtype));
    let header = 8 + u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let generator = std::cell::RefCell::new(generator());
    let try_load = |weights: Vec<u8>| {
        let mut generator = generator.borrow_mut();
        let loaded = AdapterFiles::from_bytes(&config, weights)
            .and_then(|files| generator.load_adapter("x", &files));
        if loaded.is_ok() {
            generator.unload_adapter("x").unwrap();
        }
        loaded
    };
    for len in (0..header).step_by(7).chain([header, weights.len() - 1]) {
        let error = try_load(weights[..len].to_vec()).unwrap_err();
        assert_eq!(
            error.status(),
            LoraStatus::LoadInvalidAdapter,
            "{len}: {error}"
        );
    }
    proptest!(ProptestConfig::with_cases(200), |(at in 0..header, byte: u8)| {
        let mut weights = weights.clone();
        weights[at] = byte;
        let _ = try_load(weights);
    });
}
