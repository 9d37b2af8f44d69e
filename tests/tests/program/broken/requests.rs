//! Invalid requests to an intact model.

use super::*;

#[test]
fn tokens_outside_the_vocabulary_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, sound()).unwrap();
    for token in ["16", "4294967295"] {
        let line = run([
            "generate",
            "--device",
            "host",
            "--tokens",
            token,
            "--model",
            path.to_str().unwrap(),
        ])
        .failed(token);
        assert!(line.contains(token) && line.contains("16"), "{line}");
        let out = folder.path().join("logits");
        run([
            "logits",
            "--device",
            "host",
            "--tokens",
            token,
            "--out",
            out.to_str().unwrap(),
            "--model",
            path.to_str().unwrap(),
        ])
        .failed(token);
    }
}

#[test]
fn paths_without_a_model_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    generate(&folder.path().join("absent.gguf")).failed("no such file");
    generate(folder.path()).failed("an empty directory");
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, sound()).unwrap();
    generate(&file.join("below")).failed("a file taken for a directory");
    let directory = folder.path().join("directory.gguf");
    std::fs::create_dir(&directory).unwrap();
    generate(&directory).failed("a directory called .gguf");
}
