//! A pipeline's compiled models: from a file, timed, drawn.

use wisp_tests::{
    bundled, on_every_device,
    program::{TestDevice, run},
};

use super::generate;

fn a_pipeline_runs_from_its_file(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.wisp");
    let path = path.to_str().unwrap();
    let made = generate(place, &["--save-to-serialized-model-path", path]).json();
    let loaded = generate(place, &["--serialized-model-path", path]).json();
    assert_eq!(loaded["tokens"], made["tokens"]);
    let programs = bundled::programs(place);
    assert_eq!(made["timings"]["start"]["programs_compiled"], programs);
    assert_eq!(loaded["timings"]["start"]["programs_compiled"], 0);
    // Other sizes of symbolic dimensions need no other program.
    let flags = [
        "--serialized-model-path",
        path,
        "--max-cache-batch-size",
        "3",
    ];
    assert_eq!(generate(place, &flags).json()["tokens"], made["tokens"]);
    for (flags, words) in [
        (["--page-size", "64"], "kv_cache_page_size is 32, here 64"),
        (["--max-length", "9"], "max_length"),
    ] {
        let flags = [&["--serialized-model-path", path], &flags[..]].concat();
        let line = generate(place, &flags).failed("other limits");
        assert!(
            line.contains(words) && line.contains("compile the model again"),
            "{line}"
        );
    }
    let mut bytes = std::fs::read(path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(path, bytes).unwrap();
    let line = generate(place, &["--serialized-model-path", path]).failed("damaged");
    assert!(line.contains("checksum"), "{line}");
}
on_every_device!(a_pipeline_runs_from_its_file);

#[test]
fn graphs_are_drawn_and_printed() {
    let dot = run(["info", "--graph"]).succeeded().stdout;
    assert!(
        dot.starts_with("digraph \"decoder\" {\n") && dot.ends_with("}\n"),
        "{dot}"
    );
    assert!(
        dot.contains("rms_norm / output_norm.weight F32[256]"),
        "{dot}"
    );
    let text = run(["info", "--graph-text"]).succeeded().stdout;
    assert!(text.starts_with("graph decoder {\n"), "{text}");
    assert!(text.contains("  output logits = "), "{text}");
}
