//! Opening checkpoints, and reading their tensors.

use std::fs;
use std::path::Path;

use wisp_engine::weights::gguf::{Gguf, Value};
use wisp_engine::weights::{Checkpoint, Encoding, WeightError, WeightSource, encodings};
use wisp_tests::gguf_writer::GgufWriter;
use wisp_tests::quantize::quantize;
use wisp_tests::shared::shared_data;

use super::samples;

/// Asserts that a path is refused with a message of one line that contains `part`.
#[track_caller]
fn assert_refused(path: &Path, part: &str) {
    let message = Checkpoint::open(path).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    assert!(message.contains(part), "{message:?} lacks {part:?}");
}

#[test]
fn big_endian_tensors_are_read_as_little_endian() {
    let little = Checkpoint::from_bytes("little", samples::everything(3, false)).unwrap();
    let big = Checkpoint::from_bytes("big", samples::everything(3, true)).unwrap();
    for encoding in Encoding::file_encodings() {
        let name = encoding.name();
        let len = little.require(name).unwrap().len;
        assert_eq!(
            little.bytes(name, 0..len).unwrap(),
            big.bytes(name, 0..len).unwrap(),
            "{encoding}"
        );
        // A range that begins and ends inside blocks.
        let range = 1..len - 3;
        let expected = &little.bytes(name, 0..len).unwrap()[1..len as usize - 3];
        assert_eq!(big.bytes(name, range.clone()).unwrap(), expected);
        assert_eq!(little.bytes(name, range).unwrap(), expected);
        // The bytes equal those that were written.
        let written = quantize(encoding, &samples::noise(512));
        assert_eq!(little.bytes(name, 0..len).unwrap(), written);
    }
}

#[test]
fn whole_tensors_are_decoded() {
    let checkpoint = Checkpoint::from_bytes("m", samples::everything(3, false)).unwrap();
    for encoding in Encoding::file_encodings() {
        let tensor = checkpoint.require(encoding.name()).unwrap();
        let bytes = checkpoint.bytes(encoding.name(), 0..tensor.len).unwrap();
        let expected = encodings::dequantize(encoding, &bytes, 2, 256).unwrap();
        let found = checkpoint.read_f32(encoding.name()).unwrap();
        assert_eq!(found, expected, "{encoding}");
    }
    assert!(matches!(
        checkpoint.read_f32("absent"),
        Err(WeightError::MissingTensor { .. })
    ));
}

#[test]
fn ranges_outside_tensors_and_unknown_names_are_refused() {
    let checkpoint = Checkpoint::from_bytes("m", samples::tiny(3, false)).unwrap();
    assert_eq!(checkpoint.bytes("norm", 0..12).unwrap().len(), 12);
    assert_eq!(checkpoint.bytes("norm", 12..12).unwrap().len(), 0);
    let reversed = std::ops::Range { start: 5, end: 4 };
    for range in [0..13, reversed, u64::MAX..u64::MAX, 0..u64::MAX] {
        let error = checkpoint.bytes("norm", range).unwrap_err();
        assert!(
            matches!(error, WeightError::Range { len: 12, .. }),
            "{error}"
        );
    }
    let error = checkpoint.bytes("absent", 0..1).unwrap_err().to_string();
    assert_eq!(error, "tensor `absent` is missing from the checkpoint");
}

#[test]
fn reading_borrows_the_bytes_of_the_file() {
    use std::borrow::Cow;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    let checkpoint = Checkpoint::from_bytes("m", samples::tiny(3, false)).unwrap();
    let mut read = pin!(checkpoint.read("norm", 0..12));
    let ready = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ready, Poll::Ready(Ok(Cow::Borrowed(bytes))) if bytes == [0; 12]));
}

#[test]
fn paths_without_a_checkpoint_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert_refused(folder.path(), "no checkpoint in this folder");
    assert_refused(&at("absent.gguf"), "cannot open");
    fs::write(at("empty.gguf"), b"").unwrap();
    assert_refused(
        &at("empty.gguf"),
        "empty.gguf: not a GGUF file: it is empty",
    );
    fs::remove_file(at("empty.gguf")).unwrap();
    fs::write(at("pytorch_model.bin"), b"PK\x03\x04").unwrap();
    assert_refused(
        folder.path(),
        "pytorch_model.bin: the zip archive is damaged",
    );
    fs::write(at("one.gguf"), samples::tiny(3, false)).unwrap();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(checkpoint.tensors().len(), 2);
    assert_eq!(checkpoint.directory(), Some(folder.path()));
    fs::write(at("two.gguf"), samples::tiny(3, false)).unwrap();
    assert_refused(
        folder.path(),
        "several models; name one of them: one.gguf, two.gguf",
    );
    // The contents determine the format, whatever the file's name.
    fs::write(at("model.safetensors"), samples::tiny(3, false)).unwrap();
    assert_eq!(
        Checkpoint::open(at("model.safetensors"))
            .unwrap()
            .tensors()
            .len(),
        2
    );
    fs::write(at("model.gguf"), samples::tiny_safetensors()).unwrap();
    assert_eq!(
        Checkpoint::open(at("model.gguf")).unwrap().tensors().len(),
        3
    );
}

/// Returns part `number` (from 0) of `count`, with one tensor, whose header says `total` tensors.
fn part(number: u16, count: u16, total: i32) -> GgufWriter {
    GgufWriter::new(3, false)
        .key("split.no", Value::U16(number))
        .key("split.count", Value::U16(count))
        .key("split.tensors.count", Value::I32(total))
        .tensor(
            &format!("t{number}"),
            Encoding::F32,
            &[2],
            &[number as u8; 8],
        )
}

#[test]
fn parts_of_a_gguf_checkpoint_are_opened_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = |number: u16| folder.path().join(format!("m-{number:05}-of-00003.gguf"));
    for number in 0..3 {
        fs::write(at(number + 1), part(number, 3, 3).write()).unwrap();
    }
    for path in [folder.path().to_path_buf(), at(1), at(2), at(3)] {
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!(
            checkpoint.gguf().unwrap().get::<u32>("split.no").unwrap(),
            Some(0)
        );
        for number in 0..3u8 {
            let bytes = checkpoint.bytes(&format!("t{number}"), 0..8).unwrap();
            assert_eq!(bytes, [number; 8].as_slice());
        }
    }
    fs::write(at(2), part(2, 3, 3).write()).unwrap();
    assert_refused(&at(1), "part 2 (counted from 0), its name part 2 (from 1)");
    fs::write(at(2), part(1, 4, 3).write()).unwrap();
    assert_refused(&at(1), "its header says 4 parts, its name 3");
    fs::write(
        at(2),
        part(1, 3, 3)
            .tensor("t0", Encoding::F32, &[1], &[0; 4])
            .write(),
    )
    .unwrap();
    assert_refused(&at(1), "3 tensors; all parts together have 4");
    fs::remove_file(at(2)).unwrap();
    assert_refused(&at(1), "m-00002-of-00003.gguf");
    let renamed = folder.path().join("renamed.gguf");
    fs::copy(at(1), &renamed).unwrap();
    assert_refused(
        &renamed,
        "one of 3 parts; expected a name like NAME-00001-of-00003.gguf",
    );
    let error = Checkpoint::from_bytes("inside", part(0, 3, 3).write()).unwrap_err();
    assert!(error.to_string().contains("one of 3 parts"), "{error}");
}

/// Returns a safetensors file with one F32 tensor of two values.
fn shard(name: &str) -> Vec<u8> {
    let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}}"#);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([name.len() as u8; 8]);
    file
}

#[test]
fn files_of_a_safetensors_index_are_opened_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("x-1.safetensors"), shard("a")).unwrap();
    fs::write(at("x-2.safetensors"), shard("bb")).unwrap();
    let index = |a: &str, b: &str| {
        let json = format!(r#"{{"weight_map":{{"a":"{a}","bb":"{b}"}}}}"#);
        fs::write(at("model.safetensors.index.json"), json).unwrap();
    };
    index("x-1.safetensors", "x-2.safetensors");
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(checkpoint.bytes("a", 0..8).unwrap(), [1; 8].as_slice());
    assert_eq!(checkpoint.bytes("bb", 0..8).unwrap(), [2; 8].as_slice());
    index("x-2.safetensors", "x-1.safetensors");
    assert_refused(folder.path(), "as the index says");
    index("x-1.safetensors", "x-3.safetensors");
    assert_refused(folder.path(), "x-3.safetensors");
    index("x-1.safetensors", "../x-2.safetensors");
    assert_refused(folder.path(), "inside the index's own folder");
    index("x-1.safetensors", "x-2.safetensors");
    fs::write(at("x-2.safetensors"), shard("a")).unwrap();
    assert_refused(folder.path(), "tensor `a` appears twice");
}

/// Returns the resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split_whitespace().nth(1).unwrap();
    pages.parse::<u64>().unwrap() * 4096
}

#[test]
#[cfg(target_os = "linux")]
fn released_tensors_are_not_resident_but_readable() {
    const BYTES: usize = 128 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let file = GgufWriter::new(3, false)
        .tensor("w", Encoding::F32, &[BYTES as u64 / 4], &vec![7; BYTES])
        .write();
    fs::write(&path, file).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let sum = |checkpoint: &Checkpoint| {
        let bytes = checkpoint.bytes("w", 0..BYTES as u64).unwrap();
        bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>()
    };
    assert_eq!(sum(&checkpoint), 7 * BYTES as u64);
    let read = resident();
    for half in [0..BYTES as u64 / 2, BYTES as u64 / 2..BYTES as u64] {
        checkpoint.release("w", half);
    }
    let released = resident();
    // Other tests of this process may allocate meanwhile.
    assert!(
        released + (BYTES as u64 * 3 / 4) < read,
        "{read} bytes in use, {released} after the release"
    );
    assert_eq!(sum(&checkpoint), 7 * BYTES as u64);
    checkpoint.release("absent", 0..1);
    checkpoint.release("w", 0..u64::MAX);
}

#[test]
fn shared_checkpoints_open() {
    let Some(folder) = shared_data("goldens") else {
        return;
    };
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let checkpoint = Checkpoint::open(&path).unwrap();
        for tensor in checkpoint.tensors() {
            let bytes = checkpoint.bytes(&tensor.name, 0..tensor.len).unwrap();
            let weights: u64 = tensor.shape.iter().product();
            assert_eq!(
                bytes.len() as u64,
                4 * weights,
                "{} {}",
                path.display(),
                tensor.name
            );
        }
    }
}

#[test]
fn shared_vocabularies_open() {
    let Some(folder) = shared_data("vocab") else {
        return;
    };
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        let file = fs::read(&path).unwrap();
        let gguf = Gguf::parse(&file).unwrap();
        let tokens = gguf.require::<&wisp_engine::weights::gguf::Strings>("tokenizer.ggml.tokens");
        assert!(tokens.unwrap().len() > 30_000, "{}", path.display());
    }
}
