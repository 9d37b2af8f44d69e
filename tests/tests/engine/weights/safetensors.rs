//! The reader of safetensors headers and indices.

use proptest::prelude::*;
use wisp_engine::weights::safetensors::{Safetensors, SafetensorsIndex};
use wisp_engine::weights::{Encoding, FormatError, StoredEncoding};

use super::samples::tiny_safetensors;

fn parse(file: &[u8]) -> Result<Safetensors, FormatError> {
    Safetensors::parse(file, Some(file.len() as u64))
}

/// Returns a file with a header and `data` zeros.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + data, 0);
    file
}

#[track_caller]
fn assert_refused(file: &[u8], part: &str) {
    let message = parse(file).unwrap_err().to_string();
    assert!(!message.contains('\n') && message.len() < 400, "{message}");
    assert!(message.contains(part), "{message:?} lacks {part:?}");
}

#[test]
fn valid_file_is_parsed() {
    let file = tiny_safetensors();
    let parsed = parse(&file).unwrap();
    assert_eq!(parsed.metadata["format"], "pt");
    let found: Vec<_> = parsed
        .tensors
        .iter()
        .map(|t| (t.name.as_str(), t.stored, t.shape.as_slice(), t.len))
        .collect();
    let expected = [
        (
            "a",
            StoredEncoding::Supported(Encoding::F32),
            &[2, 2][..],
            16,
        ),
        ("b", StoredEncoding::Supported(Encoding::BF16), &[3][..], 6),
        ("ids", StoredEncoding::Unsupported("I64"), &[1][..], 8),
    ];
    assert_eq!(found, expected);
    let last = &parsed.tensors[2];
    assert_eq!(last.offset + last.len, file.len() as u64);
    let error = last.encoding().unwrap_err().to_string();
    assert!(
        error.contains("`ids` is stored as I64; supported are"),
        "{error}"
    );
}

#[test]
fn header_is_parsed_without_the_data() {
    let whole = tiny_safetensors();
    let end = Safetensors::header_bytes(&whole[..8], None).unwrap();
    let head = &whole[..end as usize];
    let streamed = Safetensors::parse(head, None).unwrap();
    assert_eq!(streamed.tensors, parse(&whole).unwrap().tensors);
}

#[test]
fn file_truncated_anywhere_is_reported_with_its_length() {
    let whole = tiny_safetensors();
    for len in 0..whole.len() {
        let error = parse(&whole[..len]).unwrap_err();
        let clear = match error {
            FormatError::Truncated { len: found, .. }
            | FormatError::TensorTruncated { len: found, .. } => found == len as u64,
            // The header's length takes 8 bytes.
            FormatError::NotThisFormat { .. } => len < 8,
            _ => false,
        };
        assert!(clear, "{len} bytes: {error}");
    }
    let mut longer = whole;
    longer.push(0);
    assert_refused(&longer, "1 bytes follow the last tensor");
}

#[test]
fn broken_headers_are_refused() {
    let tensor = |shape: &str, start: u64, end: u64| {
        format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}}}"#)
    };
    parse(&file(&tensor("[2]", 0, 8), 8)).unwrap();
    assert_refused(&file(&tensor("[2]", 0, 8), 4), "tensor `w` ends at byte ");
    assert_refused(&file(&tensor("[2]", 0, 12), 12), "header is damaged");
    assert_refused(&file(&tensor("[2]", 4, 12), 12), "header is damaged");
    assert_refused(
        &file(&tensor("[4294967296,4294967296]", 0, 8), 8),
        "header is damaged",
    );
    assert_refused(&file(&tensor("[-1]", 0, 8), 8), "header is damaged");
    assert_refused(&file(&tensor("[2]", 8, 0), 8), "header is damaged");
    let deep = format!("{{\"w\":{}", "[".repeat(100_000));
    assert_refused(&file(&deep, 0), "header is damaged");
    assert_refused(&file("{}", 5), "5 bytes follow");
    assert_refused(&file("[]", 5), "not a safetensors file");
    let unknown = tensor("[2]", 0, 8).replace("F32", "F1");
    assert_refused(&file(&unknown, 8), "unknown variant `F1`");
    assert_refused(&[255; 100], "not a safetensors file");
    assert_refused(b"<!DOCTYPE html>", "web page");
    assert_refused(b"PK\x03\x04 and more", "name it .bin, .pt or .pth");
    assert_refused(
        b"version https://git-lfs.github.com/spec/v1\n",
        "git lfs pull",
    );
    let mut long = (50u64 << 20).to_le_bytes().to_vec();
    long.push(b'{');
    assert_refused(&long, "the file ends after 9 bytes, inside the header");
}

/// Sizes that are valid, but whose sum overflows. The `safetensors` crate's check of the file's length
/// adds without checking for overflow, which is why our reader checks the length itself.
#[test]
fn sizes_whose_sum_overflows_are_refused() {
    // The crate accepts at most this many bits for one tensor.
    let shape = usize::MAX / 8;
    let mut header = String::from("{");
    let mut start = 0usize;
    for i in 0..8 {
        let end = start + shape;
        header.push_str(&format!(
            r#""w{i}":{{"dtype":"U8","shape":[{shape}],"data_offsets":[{start},{end}]}},"#
        ));
        start = end;
    }
    let (shape, end) = (usize::MAX - start, usize::MAX);
    header.push_str(&format!(
        r#""z":{{"dtype":"U8","shape":[{shape}],"data_offsets":[{start},{end}]}}}}"#
    ));
    assert_refused(
        &file(&header, 64),
        "tensor `z` starts at the impossible offset",
    );
}

#[test]
fn files_of_an_index_stay_inside_its_folder() {
    let index = |map: &str| SafetensorsIndex::parse("index", map.as_bytes());
    let sound = r#"{"metadata":{"total_size":1},"weight_map":{"a":"x","b":"d/y","c":"x"}}"#;
    let sound = index(sound).unwrap();
    assert_eq!(sound.files, ["d/y", "x"]);
    assert_eq!((sound.weight_map["a"], sound.weight_map["b"]), (1, 0));
    let evil = [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "",
        ".",
        "c:\\\\x",
        "a\\\\..\\\\x",
        "a//b",
    ];
    for path in evil {
        let error = index(&format!(r#"{{"weight_map":{{"a":"{path}"}}}}"#)).unwrap_err();
        assert!(
            error.to_string().contains("inside the index's own folder"),
            "{error}"
        );
    }
    for broken in [
        "",
        "[]",
        "{}",
        r#"{"weight_map":{}}"#,
        r#"{"weight_map":{"a":1}}"#,
    ] {
        index(broken).unwrap_err();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tensors_of_mutated_files_are_inside_the_file(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = tiny_safetensors();
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        if let Ok(parsed) = parse(&file) {
            for tensor in &parsed.tensors {
                prop_assert!(tensor.offset + tensor.len <= file.len() as u64);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = SafetensorsIndex::parse("index", &bytes);
    }
}
