//! The seeds of the fuzz targets, which are generated here and stored in `tests/fuzz/corpus`.

use std::fs;
use std::path::Path;

use super::{pytorch::fixture, samples};

/// Returns the seeds: target, file name, contents.
fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    vec![
        ("gguf", "v1.gguf", samples::tiny(1, false)),
        ("gguf", "v2.gguf", samples::tiny(2, false)),
        ("gguf", "v3.gguf", samples::tiny(3, false)),
        ("gguf", "big-endian.gguf", samples::tiny(3, true)),
        ("gguf_model", "llama.gguf", samples::tiny_metadata()),
        (
            "safetensors",
            "tiny.safetensors",
            samples::tiny_safetensors(),
        ),
        ("quantized", "gptq", samples::tiny_gptq()),
        ("quantized", "nvfp4", samples::tiny_nvfp4()),
        ("pytorch", "protocol2.bin", fixture("protocol2.bin")),
        ("pytorch", "protocol4.bin", fixture("protocol4.bin")),
        ("pytorch", "legacy.bin", fixture("legacy.bin")),
    ]
}

/// `WISP_BLESS=1` writes the seeds instead of comparing them.
#[test]
fn seeds_are_current() {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus"));
    for (target, name, bytes) in seeds() {
        let path = corpus.join(target).join(name);
        if std::env::var_os("WISP_BLESS").is_some() {
            fs::create_dir_all(corpus.join(target)).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "{}", path.display());
    }
}
