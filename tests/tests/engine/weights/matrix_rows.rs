//! Rows of matrices that stay in the files of their checkpoint.

use wisp_engine::weights::{Checkpoint, Encoding, WeightError, encodings::dequantize};
use wisp_tests::remote_file;

use super::samples;

/// The rows of `everything`, and the columns of each.
const SHAPE: [u64; 2] = [2, 256];

#[test]
fn rows_have_the_values_of_the_whole_matrix_in_every_encoding() {
    let folder = tempfile::tempdir().unwrap();
    for big_endian in [false, true] {
        let bytes = samples::everything(3, big_endian);
        let path = folder.path().join(format!("{big_endian}.gguf"));
        std::fs::write(&path, &bytes).unwrap();
        let opened = [Checkpoint::from_bytes("m", bytes), Checkpoint::open(&path)];
        for checkpoint in opened.map(Result::unwrap) {
            let matrices = Encoding::file_encodings().map(|encoding| {
                let name = encoding.name();
                let tensor = checkpoint.require(name).unwrap();
                let bytes = checkpoint.bytes(name, 0..tensor.len).unwrap();
                let whole = dequantize(tensor.encoding().unwrap(), &bytes, 2, 256).unwrap();
                (name, whole, checkpoint.matrix_rows(name, SHAPE).unwrap())
            });
            let matrices: Vec<_> = matrices.collect();
            // The rows outlive the checkpoint.
            drop(checkpoint);
            for (name, whole, rows) in matrices {
                let (first, second) = whole.split_at(256);
                let expected = [second, first, second].concat();
                assert_eq!(rows.read([1, 0, 1]).unwrap(), expected, "{name}");
                assert_eq!(rows.read([]).unwrap(), [0.0; 0], "{name}");
            }
        }
    }
}

#[test]
fn unknown_rows_wrong_shapes_and_remote_files_are_refused() {
    let bytes = samples::everything(3, false);
    let checkpoint = Checkpoint::from_bytes("m", bytes.clone()).unwrap();
    let rows = checkpoint.matrix_rows("f32", SHAPE).unwrap();
    for row in [2, u64::MAX] {
        let error = rows.read([0, row]).unwrap_err();
        assert!(matches!(error, WeightError::Range { .. }), "{error}");
    }
    for shape in [[2, 255], [3, 256], [u64::MAX, 256], [2, u64::MAX]] {
        let error = checkpoint.matrix_rows("q8_0", shape).unwrap_err();
        assert!(matches!(error, WeightError::Shape { .. }), "{error}");
    }
    let error = checkpoint.matrix_rows("absent", SHAPE).unwrap_err();
    assert!(
        matches!(error, WeightError::MissingTensor { .. }),
        "{error}"
    );
    let remote = remote_file::open(bytes);
    assert!(remote.is_remote("q8_0") && !checkpoint.is_remote("q8_0"));
    let error = remote.matrix_rows("q8_0", SHAPE).unwrap_err();
    assert!(matches!(error, WeightError::Remote { .. }), "{error}");
}

/// The system would end a program that reads what was cut off.
#[cfg(unix)]
#[test]
fn a_file_that_was_cut_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.gguf");
    std::fs::write(&path, samples::everything(3, false)).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let rows = checkpoint.matrix_rows("q8_0", SHAPE).unwrap();
    assert!(rows.read([1]).is_ok());
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(100).unwrap();
    let error = rows.read([1]).unwrap_err().to_string();
    assert!(error.contains("it was cut"), "{error}");
}
