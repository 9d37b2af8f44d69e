//! Rewrites models with their weights as plain floats.

use wisp_engine::weights::{Encoding, encodings, gguf::Gguf};

use crate::gguf_writer::GgufWriter;

/// Rewrites a GGUF file with every tensor decoded to F32.
///
/// # Panics
///
/// If the file is invalid or big-endian.
pub fn dequantize(file: &[u8]) -> Vec<u8> {
    change(file, |_, _| {})
}

/// Rewrites a GGUF file as [`dequantize`] does, and passes the name and values of each tensor to `change`.
///
/// # Panics
///
/// If the file is invalid or big-endian.
pub fn change(file: &[u8], mut change: impl FnMut(&str, &mut [f32])) -> Vec<u8> {
    let gguf = Gguf::parse(file).expect("a valid file");
    assert!(!gguf.big_endian, "a little-endian file");
    let mut writer = GgufWriter::new(3, false);
    for (key, value) in &gguf.metadata {
        if key != "general.alignment" {
            writer = writer.key(key, value.clone());
        }
    }
    for tensor in &gguf.tensors {
        let bytes = &file[tensor.offset as usize..][..tensor.len as usize];
        let cols = tensor.shape.last().copied().unwrap_or(1) as usize;
        let rows = tensor.shape.iter().product::<u64>() as usize / cols;
        let encoding = tensor.encoding().expect("a known encoding");
        let mut weights = encodings::dequantize(encoding, bytes, rows, cols).expect("whole rows");
        change(&tensor.name, &mut weights);
        let data: Vec<u8> = weights
            .iter()
            .flat_map(|weight| weight.to_le_bytes())
            .collect();
        writer = writer.tensor(&tensor.name, Encoding::F32, &tensor.shape, &data);
    }
    writer.write()
}
