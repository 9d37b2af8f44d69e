//! Any text as a `config.json`: no panic, and a spec whose parts can be named and checked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::ModelSpec;

fuzz_target!(|text: &str| {
    if let Ok(model) = ModelSpec::from_config(text) {
        let is_sound = model.spec.check().is_ok();
        assert!(model.decoder().is_ok() != model.encoder().is_ok());
        assert!(!is_sound || !model.spec.layers.is_empty());
        let _ = format!("{:?}", model.tensor_names());
    }
});
