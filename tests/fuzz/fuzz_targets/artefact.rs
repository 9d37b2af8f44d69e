//! Any bytes as a compiled model, and as the contents of one with the header and checksum that it should
//! have: no panic, and what is read is written as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use wisp_engine::session::CompiledModule;

/// Bytes of the header before the contents' length.
const HEADER: usize = 60;

fuzz_target!(|contents: &[u8]| {
    let _ = CompiledModule::from_bytes(contents);
    let empty = CompiledModule::default().to_bytes().expect("nothing can be written");
    let mut file = empty[..HEADER].to_vec();
    file.extend((contents.len() as u64).to_le_bytes());
    file.extend(contents);
    let checksum = Sha256::digest(&file);
    file.extend(checksum);
    if let Ok(module) = CompiledModule::from_bytes(&file) {
        let again = module.to_bytes().expect("what was read can be written");
        assert_eq!(CompiledModule::from_bytes(&again).expect("it is whole"), module);
    }
});
