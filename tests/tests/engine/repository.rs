//! `HuggingFaceRepo` and the methods of `PipelineConfig`, which give the same answers for a repository on a
//! hub and for a local folder.

use std::path::Path;

use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;
use wisp_engine::{
    device::{Api, DeviceSpec},
    pipelines::{
        HuggingFaceRepo, PipelineConfig, RepoType,
        SupportedEncoding::{self, bfloat16, float32, q4_k, q6_k, q8_0},
        WeightDType,
        WeightsFormat::{self, Gguf, PyTorch, Safetensors},
        huggingface_repo::ignore_progress,
    },
    weights::WeightSource,
};
use wisp_tests::hub::Hub;

const TINY: &[u8] = include_bytes!("../../../native-demo/model/wisp-tiny.gguf");

/// A repository with weights in every format.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let zeros = vec![0; 2 * 4 * 2];
    let tensor = TensorView::new(Dtype::BF16, vec![2, 4], &zeros).expect("a tensor");
    let weights = safetensors::serialize([("w", tensor)], None).expect("safetensors");
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16",
        "max_position_embeddings": 100,
    });
    vec![
        ("config.json", config.to_string().into_bytes()),
        ("model.safetensors", weights),
        ("pytorch_model.bin", b"PK".to_vec()),
        ("tiny-Q4_K_M.gguf", TINY.to_vec()),
        ("tiny-Q8_0.gguf", TINY.to_vec()),
    ]
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files() {
        std::fs::write(folder.path().join(name), bytes).expect("a file");
    }
    folder
}

/// A hub with the same files, and a home directory for its client.
fn hub() -> (Hub, tempfile::TempDir) {
    let (hub, home) = (
        Hub::start(),
        tempfile::tempdir().expect("a temporary folder"),
    );
    for (name, bytes) in files() {
        hub.add("org/all", name, bytes);
    }
    (hub, home)
}

fn formats(found: &std::collections::BTreeMap<WeightsFormat, Vec<String>>) -> Vec<String> {
    let line =
        |(format, files): (&WeightsFormat, &Vec<String>)| format!("{format}: {}", files.join(" "));
    found.iter().map(line).collect()
}

/// Checks a repository of [`files`].
fn check(name: &str, kind: RepoType) {
    let repo = HuggingFaceRepo::open(name, "main", true, &ignore_progress).expect("a repository");
    assert_eq!(repo.repo_id(), name);
    assert_eq!(repo.repo_type(), kind);
    assert!(repo.trust_remote_code());
    assert_eq!(repo.info().commit.is_some(), kind == RepoType::Online);
    assert_eq!(repo.info().files.len(), 5);
    assert_eq!(repo.formats_available(), [Gguf, Safetensors, PyTorch]);
    assert_eq!(
        formats(&repo.weight_files()),
        [
            "gguf: tiny-Q4_K_M.gguf tiny-Q8_0.gguf",
            "safetensors: model.safetensors",
            "pytorch: pytorch_model.bin"
        ]
    );
    assert!(repo.file_exists("config.json") && !repo.file_exists("absent"));
    assert_eq!(repo.size_of("tiny-Q8_0.gguf"), Some(TINY.len() as u64));
    assert_eq!(repo.size_of("absent"), None);
    let encodings = repo
        .supported_encodings(&ignore_progress)
        .expect("encodings");
    assert_eq!(encodings, [bfloat16, q8_0, q4_k]);
    for (file, encoding) in [
        ("tiny-Q4_K_M.gguf", Some(q4_k)),
        ("model.safetensors", Some(bfloat16)),
        ("pytorch_model.bin", Some(bfloat16)),
        ("config.json", None),
    ] {
        let found = repo.encoding_for_file(file, &ignore_progress).ok();
        assert_eq!(found, encoding, "{file}");
    }
    let of = |encoding, format, alternate: Option<SupportedEncoding>| {
        let found = repo.files_for_encoding(encoding, format, alternate, &ignore_progress);
        formats(&found.expect("files"))
    };
    assert_eq!(of(q8_0, None, None), ["gguf: tiny-Q8_0.gguf"]);
    assert_eq!(
        of(bfloat16, Some(Safetensors), None),
        ["safetensors: model.safetensors"]
    );
    assert_eq!(of(bfloat16, None, None).len(), 2);
    assert_eq!(of(q6_k, None, None), [""; 0]);
    assert_eq!(of(q6_k, None, Some(q4_k)), ["gguf: tiny-Q4_K_M.gguf"]);
    assert_eq!(of(q8_0, Some(PyTorch), None), [""; 0]);
    let path = repo
        .download("tiny-Q8_0.gguf", false, &ignore_progress)
        .expect("a file");
    assert_eq!(std::fs::read(path).expect("the file"), TINY);
    let error = repo
        .download("absent", false, &ignore_progress)
        .expect_err("no such file");
    assert!(error.to_string().contains("tiny-Q8_0.gguf"), "{error}");
}

fn config(model: &str) -> PipelineConfig {
    let mut config = PipelineConfig::default();
    config.huggingface_repo_id = Some(model.into());
    config
}

/// Checks configurations that name a repository of [`files`].
fn check_config(name: &str) {
    let mut gguf = config(&format!("{name}:q8_0"));
    assert_eq!(gguf.short_name(), format!("{name}:q8_0"));
    assert_eq!(
        gguf.weights_format(&ignore_progress).expect("a format"),
        Gguf
    );
    assert_eq!(
        gguf.weights_size(&ignore_progress).expect("a size"),
        TINY.len() as u64
    );
    let repo = gguf
        .huggingface_weights_repo(&ignore_progress)
        .expect("a repository");
    assert_eq!(repo.expect("one").repo_id(), name);
    let paths = gguf.download_weights(&ignore_progress).expect("paths");
    assert!(
        paths.len() == 1 && paths[0].ends_with("tiny-Q8_0.gguf"),
        "{paths:?}"
    );
    assert!(
        gguf.load_weights(&ignore_progress)
            .expect("weights")
            .gguf()
            .is_some()
    );
    assert_eq!(gguf.architecture, None);
    gguf.update_architecture(&ignore_progress)
        .expect("an architecture");
    assert_eq!(gguf.architecture.as_deref(), Some("llama"));

    let mut floats = config(name);
    assert_eq!(
        floats.weights_format(&ignore_progress).expect("a format"),
        Safetensors
    );
    let json = floats
        .huggingface_config(&ignore_progress)
        .expect("a file")
        .expect("JSON");
    assert_eq!(json["max_seq_len"], 100);
    floats.max_length = 50;
    let json = floats
        .huggingface_config(&ignore_progress)
        .expect("a file")
        .expect("JSON");
    assert_eq!(json["max_seq_len"], 50);

    // Local weights replace those of the repository.
    let own = tempfile::tempdir().expect("a temporary folder");
    let path = own.path().join("own.gguf");
    std::fs::write(&path, TINY).expect("a file");
    floats.weight_path = vec![path.to_str().expect("UTF-8").into()];
    assert_eq!(
        floats.download_weights(&ignore_progress).expect("paths"),
        [path]
    );
    let files = floats.open(&ignore_progress).expect("a model");
    assert_eq!(files.model_spec.architecture.name(), "llama");
    floats.quantization_encoding = Some(q6_k);
    let error = floats
        .open(&ignore_progress)
        .expect_err("another encoding")
        .to_string();
    assert!(
        error.contains("own.gguf") || error.contains(name),
        "{error}"
    );
    assert!(error.contains("q6_k"), "{error}");
}

#[test]
fn a_local_folder_answers_as_a_repository() {
    let folder = folder();
    let name = folder.path().to_str().expect("UTF-8");
    check(name, RepoType::Local);
    check_config(name);
}

/// Runs itself again as a child process, whose environment names the hub.
#[test]
fn a_hub_repository_answers_as_its_folder_does() {
    const ROLE: &str = "WISP_TEST_HUB";
    if std::env::var_os(ROLE).is_some() {
        check("org/all", RepoType::Online);
        check_config("org/all");
        return;
    }
    let (hub, home) = hub();
    let mut child = std::process::Command::new(std::env::current_exe().expect("this test"));
    child
        .args([
            "--exact",
            "repository::a_hub_repository_answers_as_its_folder_does",
        ])
        .env(ROLE, "1");
    let output = hub
        .configure(&mut child, home.path())
        .output()
        .expect("the child");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("1 passed"), "{shown}");
    assert!(!hub.requests("GET /org/all/resolve").is_empty());
}

#[test]
fn several_safetensors_paths_are_one_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = PipelineConfig::default();
    for name in ["a", "b"] {
        let zeros = vec![0; 16];
        let tensor = TensorView::new(Dtype::F32, vec![2, 2], &zeros).expect("a tensor");
        let bytes = safetensors::serialize([(name, tensor)], None).expect("safetensors");
        let path = folder.path().join(format!("{name}.safetensors"));
        std::fs::write(&path, bytes).expect("a file");
        config
            .weight_path
            .push(path.to_str().expect("UTF-8").into());
    }
    let checkpoint = config.load_weights(&ignore_progress).expect("weights");
    assert_eq!(checkpoint.tensors().len(), 2);
    assert_eq!(SupportedEncoding::of(&checkpoint), Some(float32));
    assert!(
        PipelineConfig::default()
            .load_weights(&ignore_progress)
            .is_err()
    );
    config.weight_path.push("absent.safetensors".into());
    assert!(config.load_weights(&ignore_progress).is_err());
    // A model that is a file is no repository with further files.
    config.huggingface_repo_id = config.weight_path.first().cloned();
    let error = config
        .load_weights(&ignore_progress)
        .unwrap_err()
        .to_string();
    assert!(error.contains("absent.safetensors"), "{error}");
}

#[test]
fn devices_dtypes_and_memory_follow_the_configuration() {
    let mut config = PipelineConfig::default();
    config.device_specs = vec![DeviceSpec::Adapter {
        api: Api::Host,
        index: 0,
    }];
    config.quantization_encoding = Some(q4_k);
    config.threads = 1;
    let device = config.device_blocking().expect("the host");
    assert_eq!(device.info().api, Api::Host);
    assert_eq!(
        pollster::block_on(config.devices())
            .expect("the host")
            .len(),
        1
    );
    assert_eq!(config.dtype(), Some(WeightDType::U8));
    config.quantization_encoding = None;
    assert_eq!(config.dtype(), None);
    if Path::new("/proc/meminfo").exists() {
        let mut half = config.clone();
        half.gpu_memory_utilization = 0.45;
        let (all, half) = (config.memory(&device), half.memory(&device));
        let ratio = half.expect("Linux tells") as f64 / all.expect("Linux tells") as f64;
        assert!((0.4..0.6).contains(&ratio), "{ratio}");
    }
}
