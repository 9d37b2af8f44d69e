//! The reader of GGUF headers.

use std::sync::LazyLock;

use proptest::prelude::*;
use wisp_engine::weights::gguf::{Array, Gguf, GgufReader, Limits, Progress, Strings, Value};
use wisp_engine::weights::{Encoding, FormatError, StoredEncoding};
use wisp_tests::gguf_writer::GgufWriter;

use super::samples;

/// Reads a file in pieces. The reader knows the file's length only if `file_len` is given.
fn read_pieces<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    file_len: Option<u64>,
) -> Result<Gguf, FormatError> {
    let mut reader = GgufReader::new(Limits {
        file_len,
        ..Limits::default()
    });
    for piece in pieces {
        if let Progress::Done(gguf) = reader.push(piece)? {
            return Ok(*gguf);
        }
    }
    Err(reader.truncated())
}

fn assert_same(a: &Gguf, b: &Gguf) {
    assert_eq!(a.version, b.version);
    assert_eq!(a.big_endian, b.big_endian);
    assert_eq!(a.metadata, b.metadata);
    assert_eq!(a.tensors, b.tensors);
    assert_eq!(a.data_offset, b.data_offset);
}

#[test]
fn files_of_every_version_and_byte_order_are_read_as_written() {
    for version in 1..=3 {
        for big_endian in [false, true] {
            let file = samples::everything(version, big_endian);
            let gguf = Gguf::parse(&file).unwrap();
            assert_eq!((gguf.version, gguf.big_endian), (version, big_endian));
            assert_eq!(gguf.alignment, 64);
            for (key, value) in samples::values() {
                assert_eq!(gguf.metadata[key], value, "{key}");
            }
            assert_eq!(gguf.tensors.len(), 25);
            for (tensor, encoding) in gguf.tensors.iter().zip(Encoding::file_encodings()) {
                assert_eq!(tensor.name, encoding.name());
                assert_eq!(tensor.stored, StoredEncoding::Supported(encoding));
                assert_eq!(tensor.shape, [2, 256]);
                assert_eq!(tensor.len, 2 * encoding.file_row_bytes(256).unwrap());
                assert_eq!(tensor.offset % 64, 0);
            }
            let last = gguf.tensors.last().unwrap();
            assert_eq!(last.offset + last.len, file.len() as u64);
        }
    }
}

#[test]
fn file_read_byte_by_byte_equals_file_read_at_once() {
    for version in 1..=3 {
        let file = samples::everything(version, version == 3);
        let whole = Gguf::parse(&file).unwrap();
        let pieces = read_pieces(file.chunks(1), None).unwrap();
        assert_same(&whole, &pieces);
    }
}

#[test]
fn reader_never_needs_more_than_the_header_has() {
    let file = samples::everything(3, false);
    let end = Gguf::parse(&file).unwrap().data_offset as usize;
    let mut reader = GgufReader::new(Limits::default());
    let mut at = 0;
    let mut want = 1;
    loop {
        match reader.push(&file[at..at + want]).unwrap() {
            Progress::Done(_) => break,
            Progress::Need(more) => {
                at += want;
                want = more as usize;
                assert!(more > 0 && at + want <= end);
            }
        }
    }
    assert!(matches!(reader.push(b"x"), Err(FormatError::Finished)));
}

#[test]
fn file_truncated_anywhere_is_reported_with_its_length() {
    for (version, big_endian) in [(1, false), (2, true), (3, false)] {
        let file = samples::tiny(version, big_endian);
        Gguf::parse(&file).unwrap();
        let data = read_pieces(file.chunks(7), None).unwrap().data_offset as usize;
        for len in 0..file.len() {
            let error = Gguf::parse(&file[..len]).unwrap_err();
            let message = error.to_string();
            assert!(!message.contains('\n'), "{message}");
            let clear = match error {
                FormatError::Truncated { len: found, .. }
                | FormatError::TensorTruncated { len: found, .. } => found == len as u64,
                // An empty file has no format.
                FormatError::NotThisFormat { .. } => len == 0,
                _ => false,
            };
            assert!(clear, "{len} bytes: {message}");
            // Without the length, a file is valid if it has the whole header. Only padding is between the
            // description of the last tensor and the data.
            let streamed = read_pieces(file[..len].chunks(5), None);
            assert!(len + 32 > data || streamed.is_err(), "{len} bytes");
        }
    }
}

/// Returns a header of version 3 up to its counts.
fn header(tensors: u64, keys: u64) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(tensors.to_le_bytes());
    file.extend(keys.to_le_bytes());
    file
}

/// Appends a key and the type of its value.
fn key(file: &mut Vec<u8>, name: &[u8], value_type: u32) {
    file.extend((name.len() as u64).to_le_bytes());
    file.extend(name);
    file.extend(value_type.to_le_bytes());
}

/// Appends the description of a tensor. The dimensions are innermost first, as in a file.
fn tensor(file: &mut Vec<u8>, name: &str, dims: &[u64], ggml_type: u32, offset: u64) {
    file.extend((name.len() as u64).to_le_bytes());
    file.extend(name.as_bytes());
    file.extend((dims.len() as u32).to_le_bytes());
    dims.iter().for_each(|dim| file.extend(dim.to_le_bytes()));
    file.extend(ggml_type.to_le_bytes());
    file.extend(offset.to_le_bytes());
}

/// Returns a file of 4 KiB with one tensor.
fn one_tensor(dims: &[u64], ggml_type: u32, offset: u64) -> Vec<u8> {
    let mut file = header(1, 0);
    tensor(&mut file, "w", dims, ggml_type, offset);
    file.resize(4096, 0);
    file
}

/// Returns a file with one key and the bytes of its value.
fn one_key(name: &[u8], value_type: u32, value: &[u8]) -> Vec<u8> {
    let mut file = header(0, 1);
    key(&mut file, name, value_type);
    file.extend(value);
    file.resize(file.len() + 64, 0);
    file
}

/// Returns the message with which a file is refused.
fn message(file: &[u8]) -> String {
    let whole = Gguf::parse(file).unwrap_err().to_string();
    assert!(!whole.contains('\n') && whole.len() < 400, "{whole}");
    whole
}

/// Asserts that a file is refused with a message that contains `part`.
#[track_caller]
fn assert_refused(file: &[u8], part: &str) {
    let message = message(file);
    assert!(message.contains(part), "{message:?} lacks {part:?}");
}

#[test]
fn impossible_shapes_are_refused() {
    assert_refused(&one_tensor(&[1 << 32, 1 << 32], 0, 0), "impossible shape");
    assert_refused(&one_tensor(&[1 << 62], 0, 0), "impossible shape");
    assert_refused(&one_tensor(&[u64::MAX, 1], 27, 0), "impossible shape");
    assert_refused(&one_tensor(&[0], 0, 0), "impossible shape [0]");
    assert_refused(&one_tensor(&[4, 0], 0, 0), "impossible shape [0, 4]");
    assert_refused(&one_tensor(&[1; 5], 0, 0), "5 dimensions; at most 4");
    let mut file = header(1, 0);
    file.extend([1, 0, 0, 0, 0, 0, 0, 0, b'w', 255, 255, 255, 255]);
    file.resize(100, 0);
    assert_refused(&file, "4294967295 dimensions");
}

#[test]
fn tensors_outside_the_file_are_refused() {
    assert_refused(&one_tensor(&[4], 0, 4064), "tensor `w` ends at byte ");
    assert_refused(&one_tensor(&[4096], 0, 0), "tensor `w` ends at byte ");
    assert_refused(&one_tensor(&[4], 0, 1 << 62), "tensor `w` ends at byte ");
    assert_refused(&one_tensor(&[4], 0, u64::MAX - 31), "impossible offset");
    assert_refused(&one_tensor(&[4], 0, 8), "which is not a multiple of 32");
    Gguf::parse(&one_tensor(&[4], 0, 32)).unwrap();
    Gguf::parse(&one_tensor(&[], 0, 0)).unwrap();
}

#[test]
fn unknown_types_and_partial_blocks_are_refused() {
    assert_refused(&one_tensor(&[32], 4, 0), "4 (Q4_2, no longer in GGUF)");
    assert_refused(
        &one_tensor(&[32], 77, 0),
        "tensor `w` has the unknown type 77",
    );
    assert_refused(
        &one_tensor(&[33], 2, 0),
        "rows of 33 weights; Q4_0 needs a multiple of 32",
    );
    assert_refused(
        &one_tensor(&[32, 8], 12, 0),
        "rows of 32 weights; Q4_K needs",
    );
    let gguf = Gguf::parse(&one_tensor(&[3], 27, 0)).unwrap();
    assert_eq!(gguf.tensors[0].len, 24);
    let error = gguf.tensors[0].encoding().unwrap_err().to_string();
    assert!(
        error.contains("`w` is stored as I64; supported are F32, F16"),
        "{error}"
    );
}

#[test]
fn alignment_must_be_a_power_of_two() {
    for (bad, shown) in [(0u32, "0"), (3, "3"), (48, "48"), (1 << 31, "2147483648")] {
        let file = one_key(b"general.alignment", 4, &bad.to_le_bytes());
        assert_refused(
            &file,
            &format!("is the integer {shown}; expected a power of two"),
        );
    }
    assert_refused(
        &one_key(b"general.alignment", 7, &[1]),
        "is the boolean true",
    );
    for good in [1u32, 8, 4096] {
        let file = one_key(b"general.alignment", 4, &good.to_le_bytes());
        let gguf = Gguf::parse(&file).unwrap();
        assert_eq!(gguf.alignment, u64::from(good));
        assert_eq!(gguf.data_offset % u64::from(good), 0);
    }
}

#[test]
fn counts_beyond_the_file_are_refused() {
    assert_refused(&header(0, 1 << 60), "the number of keys");
    assert_refused(&header(1 << 60, 0), "the number of tensors");
    assert_refused(&header(u64::MAX, u64::MAX), "the number of keys");
    assert_refused(
        &one_key(b"k", 8, &(1u64 << 63).to_le_bytes()),
        "length of a string",
    );
    let mut file = header(0, 1);
    file.extend((1u64 << 63).to_le_bytes());
    file.resize(100, 0);
    assert_refused(&file, "the length of a key is 9223372036854775808");
    for element in [0u32, 6, 8, 9, 12] {
        let mut array = element.to_le_bytes().to_vec();
        array.extend((1u64 << 60).to_le_bytes());
        assert_refused(&one_key(b"k", 9, &array), "the length of an array");
    }
}

#[test]
fn deeply_nested_arrays_are_refused() {
    let mut bomb = Vec::new();
    for _ in 0..100_000 {
        bomb.extend(9u32.to_le_bytes());
        bomb.extend(1u64.to_le_bytes());
    }
    assert_refused(&one_key(b"k", 9, &bomb), "nests arrays more than 8 deep");
}

#[test]
fn invalid_values_are_refused_but_strings_need_not_be_utf8() {
    assert_refused(&one_key(b"k", 13, &[]), "value type 13");
    assert_refused(&one_key(b"k", 7, &[2]), "boolean of value 2");
    assert_refused(&one_key(b"\xff", 4, &[0; 4]), "a key is not UTF-8");
    let mut array = 7u32.to_le_bytes().to_vec();
    array.extend(2u64.to_le_bytes());
    array.extend([1, 9]);
    assert_refused(&one_key(b"k", 9, &array), "boolean of value 9");
    // Strings need not be UTF-8: vocabularies may hold parts of characters.
    let mut text = 3u64.to_le_bytes().to_vec();
    text.extend(b"a\xffb");
    let gguf = Gguf::parse(&one_key(b"k", 8, &text)).unwrap();
    assert_eq!(gguf.require::<&str>("k").unwrap(), "a\u{fffd}b");
}

#[test]
fn duplicate_keys_and_tensors_are_refused() {
    let twice = GgufWriter::new(3, false)
        .key("k", Value::U8(1))
        .key("k", Value::U8(1));
    assert_refused(&twice.write(), "key `k` appears twice");
    let twice = GgufWriter::new(3, false)
        .tensor("w", Encoding::F32, &[1], &[0; 4])
        .tensor("v", Encoding::F32, &[1], &[0; 4])
        .tensor("w", Encoding::F32, &[1], &[0; 4]);
    assert_refused(&twice.write(), "tensor `w` appears twice");
}

/// Messages go to terminals, which must not interpret escape sequences from a file.
#[test]
fn names_are_escaped_in_messages() {
    let name = "w\n\u{1b}[31m";
    let mut file = header(1, 0);
    tensor(&mut file, name, &[4], 99, 0);
    file.resize(200, 0);
    let mut bad_key = name.as_bytes().to_vec();
    bad_key.push(b'k');
    let nameless = GgufWriter::new(3, false)
        .tensor(name, Encoding::F32, &[4], &[0; 16])
        .write();
    for file in [
        &file[..],
        &one_key(&bad_key, 13, &[]),
        &one_key(&bad_key, 8, &(1u64 << 62).to_le_bytes()),
        &nameless[..nameless.len() - 1],
    ] {
        let message = message(file);
        assert!(message.contains("`w\\n\\u{1b}[31m"), "{message}");
        assert!(!message.contains(char::is_control), "{message}");
    }
}

#[test]
fn files_of_other_formats_are_described() {
    assert_refused(b"", "it is empty");
    assert_refused(b"GG", "the file ends after 2 bytes, inside the header");
    assert_refused(b"<!DOCTYPE html><html>", "web page");
    assert_refused(b"<!D", "it starts with the bytes 3c 21 44");
    assert_refused(
        b"version https://git-lfs.github.com/spec/v1\n",
        "git lfs pull",
    );
    assert_refused(b"PK\x03\x04 and more", "PyTorch");
    assert_refused(b"\x80\x02}q\0 and more", "pickle");
    assert_refused(b"tjgg\x03\0\0\0", "from before GGUF");
    assert_refused(&[0; 4096], "starts with zeros");
    assert_refused(b"GGUF\x04\0\0\0\0\0\0\0", "GGUF version 4; versions 1 to 3");
    assert_refused(b"GGUF\0\0\0\0\0\0\0\0", "GGUF version 0");
}

#[test]
fn values_convert_without_loss_or_are_refused_with_a_reason() {
    let gguf = Gguf::parse(&samples::everything(3, false)).unwrap();
    assert_eq!(gguf.get::<u64>("absent").unwrap(), None);
    assert_eq!(gguf.require::<u64>("u8").unwrap(), 200);
    assert_eq!(gguf.require::<i64>("i8").unwrap(), -100);
    assert_eq!(gguf.require::<f32>("f32").unwrap(), 1.5);
    assert_eq!(gguf.require::<f64>("u16").unwrap(), 60_000.0);
    assert_eq!(gguf.require::<f32>("f64").unwrap(), -0.1);
    assert!(gguf.require::<bool>("bool").unwrap());
    assert_eq!(gguf.require::<Vec<u64>>("u8s").unwrap(), [1, 2, 255]);
    assert_eq!(gguf.require::<Vec<f32>>("f32s").unwrap(), [0.25, -4.0]);
    let strings = gguf.require::<&Strings>("strings").unwrap();
    assert_eq!(strings.iter().collect::<Vec<_>>(), ["", "a", "Wört"]);
    assert_eq!((strings.get(2), strings.get(3)), (Some("Wört"), None));
    assert_eq!(gguf.require::<&Array>("arrays").unwrap().len(), 3);
    let errors = [
        gguf.require::<u64>("absent").map(|_| ()),
        gguf.require::<u64>("i8").map(|_| ()),
        gguf.require::<u32>("u64").map(|_| ()),
        gguf.require::<u64>("string").map(|_| ()),
        gguf.require::<u64>("f32").map(|_| ()),
        gguf.require::<&str>("strings").map(|_| ()),
    ];
    let expected = [
        "key `absent` is missing; expected an integer not below 0",
        "key `i8` is the integer -100; expected an integer not below 0",
        "key `u64` is the integer 9223372036854775808; expected an integer from 0 to 2^32 - 1",
        "key `string` is the string \"text\"; expected an integer not below 0",
        "key `f32` is the number 1.5; expected an integer not below 0",
        "key `strings` is an array of 3 strings; expected a string",
    ];
    for (error, expected) in errors.into_iter().zip(expected) {
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

/// A valid file with a few changed bytes.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let file = (1u32..=3, any::<bool>()).prop_map(|(v, big)| samples::tiny(v, big));
    (file, prop::collection::vec(change, 1..6)).prop_map(|(mut file, changes)| {
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        file
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_do_not_panic_and_read_alike_in_pieces(tail in prop::collection::vec(any::<u8>(), 0..300), version in 1u8..4) {
        let mut file = vec![b'G', b'G', b'U', b'F', version, 0, 0, 0];
        file.extend(tail);
        let len = Some(file.len() as u64);
        let whole = Gguf::parse(&file).map_err(|error| error.to_string());
        let pieces = read_pieces(file.chunks(3), len).map_err(|error| error.to_string());
        prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    }

    #[test]
    fn mutated_files_read_alike_in_pieces(file in mutated(), size in 1usize..50) {
        let len = Some(file.len() as u64);
        let whole = Gguf::parse(&file).map_err(|error| error.to_string());
        let pieces = read_pieces(file.chunks(size), len).map_err(|error| error.to_string());
        prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
        if let Ok(gguf) = whole {
            for tensor in &gguf.tensors {
                prop_assert!(tensor.offset + tensor.len <= file.len() as u64);
            }
        }
    }

    #[test]
    fn pieces_of_any_sizes_read_alike(sizes in prop::collection::vec(1usize..400, 1..100)) {
        // Quantising a tensor in every encoding takes far longer than reading them.
        static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| samples::everything(3, false));
        let mut rest = &FILE[..];
        let mut pieces = Vec::new();
        for &size in sizes.iter().cycle() {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let read = read_pieces(pieces.into_iter(), None).unwrap();
        assert_same(&read, &Gguf::parse(&FILE).unwrap());
    }
}
