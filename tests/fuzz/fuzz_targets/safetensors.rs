//! Any bytes as a file and as an index: no panic, tensors inside the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::weights::safetensors::{Safetensors, SafetensorsIndex};

fuzz_target!(|file: &[u8]| {
    if let Ok(parsed) = Safetensors::parse(file, Some(file.len() as u64)) {
        for tensor in &parsed.tensors {
            let end = tensor.offset.checked_add(tensor.len);
            assert!(end.is_some_and(|end| end <= file.len() as u64));
        }
    }
    let _ = SafetensorsIndex::parse("index", file);
});
