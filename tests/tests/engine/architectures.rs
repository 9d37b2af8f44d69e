//! Architectures registered by a program load, run and convert like built-in ones.

use std::{ops::ControlFlow, path::Path};

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};
use wisp_engine::{
    device::Device,
    pipelines::{
        Architecture, ModelFiles, ModelLimits,
        architectures::{self, ArchitectureError, RegisterError},
        config::PipelineConfig,
        convert::{ConvertOptions, to_gguf},
        register_architecture,
        spec::TensorNames,
        text_generation::TextGenerator,
    },
    session::InferenceSession,
};
use wisp_tests::kernels::noise;

const VOCAB: usize = 24;
const HIDDEN: usize = 32;
const INNER: usize = 48;
const KV: usize = 16;
const LAYERS: usize = 2;

/// The tensors of a Llama: the name in Llama, the name in this test, and the shape.
fn tensors() -> Vec<(String, String, Vec<usize>)> {
    let mut tensors = vec![
        (
            "model.embed_tokens".to_string(),
            "transformer.tokens".to_string(),
            vec![VOCAB, HIDDEN],
        ),
        ("model.norm".into(), "transformer.norm".into(), vec![HIDDEN]),
        ("lm_head".into(), "to_logits".into(), vec![VOCAB, HIDDEN]),
    ];
    for layer in 0..LAYERS {
        for (llama, own, shape) in [
            ("input_layernorm", "norm_in", vec![HIDDEN]),
            ("self_attn.q_proj", "query", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", "key", vec![KV, HIDDEN]),
            ("self_attn.v_proj", "value", vec![KV, HIDDEN]),
            ("self_attn.o_proj", "mix", vec![HIDDEN, HIDDEN]),
            ("post_attention_layernorm", "norm_mid", vec![HIDDEN]),
            ("mlp.gate_proj", "gate", vec![INNER, HIDDEN]),
            ("mlp.up_proj", "up", vec![INNER, HIDDEN]),
            ("mlp.down_proj", "down", vec![HIDDEN, INNER]),
        ] {
            tensors.push((
                format!("model.layers.{layer}.{llama}"),
                format!("transformer.block.{layer}.{own}"),
                shape,
            ));
        }
    }
    tensors
}

/// Writes the same random weights with the names of Llama or of this test.
fn write(folder: &Path, config: &Value, own_names: bool) {
    let data: Vec<(String, Vec<usize>, Vec<u8>)> = (0u32..)
        .zip(tensors())
        .map(|(seed, (llama, own, shape))| {
            let values = noise(seed, shape.iter().product());
            let bytes = values.iter().flat_map(|x| (0.3 * x).to_le_bytes());
            let name = if own_names { own } else { llama };
            (format!("{name}.weight"), shape, bytes.collect())
        })
        .collect();
    let views = data.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
        (name, view)
    });
    std::fs::create_dir_all(folder).unwrap();
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

fn llama_config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
    })
}

/// The same configuration for another class. The width has another name, and the number of layers is
/// missing, because the architecture has a default.
fn own_config(class: &str) -> Value {
    let mut config = llama_config();
    let fields = config.as_object_mut().unwrap();
    fields.insert("architectures".into(), json!([class]));
    let width = fields.remove("hidden_size").unwrap();
    fields.insert("model_width".into(), width);
    fields.remove("num_hidden_layers");
    config
}

/// Llama with other tensor names and another field for the width.
fn own_architecture(name: &'static str, class: &'static str) -> Architecture {
    let mut names = TensorNames::hugging_face();
    names.prefixes = vec!["transformer.".into()];
    names.embedding = "tokens".into();
    names.attention_norm = "block.{}.norm_in".into();
    names.q = "block.{}.query".into();
    names.k = "block.{}.key".into();
    names.v = "block.{}.value".into();
    names.o = "block.{}.mix".into();
    names.mlp_norm = "block.{}.norm_mid".into();
    names.gate = "block.{}.gate".into();
    names.up = "block.{}.up".into();
    names.down = "block.{}.down".into();
    names.output = "to_logits".into();
    Architecture::new(name)
        .config_classes([class])
        .config_defaults(format!(r#"{{"num_hidden_layers": {LAYERS}}}"#))
        .config_key("hidden_size", "model_width")
        .tensor_names(names)
}

/// The logits of some tokens on the host.
fn logits(files: &ModelFiles) -> Vec<f32> {
    let session = InferenceSession::new(Device::host(1).unwrap());
    let limits = ModelLimits {
        max_length: 16,
        max_logit_rows: 8,
        ..ModelLimits::default()
    };
    let mut generator = TextGenerator::load_blocking(&session, files, limits).unwrap();
    let mut logits = Vec::new();
    let tokens = [3, 14, 15, 9, 2, 6];
    let piece = |piece: &[f32]| logits.extend_from_slice(piece);
    pollster::block_on(generator.logits(&tokens, None, piece)).unwrap();
    assert_eq!(logits.len(), tokens.len() * VOCAB);
    assert!(logits.iter().all(|logit| logit.is_finite()));
    logits
}

#[test]
fn registered_architecture_loads_and_converts_like_a_builtin_one() {
    register_architecture(own_architecture("test_loads", "TestLoadsForCausalLM")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("llama"), &llama_config(), false);
    write(&at("own"), &own_config("TestLoadsForCausalLM"), true);
    let llama = ModelFiles::open(&at("llama")).unwrap();
    let own = ModelFiles::open(&at("own")).unwrap();
    assert_eq!(own.model_spec.architecture.name(), "test_loads");
    assert_eq!(own.model_spec.spec, llama.model_spec.spec);
    let expected = logits(&llama);
    assert_eq!(logits(&own), expected);

    // A configuration can require the architecture.
    let mut config = PipelineConfig::default();
    config.huggingface_repo_id = Some(at("own").to_str().unwrap().into());
    for (name, is_accepted) in [
        ("test_loads", true),
        ("TestLoadsForCausalLM", true),
        ("llama", false),
    ] {
        config.architecture = Some(name.into());
        let opened = config.open(&|_| ControlFlow::Continue(()));
        assert_eq!(opened.is_ok(), is_accepted, "{name}");
    }

    // Both convert to the same Llama.
    let keep_going = &mut |_, _| ControlFlow::Continue(());
    let mut convert = |files: &ModelFiles, name: &str| {
        let out = at(name);
        let report = to_gguf(files, &out, ConvertOptions::default(), keep_going).unwrap();
        assert_eq!(report.total.tensors, tensors().len() as u64);
        ModelFiles::open(&out).unwrap()
    };
    let (llama, own) = (convert(&llama, "llama.gguf"), convert(&own, "own.gguf"));
    assert_eq!(own.model_spec.architecture.name(), "llama");
    let converted = logits(&own);
    assert_eq!(converted, logits(&llama));
    for (a, b) in converted.iter().zip(&expected) {
        assert!((a - b).abs() <= 1e-4, "{a} and {b}");
    }
}

#[test]
fn registered_gguf_architecture_is_read_back_under_its_name() {
    let architecture = own_architecture("test_gguf", "TestGgufForCausalLM").gguf("test-gguf");
    register_architecture(architecture).unwrap();
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &own_config("TestGgufForCausalLM"), true);
    let own = ModelFiles::open(folder.path()).unwrap();
    let out = folder.path().join("own.gguf");
    let keep_going = &mut |_, _| ControlFlow::Continue(());
    to_gguf(&own, &out, ConvertOptions::default(), keep_going).unwrap();
    let converted = ModelFiles::open(&out).unwrap();
    assert_eq!(converted.model_spec.architecture.name(), "test_gguf");
    // Rows of queries and keys keep their order, so results are equal bit for bit.
    assert_eq!(logits(&converted), logits(&own));
}

#[test]
fn registered_architectures_are_listed_and_found() {
    let before = architectures::all().len();
    let derived = architectures::find("mistral")
        .unwrap()
        .derived("test_listed")
        .config_classes(["TestListedForCausalLM"]);
    register_architecture(derived.clone()).unwrap();
    let all = architectures::all();
    assert!(all.len() > before);
    assert!(all.iter().any(|one| one.name() == "test_listed"));
    assert_eq!(all[0].name(), "llama");
    let again = register_architecture(derived).unwrap_err();
    let name = "test_listed".to_string();
    assert_eq!(again, RegisterError::NameTaken { name });
}

#[test]
fn encoder_spec_of_a_decoder_architecture_is_refused() {
    let bert = architectures::find("bert").unwrap();
    let wrong = Architecture::new("test_kind")
        .config_classes(["TestKindModel"])
        .config_defaults(r#"{"num_hidden_layers": 1, "type_vocab_size": 2}"#)
        .spec_from_config(move |config| bert.read_config(config));
    register_architecture(wrong).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config = llama_config();
    config["architectures"] = json!(["TestKindModel"]);
    write(folder.path(), &config, false);
    let error = ModelFiles::open(folder.path()).unwrap_err();
    assert!(
        error.to_string().contains("registered as a decoder"),
        "{error}"
    );
    let wisp_engine::pipelines::ModelFilesError::Architecture(error) = error else {
        panic!("{error}");
    };
    assert!(matches!(error, ArchitectureError::WrongKind { .. }));
}
