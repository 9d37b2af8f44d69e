//! Checkpoints that are stored in another way than most.

use std::path::Path;

use safetensors::SafeTensors;
use wisp_engine::pipelines::ModelFiles;
use wisp_tests::{
    goldens::{Golden, golden},
    program::{self, TestDevice},
};

/// Copies a checkpoint, with other names of its tensors; `None` leaves a tensor out.
fn with_names(from: &Path, to: &Path, name: impl Fn(&str) -> Option<String>) {
    std::fs::create_dir_all(to).expect("a folder");
    std::fs::copy(from.join("config.json"), to.join("config.json")).expect("a copy");
    let bytes = std::fs::read(from.join("model.safetensors")).expect("weights");
    let weights = SafeTensors::deserialize(&bytes).expect("weights");
    let tensors = weights
        .iter()
        .filter_map(|(old, view)| Some((name(old)?, view)));
    let path = to.join("model.safetensors");
    safetensors::serialize_to_file(tensors, None, &path).expect("weights");
}

/// The tied decoders of the shared data, with the names of their embeddings.
const TIED: [(&str, &str); 3] = [
    ("llama3-rope-tied", "model.embed_tokens.weight"),
    ("gemma2", "model.embed_tokens.weight"),
    ("gpt2", "transformer.wte.weight"),
];

#[test]
fn tied_checkpoints_that_store_only_the_output_layer_give_the_same_logits() {
    for (model, embedding) in TIED {
        let Some((source, golden)) = golden::<Golden>(model) else {
            return;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let twin = folder.path().join("twin");
        let mut renamed = std::cell::Cell::new(0);
        with_names(&source, &twin, |name| {
            let is_embedding = name == embedding || format!("transformer.{name}") == embedding;
            renamed.set(renamed.get() + u32::from(is_embedding));
            match (is_embedding, name) {
                (true, _) => Some("lm_head.weight".into()),
                (_, "lm_head.weight") => None,
                (_, name) => Some(name.into()),
            }
        });
        assert_eq!(*renamed.get_mut(), 1, "{model}: no tensor {embedding}");
        let logits =
            |path: &Path| program::logits(Some(path), TestDevice::Host, &golden.tokens, &[]);
        assert_eq!(logits(&twin), logits(&source), "{model}");
        // A conversion writes the one tensor under the name that every reader knows.
        let out = folder.path().join("twin.gguf");
        let (twin, out_name) = (twin.to_str().expect("text"), out.to_str().expect("text"));
        let report = program::run(["convert", "--json", "--model", twin, "--out", out_name]).json();
        let notes = report["report"]["notes"].to_string();
        assert!(!notes.contains("left out"), "{notes}");
        program::assert_rows_close(model, &logits(&out), &golden.logits);
    }
}

#[test]
fn checkpoints_that_are_not_tied_need_both_layers() {
    let Some((source, _)) = golden::<Golden>("llama") else {
        return;
    };
    for missing in ["lm_head.weight", "model.embed_tokens.weight"] {
        let folder = tempfile::tempdir().expect("a folder");
        with_names(&source, folder.path(), |name| {
            (name != missing).then(|| name.into())
        });
        let path = folder.path().to_str().expect("text");
        let args = [
            "generate", "--model", path, "--device", "host", "--tokens", "1",
        ];
        let message = wisp_tests::fault::run_limited(args).failed(missing);
        assert!(message.contains(missing), "{message}");
    }
}

#[test]
fn tied_checkpoint_without_either_layer_names_the_embedding() {
    let Some((source, _)) = golden::<Golden>("llama3-rope-tied") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let embedding = "model.embed_tokens.weight";
    with_names(&source, folder.path(), |name| {
        (name != embedding).then(|| name.into())
    });
    let files = ModelFiles::open(folder.path()).expect("its configuration is whole");
    drop(files);
    let path = folder.path().to_str().expect("text");
    let args = [
        "generate", "--model", path, "--device", "host", "--tokens", "1",
    ];
    let message = wisp_tests::fault::run_limited(args).failed("no embedding");
    assert!(message.contains(embedding), "{message}");
}
