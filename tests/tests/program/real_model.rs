//! A model of a size that people use, on adapters of both classes and on the host. `WISP_TEST_MODEL` names it: any model
//! that Wisp reads, such as SmolLM2-135M-Instruct in GGUF.

use std::path::PathBuf;

use serde_json::Value;
use wisp_tests::program::{TestDevice, assert_rows_close, generate, logits, run};

const PROMPT: &str = "Gravity is the force that pulls things towards each other. The Moon";
const NEW_TOKENS: usize = 24;

fn model() -> Option<PathBuf> {
    let model = std::env::var_os("WISP_TEST_MODEL").map(PathBuf::from);
    if model.is_none() {
        eprintln!("skipped: WISP_TEST_MODEL names no model");
    }
    model
}

fn tokens(model: &str) -> Vec<u32> {
    let args = ["tokenize", "--model", model, "--text", PROMPT, "--json"];
    let json: Value = run(args).json();
    serde_json::from_value(json["tokens"].clone()).expect("tokens")
}

#[test]
fn real_model_matches_the_host_on_vulkan_in_both_classes() {
    let Some(model) = model() else { return };
    let prompt = tokens(model.to_str().expect("a path in UTF-8"));
    let expected_logits = logits(Some(&model), TestDevice::Host, &prompt, &[]);
    let expected = generate(Some(&model), TestDevice::Host, &prompt, NEW_TOKENS, &[]);
    for place in [
        TestDevice::Vulkan,
        TestDevice::VulkanGpu,
        TestDevice::VulkanBaseline,
    ] {
        if !place.is_available() {
            return;
        }
        let got = logits(Some(&model), place, &prompt, &[]);
        let off = assert_rows_close(&format!("{place:?}"), &got, &expected_logits);
        println!("{place:?}: within {off:.1e}");
        let got = generate(Some(&model), place, &prompt, NEW_TOKENS, &[]);
        assert_eq!(got.tokens, expected.tokens, "{place:?}: {}", got.text);
    }
}
