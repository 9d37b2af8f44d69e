//! Any text as the declaration of a custom op and, after a line of dashes, its kernel: no panic, and what
//! is read gives its kernel again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::extension::{Declaration, Extensions};

fuzz_target!(|text: &str| {
    let (declaration, wgsl) = text.split_once("\n---\n").unwrap_or((text, ""));
    let _ = Declaration::from_toml(declaration);
    if let Ok(extensions) = Extensions::from_source(declaration, wgsl) {
        for extension in extensions.iter() {
            extension.kernel().get().expect("it was checked");
        }
    }
});
