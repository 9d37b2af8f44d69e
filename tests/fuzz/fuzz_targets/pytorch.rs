//! Any bytes as a file: no panic, tensors inside the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::weights::pytorch;

fuzz_target!(|file: &[u8]| {
    for tensor in pytorch::parse(file).unwrap_or_default() {
        let end = tensor.offset.checked_add(tensor.len);
        assert!(end.is_some_and(|end| end <= file.len() as u64));
    }
});
