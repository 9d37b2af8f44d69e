//! Adapters that cannot be loaded: errors name the reason, with MAX's status.

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

/// The two tensors of one module, all zeros; `[rows, cols]` is the shape of its weight.
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

/// An adapter that is refused: fields of its configuration, its tensors, and words of the error.
type Refused = (serde_json::Value, Tensors, &'static str);

/// Asserts that loading each adapter fails with its words and leaves nothing behind.
#[track_caller]
fn assert_refused(adapters: Vec<Refused>) {
    let mut generator = generator();
    for (config, tensors, words) in adapters {
        let error = open(config, &tensors)
            .and_then(|files| generator.load_adapter("x", &files))
            .unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!(error.status(), LoraStatus::LoadInvalidAdapter, "{error}");
        assert!(!generator.lora_manager().unwrap().is_lora("x"));
    }
}

const SQUARE: [usize; 2] = [256, 256];

#[test]
fn tensors_outside_of_low_rank_products_are_refused() {
    let with = |name: &str| {
        let mut tensors = pair(Q, 4, SQUARE);
        tensors.push(zeros(format!("base_model.model.{Q}.{name}"), [1, 256]));
        tensors
    };
    let none = || json!({});
    assert_refused(vec![
        (
            none(),
            with("bias"),
            "q_proj.bias is not half of a low-rank product",
        ),
        (
            none(),
            with("lora_magnitude_vector"),
            "lora_magnitude_vector is not half of a low-rank product",
        ),
        (
            none(),
            vec![zeros(format!("{Q}.lora_A.weight"), [4, 256])],
            "expected names such as base_model.model.NAME.lora_A.weight",
        ),
        (none(), vec![], "has no tensors"),
        (
            none(),
            pair(Q, 4, SQUARE)[..1].to_vec(),
            "q_proj.lora_A.weight has no other half: base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight is missing",
        ),
        (
            none(),
            pair(Q, 4, SQUARE)[1..].to_vec(),
            "q_proj.lora_B.weight has no other half",
        ),
    ]);
}

#[test]
fn shapes_and_modules_that_do_not_fit_are_refused() {
    let twice = [
        pair(Q, 4, SQUARE),
        pair("layers.0.self_attn.q_proj", 4, SQUARE),
    ];
    let adapters: [(Tensors, &str); 8] = [
        (
            pair(Q, 5, SQUARE),
            "q_proj.lora_A.weight has shape [5, 256], expected [4, 256]",
        ),
        (
            pair(Q, 4, [256, 64]),
            "q_proj.lora_A.weight has shape [4, 64], expected [4, 256]",
        ),
        (
            pair(Q, 4, [64, 256]),
            "q_proj.lora_B.weight has shape [64, 4], expected [256, 4]",
        ),
        (
            pair("model.layers.3.self_attn.q_proj", 4, SQUARE),
            "model.layers.3.self_attn.q_proj cannot be adapted: the model has 3 layers",
        ),
        (
            pair("lm_head", 4, [1024, 256]),
            "lm_head cannot be adapted: only layers.N.self_attn.q_proj, ",
        ),
        (
            pair("model.layers.0.mlp.experts.1.up_proj", 4, SQUARE),
            "mlp.experts.1.up_proj cannot be adapted: only",
        ),
        (
            pair("model.layers.99999999999999999999.mlp.up_proj", 4, SQUARE),
            "cannot be adapted",
        ),
        (twice.concat(), "is the same projection"),
    ];
    let adapters = adapters.map(|(tensors, words)| (json!({}), tensors, words));
    assert_refused(adapters.into());
}

#[test]
fn types_and_values_that_are_not_numbers_are_refused() {
    let integers = vec![
        (name(Q, "A"), Dtype::I32, vec![4, 256], vec![0; 4096]),
        zeros(name(Q, "B"), [256, 4]),
    ];
    let with_first = |value: f32| {
        let mut tensors = pair(Q, 4, SQUARE);
        tensors[1].3[..4].copy_from_slice(&value.to_le_bytes());
        tensors
    };
    assert_refused(vec![
        (json!({}), integers, "I32"),
        (
            json!({}),
            with_first(f32::NAN),
            "q_proj.lora_B.weight has weights that are not finite",
        ),
        (
            json!({}),
            with_first(3e38),
            "q_proj.lora_B.weight has weights that are not finite, or become so with the adapter's scale",
        ),
    ]);
}

#[test]
fn configurations_that_do_not_fit_are_refused() {
    assert_refused(vec![
        (
            json!({"r": 17}),
            pair(Q, 17, SQUARE),
            "its rank is 17, and the highest that there is room for is 16 (`max_lora_rank`)",
        ),
        (
            json!({"r": 1_000_000}),
            pair(Q, 4, SQUARE),
            "its rank is 1000000",
        ),
        (
            json!({"rank_pattern": {"q_proj": 5}}),
            pair(Q, 4, SQUARE),
            "has shape [4, 256], expected [5, 256]",
        ),
        (
            json!({"fan_in_fan_out": true}),
            pair(Q, 4, SQUARE),
            "fan_in_fan_out is true, so its base model stores weights [in, out], but this one's are [out, in]",
        ),
    ]);
    let refused = open(json!({"use_dora": true}), &pair(Q, 4, SQUARE)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "adapter_config.json: use_dora is true: an adapter with DoRA's magnitudes is not supported"
    );
    assert_eq!(refused.status(), LoraStatus::LoadInvalidAdapter);
}

#[test]
fn adapter_of_zeros_loads_after_a_refused_one_and_changes_nothing() {
    let mut generator = generator();
    let refused = open(json!({"r": 17}), &pair(Q, 17, SQUARE)).unwrap();
    generator.load_adapter("x", &refused).unwrap_err();
    let files = open(json!({}), &pair(Q, 4, SQUARE)).unwrap();
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
fn adapters_need_a_model_with_room_for_them() {
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
fn wrong_paths_and_files_are_named() {
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
        "it is not a folder",
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
        "adapter_config.json: it is not JSON",
    );
    std::fs::write(at("adapter_config.json"), " ".repeat(5 << 20)).unwrap();
    is(
        open(folder.path()),
        LoraStatus::LoadInvalidAdapter,
        "a configuration has at most",
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

/// Truncated files, and files with another byte in the header, give an error or an adapter, never a
/// panic.
#[test]
fn damaged_files_do_not_panic() {
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
