//! Any text as a TOML file of settings: no panic, and settings that are read make a configuration.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::{PipelineConfig, config::Layer};

fuzz_target!(|text: &str| {
    if let Ok(layer) = Layer::toml("settings.toml", text) {
        let config = PipelineConfig::from_layers(&[&layer]).expect("each setting was checked");
        let _ = config.check();
        let _ = config.check_supported();
    }
});
