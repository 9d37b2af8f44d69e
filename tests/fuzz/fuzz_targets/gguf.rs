//! Any bytes, whole and in pieces: no panic, the same answer, tensors inside the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::weights::FormatError;
use wisp_engine::weights::gguf::{Gguf, GgufReader, Limits, Progress};

fn in_pieces(file: &[u8], size: usize) -> Result<Gguf, FormatError> {
    let mut reader = GgufReader::new(Limits {
        file_len: Some(file.len() as u64),
        ..Limits::default()
    });
    for piece in file.chunks(size) {
        if let Progress::Done(gguf) = reader.push(piece)? {
            return Ok(*gguf);
        }
    }
    Err(reader.truncated())
}

fuzz_target!(|file: &[u8]| {
    let whole = Gguf::parse(file);
    let pieces = in_pieces(file, 1 + file.len() % 17);
    assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    if let Ok(gguf) = whole {
        for tensor in &gguf.tensors {
            let end = tensor.offset.checked_add(tensor.len);
            assert!(end.is_some_and(|end| end <= file.len() as u64));
        }
    }
});
