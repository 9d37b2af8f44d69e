//! Comparison with `gguf-rs`, an independent reader and writer of GGUF, where it is right.
//!
//! Why it is the oracle and not the reader: it takes wrong sizes for BF16, IQ4_NL, MXFP4 and the integers,
//! refuses nested arrays, reads the dimensions of version 1 as 64-bit numbers (they have 32 bits), and
//! writes little-endian files only. The page of `wisp-weights` has the other reasons.

use std::fs;
use std::io::Cursor;

use gguf_rs::writer::{GGUFWriter, MetadataValue, TensorInfo, calculate_tensor_size};
use gguf_rs::{ByteOrder, GGUFContainer};
use wisp_engine::weights::gguf::{Array, Gguf, Value};
use wisp_engine::weights::{Checkpoint, Encoding};
use wisp_tests::shared::shared_data;

use super::samples;

/// Returns a value as `gguf-rs` represents it.
fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::U8(x) => (*x).into(),
        Value::I8(x) => (*x).into(),
        Value::U16(x) => (*x).into(),
        Value::I16(x) => (*x).into(),
        Value::U32(x) => (*x).into(),
        Value::I32(x) => (*x).into(),
        Value::F32(x) => (*x).into(),
        Value::Bool(x) => (*x).into(),
        Value::String(x) => x.as_str().into(),
        Value::U64(x) => (*x).into(),
        Value::I64(x) => (*x).into(),
        Value::F64(x) => (*x).into(),
        Value::Array(array) => match array {
            Array::U8(v) => v.clone().into(),
            Array::I8(v) => v.clone().into(),
            Array::U16(v) => v.clone().into(),
            Array::I16(v) => v.clone().into(),
            Array::U32(v) => v.clone().into(),
            Array::I32(v) => v.clone().into(),
            Array::F32(v) => v.clone().into(),
            Array::Bool(v) => v.clone().into(),
            Array::String(v) => v.iter().collect::<Vec<_>>().into(),
            Array::Array(v) => v
                .iter()
                .map(|inner| json(&Value::Array(inner.clone())))
                .collect::<Vec<_>>()
                .into(),
            Array::U64(v) => v.clone().into(),
            Array::I64(v) => v.clone().into(),
            Array::F64(v) => v.clone().into(),
        },
    }
}

/// Asserts that `gguf-rs` reads a file as we do.
fn compare(file: Vec<u8>) {
    let ours = Gguf::parse(&file).unwrap();
    let order = match ours.big_endian {
        false => ByteOrder::LE,
        true => ByteOrder::BE,
    };
    // It expects the position after the magic.
    let mut bytes = Cursor::new(file);
    bytes.set_position(4);
    let theirs = GGUFContainer::new(order, Box::new(bytes), u64::MAX)
        .decode()
        .unwrap();
    assert_eq!(theirs.get_version(), format!("v{}", ours.version));
    assert_eq!(theirs.alignment(), ours.alignment);
    assert_eq!(theirs.data_offset(), ours.data_offset);
    assert_eq!(theirs.metadata().len(), ours.metadata.len());
    for (key, value) in theirs.metadata() {
        assert_eq!(*value, json(&ours.metadata[key]), "{key}");
    }
    assert_eq!(theirs.tensors().len(), ours.tensors.len());
    for (theirs, tensor) in theirs.tensors().iter().zip(&ours.tensors) {
        assert_eq!(theirs.name, tensor.name);
        let dims: Vec<_> = tensor.shape.iter().rev().copied().collect();
        assert_eq!(theirs.shape, dims, "{}", tensor.name);
        assert_eq!(theirs.offset + ours.data_offset, tensor.offset);
        let encoding = tensor.encoding().unwrap();
        assert_eq!(Some(theirs.kind), encoding.ggml_type());
        if !WRONG_SIZE.contains(&encoding) {
            assert_eq!(theirs.size, tensor.len, "{encoding}");
        }
    }
}

/// The encodings for which `gguf-rs` 0.1.8 takes a wrong size.
const WRONG_SIZE: [Encoding; 3] = [Encoding::BF16, Encoding::IQ4_NL, Encoding::MXFP4];

#[test]
fn published_files_are_read_alike() {
    let Some(folder) = shared_data("models/stories260K") else {
        return;
    };
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "gguf")
        {
            compare(fs::read(path).unwrap());
        }
    }
}

#[test]
fn files_of_our_writer_are_read_alike() {
    for (version, big_endian) in [(2, false), (3, false), (3, true)] {
        let mut writer = wisp_tests::gguf_writer::GgufWriter::new(version, big_endian);
        for (key, value) in samples::values() {
            // It does not read nested arrays.
            if key != "arrays" {
                writer = writer.key(key, value);
            }
        }
        for encoding in Encoding::file_encodings() {
            let bytes = 2 * encoding.file_row_bytes(256).unwrap() as usize;
            writer = writer.tensor(encoding.name(), encoding, &[2, 256], &vec![1; bytes]);
        }
        compare(writer.write());
    }
}

#[test]
fn files_of_its_writer_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    for version in [2, 3] {
        let mut writer = GGUFWriter::new(&path, version).unwrap().with_alignment(64);
        writer.add_metadata("general.architecture", "llama");
        writer.add_metadata_f32("rate", 0.5);
        let tokens = ["<s>", "a"].map(|text| MetadataValue::String(text.into()));
        writer.add_metadata_array("tokens", tokens.to_vec());
        let encodings: Vec<_> = Encoding::file_encodings()
            .filter(|encoding| !WRONG_SIZE.contains(encoding))
            .collect();
        for encoding in &encodings {
            writer.add_tensor(TensorInfo {
                name: encoding.name().into(),
                shape: vec![256, 3],
                dtype: encoding.ggml_type().unwrap(),
            });
        }
        writer.write().unwrap();
        for (i, encoding) in encodings.iter().enumerate() {
            let bytes = 3 * encoding.file_row_bytes(256).unwrap() as usize;
            writer
                .write_tensor_data(i, &vec![i as u8 + 1; bytes])
                .unwrap();
        }
        writer.finalize().unwrap();
        let checkpoint = Checkpoint::open(&path).unwrap();
        let gguf = checkpoint.gguf().unwrap();
        assert_eq!((gguf.version, gguf.alignment), (version as u32, 64));
        assert_eq!(
            gguf.require::<&str>("general.architecture").unwrap(),
            "llama"
        );
        assert_eq!(gguf.require::<f32>("rate").unwrap(), 0.5);
        for (i, encoding) in encodings.iter().enumerate() {
            let tensor = checkpoint.require(encoding.name()).unwrap();
            assert_eq!(tensor.shape, [3, 256]);
            let bytes = checkpoint.bytes(&tensor.name, 0..tensor.len).unwrap();
            assert!(bytes.iter().all(|&byte| byte == i as u8 + 1), "{encoding}");
        }
    }
}

/// One of the reasons why Wisp reads and writes GGUF itself. When this fails, `gguf-rs` has been fixed.
#[test]
fn sizes_of_some_encodings_are_wrong() {
    for encoding in Encoding::file_encodings() {
        let tensor = TensorInfo {
            name: "w".into(),
            shape: vec![256],
            dtype: encoding.ggml_type().unwrap(),
        };
        let wrong = calculate_tensor_size(&tensor).ok() != encoding.file_row_bytes(256);
        assert_eq!(wrong, WRONG_SIZE.contains(&encoding), "{encoding}");
    }
}
