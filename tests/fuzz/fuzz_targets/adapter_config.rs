//! Any text as an `adapter_config.json` beside weights without tensors: no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::AdapterFiles;

/// A safetensors file without tensors.
const NO_TENSORS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";

fuzz_target!(|text: &str| {
    if let Ok(adapter) = AdapterFiles::from_bytes(text, NO_TENSORS) {
        let _ = format!("{adapter:?}");
    }
});
