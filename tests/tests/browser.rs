//! Writes the files that the browser tests load, with the results of native code. They go beside the kernel
//! records if `WISP_KERNEL_RECORDS` names a folder.

use std::path::Path;

use serde_json::json;
use wisp_engine::{
    device::Device,
    pipelines::{EncodeOptions, ModelFiles, ModelLimits, TextEncoder},
    session::InferenceSession,
};
use wisp_tests::{
    encoder::{self, write_json},
    kernel_records,
};

/// Writes an encoder to a folder, and the embeddings of some texts to `golden.json`.
fn write_encoder(folder: &Path) {
    encoder::bert(folder);
    let files = ModelFiles::open(folder).unwrap();
    let session = InferenceSession::new(Device::host(1).unwrap());
    let limits = ModelLimits {
        max_length: 24,
        ..ModelLimits::default()
    };
    let texts = ["the cat", "A kitten is sleeping.", "runs"];
    let mut encoder = TextEncoder::load_blocking(&session, &files, limits).unwrap();
    let options = EncodeOptions::default();
    let embeddings = encoder.encode_blocking(&texts, options).unwrap().vectors;
    let tokens = texts.map(|text| encoder.tokenizer().tokenize(text).unwrap().tokens);
    assert_ne!(embeddings[0], embeddings[2]);
    let golden = json!({ "texts": texts, "tokens": tokens, "embeddings": embeddings });
    write_json(folder, "golden.json", &golden);
}

#[test]
fn encoder_for_the_browser_is_written_with_its_embeddings() {
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = kernel_records::folder().unwrap_or_else(|| elsewhere.path().to_path_buf());
    let folder = folder.join("encoder");
    std::fs::create_dir_all(&folder).unwrap();
    write_encoder(&folder);
}
