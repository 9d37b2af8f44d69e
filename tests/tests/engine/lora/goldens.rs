//! Adapters of every architecture, those with fused projections included, in both formats.

use std::path::Path;

use wisp_tests::{
    goldens::{CAUSAL, NOT_IN_GGUF, directory},
    lora, on_every_device,
    program::{assert_rows_close, run as wisp},
    sample,
};

use super::*;

fn logits_of(
    place: TestDevice,
    model: &Path,
    adapter: Option<&Adapter>,
    tokens: &[u32],
) -> Vec<Vec<f32>> {
    let files = ModelFiles::open(model).unwrap();
    let limits = ModelLimits {
        max_num_loras: adapter.map_or(0, |_| 2),
        max_lora_rank: 7,
        ..limits()
    };
    let mut generator = load(place, &files, limits);
    let Some(adapter) = adapter else {
        return logits(&mut generator, tokens, None);
    };
    // Not in the first slot.
    generator
        .load_adapter("other", &adapter.files(Dtype::F32))
        .unwrap();
    generator
        .load_adapter("x", &adapter.files(Dtype::F32))
        .unwrap();
    logits(&mut generator, tokens, Some("x"))
}

/// In GGUF the weights of Falcon-H1 are multiplied by factors, which those of an adapter are not.
fn assert_scaled_weights_are_refused(place: TestDevice, gguf: &Path, adapter: &Adapter) {
    let files = ModelFiles::open(gguf).unwrap();
    let limits = ModelLimits {
        max_num_loras: 1,
        max_lora_rank: 7,
        ..limits()
    };
    let loaded = load(place, &files, limits).load_adapter("x", &adapter.files(Dtype::F32));
    let error = loaded.unwrap_err().to_string();
    assert!(error.contains("load the model from safetensors"), "{error}");
}

fn adapters_match_merged_checkpoints(place: TestDevice) {
    for name in CAUSAL {
        let Some(directory) = directory(name) else {
            continue;
        };
        // The kernels of adapters are the same for all of them.
        let is_taken =
            place == TestDevice::Host || sample::has(&format!("an adapter of {name}"), 0, 2);
        if !is_taken || !sample::runs_on(name, place) {
            continue;
        }
        let transposed = *name == "gpt2";
        let mut modules = lora::modules(&directory, transposed);
        // Latent attention has other projections.
        modules.retain(|(module, _)| !name.starts_with("deepseek") || !module.ends_with("q_proj"));
        // Layers that read the keys and values of others have queries alone, and values of others are keys. Adapters
        // change neither.
        let without: &[&str] = match *name {
            "gemma3n" | "gemma4" => &["layers.3.", "layers.4."],
            "gemma4-moe" => &["layers.1."],
            _ => &[],
        };
        modules.retain(|(module, _)| {
            let is_without = without.iter().any(|layer| module.contains(layer));
            !is_without || !module.ends_with("q_proj") && !module.ends_with("k_proj")
        });
        assert!(!modules.is_empty(), "{name}");
        let config = json!({"r": 5, "lora_alpha": 4, "fan_in_fan_out": transposed});
        let adapter = Adapter::random(9, &modules, config, |_| (5, 4.0 / 5.0));
        let folder = tempfile::tempdir().unwrap();
        adapter.merge(&directory, transposed, folder.path());
        let tokens = prompt(0, 30)
            .iter()
            .map(|token| token % 60)
            .collect::<Vec<_>>();
        let expected = logits_of(place, folder.path(), None, &tokens);
        let got = logits_of(place, &directory, Some(&adapter), &tokens);
        let off = assert_rows_close(&format!("{name} on {place:?}"), &got, &expected);
        let plain = logits_of(place, &directory, None, &tokens);
        let change = got.iter().flatten().zip(plain.iter().flatten());
        let change = change.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!(
            "{name} on {place:?}: {} modules, within {off:.1e}, changed by {change:.2}",
            modules.len()
        );
        assert!(change > 0.1, "{name}: {change}");
        // The same in GGUF, which stores rows in other orders.
        if place == TestDevice::Host && !NOT_IN_GGUF.contains(name) {
            let gguf = folder.path().join("model.gguf");
            let [from, to] = [&directory, &gguf].map(|path| path.to_str().unwrap());
            wisp(["convert", "--model", from, "--out", to, "--encoding", "f32"]).succeeded();
            if *name == "falcon-h1" {
                assert_scaled_weights_are_refused(place, &gguf, &adapter);
                continue;
            }
            let got = logits_of(place, &gguf, Some(&adapter), &tokens);
            assert_rows_close(&format!("{name} in GGUF"), &got, &expected);
        }
    }
}

on_every_device!(by case: adapters_match_merged_checkpoints);
