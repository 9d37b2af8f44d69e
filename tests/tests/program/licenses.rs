//! `wisp licenses`.

use wisp_tests::program::run;

#[test]
fn licenses_of_libraries_are_printed() {
    let printed = run(["licenses"]).succeeded().stdout;
    assert!(printed.starts_with("Wisp is licensed"), "{printed}");
    for library in ["wgpu", "tokenizers", "safetensors"] {
        let line = format!("\n  {library} ");
        assert!(printed.contains(&line), "no {library}");
    }
    assert!(printed.contains("THE SOFTWARE IS PROVIDED \"AS IS\""));
    assert!(printed.contains("TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"));
}
