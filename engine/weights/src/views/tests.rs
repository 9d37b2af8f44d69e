//! Views of a small safetensors file.

use super::*;
use crate::{Checkpoint, MemoryWeights};

/// A safetensors file of `a: F32 [4, 3]`, 0 to 11, and `b: F32 [2, 3]`, 100 to 105.
fn checkpoint() -> Checkpoint {
    let header = r#"{"a":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},
        "b":{"dtype":"F32","shape":[2,3],"data_offsets":[48,72]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    let values = (0..12).chain(100..106).map(|value| value as f32);
    file.extend(values.flat_map(f32::to_le_bytes));
    Checkpoint::from_bytes("test.safetensors", file).unwrap()
}

fn read(views: &Views<'_>, name: &str, range: Range<u64>) -> Vec<f32> {
    let range = range.start * 4..range.end * 4;
    let bytes = pollster::block_on(views.read(name, range)).unwrap();
    bytemuck::pod_collect_to_vec(&bytes)
}

#[test]
fn stacked_rows_are_read_in_any_range() {
    let checkpoint = checkpoint();
    let mut views = Views::new(&checkpoint);
    let parts = vec![("a".into(), 3..4), ("b".into(), 0..2), ("a".into(), 0..1)];
    views.add("v", View::Rows(parts), &[4, 3]).unwrap();
    let all = [9., 10., 11., 100., 101., 102., 103., 104., 105., 0., 1., 2.];
    for start in 0..=12 {
        for end in start..=12 {
            let expected = &all[start..end];
            assert_eq!(read(&views, "v", start as u64..end as u64), expected);
        }
    }
    assert_eq!(views.find("v").unwrap().len, 48);
    assert_eq!(read(&views, "b", 0..2), [100.0, 101.0]);
}

#[test]
fn transposed_columns_are_read_in_any_range() {
    let checkpoint = checkpoint();
    let mut views = Views::new(&checkpoint);
    views
        .add("v", View::transposed("a".into(), 3, 1..3), &[2, 4])
        .unwrap();
    let all = [1., 4., 7., 10., 2., 5., 8., 11.];
    for start in 0..=8 {
        for end in start..=8 {
            let expected = &all[start..end];
            assert_eq!(read(&views, "v", start as u64..end as u64), expected);
        }
    }
    assert!(pollster::block_on(views.read("v", 0..33)).is_err());
}

#[test]
fn values_are_read_like_tensors() {
    let checkpoint = checkpoint();
    let mut views = Views::new(&checkpoint);
    views.add_values("v", &[1.0, 2.0, 3.0], &[1, 3]);
    assert_eq!(read(&views, "v", 1..3), [2.0, 3.0]);
    let info = views.find("v").unwrap();
    assert_eq!(info.encoding().unwrap(), Encoding::F32);
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let checkpoint = checkpoint();
    let mut views = Views::new(&checkpoint);
    let mut refuse = |view: View, shape: &[u64], what: &str| {
        let error = views.add("v", view, shape).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let rows = |name: &str, range| View::Rows(vec![(name.to_string(), range)]);
    refuse(rows("a", 0..5), &[5, 3], "at least 5 rows");
    refuse(rows("a", 0..2), &[2, 4], "rows of 4");
    refuse(rows("a", 0..2), &[3, 3], "2 rows, expected 3");
    refuse(rows("c", 0..2), &[2, 3], "c");
    refuse(View::Rows(Vec::new()), &[2, 3], "0 rows");
    refuse(View::transposed("a".into(), 3, 0..4), &[4, 4], "[4, 3]");
    let strided = |strides: &[u64]| View::Strided {
        tensor: "a".into(),
        offset: 1,
        strides: strides.to_vec(),
    };
    refuse(strided(&[3, 1]), &[4, 3], "[4, 3]");
    refuse(strided(&[1]), &[4, 2], "[4, 3]");
    refuse(strided(&[u64::MAX, 1]), &[3, 1], "[4, 3]");
    refuse(strided(&[1; 4]), &[1; 4], "three dimensions");
}

#[test]
fn strided_elements_are_read_in_any_range() {
    let checkpoint = checkpoint();
    let mut views = Views::new(&checkpoint);
    // `a` as two matrices [2, 3]: the second and third column of each, as rows; and every other element.
    let mut check = |offset: u64, strides: &[u64], shape: &[u64], all: &[f32]| {
        let tensor = "a".to_string();
        let strides = strides.to_vec();
        let view = View::Strided {
            tensor,
            offset,
            strides,
        };
        views.add("v", view, shape).unwrap();
        for start in 0..=all.len() {
            for end in start..=all.len() {
                let expected = &all[start..end];
                assert_eq!(read(&views, "v", start as u64..end as u64), expected);
            }
        }
    };
    check(
        1,
        &[6, 1, 3],
        &[2, 2, 2],
        &[1., 4., 2., 5., 7., 10., 8., 11.],
    );
    check(1, &[6, 2], &[2, 3], &[1., 3., 5., 7., 9., 11.]);
    check(2, &[3], &[3], &[2., 5., 8.]);
}

/// A safetensors file of MXFP4 weights `[2, 3, 64]`: the bytes of their tensors count up.
fn mxfp4_checkpoint() -> Checkpoint {
    let header = r#"{"w_blocks":{"dtype":"U8","shape":[2,3,2,16],"data_offsets":[0,192]},
        "w_scales":{"dtype":"U8","shape":[2,3,2],"data_offsets":[192,204]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend(0..192u8);
    file.extend(120..132u8);
    Checkpoint::from_bytes("test.safetensors", file).unwrap()
}

fn mxfp4_view(first: u64, step: u64) -> View {
    View::Mxfp4 {
        blocks: "w_blocks".into(),
        scales: "w_scales".into(),
        first,
        step,
    }
}

#[test]
fn mxfp4_rows_are_read_in_any_range() {
    let checkpoint = mxfp4_checkpoint();
    let mut views = Views::new(&checkpoint);
    views.add("v", mxfp4_view(0, 2), &[2, 2, 64]).unwrap();
    let info = views.find("v").unwrap();
    assert_eq!((info.encoding().unwrap(), info.len), (Encoding::MXFP4, 136));
    let read = |range| {
        pollster::block_on(views.read("v", range))
            .unwrap()
            .into_owned()
    };
    let all = read(0..136);
    let values = crate::encodings::dequantize(Encoding::MXFP4, &all, 4, 64).unwrap();
    // Values of FP4 E2M1 (OCP Microscaling Formats v1.0, table 5).
    let table = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    for (i, value) in values.into_iter().enumerate() {
        let (row, block, weight) = ([0, 2, 3, 5][i / 64], i % 64 / 32, i % 32);
        let byte = (row * 2 + block) * 16 + weight / 2;
        let code = byte >> (weight % 2 * 4) & 15;
        let sign = if code < 8 { 1.0 } else { -1.0 };
        let power = 2f32.powi(120 + row as i32 * 2 + block as i32 - 127);
        assert_eq!(value, sign * table[code % 8] * power, "{i}");
    }
    for start in (0..=136).step_by(7) {
        for end in (start..=136).step_by(5) {
            assert_eq!(read(start..end), all[start as usize..end as usize]);
        }
    }
}

#[test]
fn mxfp4_tensors_that_do_not_fit_are_refused() {
    let checkpoint = mxfp4_checkpoint();
    let mut views = Views::new(&checkpoint);
    let mut refuse = |view: View, shape: &[u64], what: &str| {
        let error = views.add("v", view, shape).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    refuse(mxfp4_view(0, 2), &[2, 3, 64], "[2, 3, 2, 16]");
    refuse(mxfp4_view(0, u64::MAX), &[2, 3, 64], "[2, 3, 2, 16]");
    refuse(mxfp4_view(0, 1), &[3, 3, 64], "[3, 3, 2, 16]");
    refuse(mxfp4_view(0, 1), &[2, 3, 32], "[2, 3, 1, 16]");
    refuse(mxfp4_view(0, 1), &[6, 64], "the view has shape [6, 64]");
    let swapped = View::Mxfp4 {
        blocks: "w_scales".into(),
        scales: "w_blocks".into(),
        first: 0,
        step: 1,
    };
    refuse(swapped, &[2, 3, 64], "U8 of shape [2, 3, 2]");
}

#[test]
fn functions_of_elements_are_computed_in_any_range() {
    let mut file = MemoryWeights::default();
    let rates = [-1.0f32, -2.5, -0.125, -40.0];
    file.insert("a", &[4, 1], &rates).unwrap();
    let mut views = Views::new(&file);
    let view = View::Mapped {
        rows: vec![("a".into(), 2..4), ("a".into(), 0..1)],
        function: ElementFunction::LogOfNegative,
    };
    views.add("log", view, &[3]).unwrap();
    let read = |range| {
        pollster::block_on(views.read("log", range))
            .unwrap()
            .into_owned()
    };
    let all = read(0..12);
    let values: Vec<f32> = bytemuck::pod_collect_to_vec(&all);
    assert_eq!(values, [0.125f32.ln(), 40f32.ln(), 0.0]);
    for start in 0..=12 {
        for end in start..=12 {
            assert_eq!(
                read(start..end),
                all[start as usize..end as usize],
                "{start}..{end}"
            );
        }
    }
}

/// A GGUF file with the matrices `k: Q8_0 [2, 3, 32]`, whose weights count up.
fn quantized_matrices() -> Checkpoint {
    use crate::gguf::GgufHeaderBuilder;
    let mut header = GgufHeaderBuilder::default();
    header.key(
        "general.architecture",
        crate::gguf::Value::String("test".into()),
    );
    let ggml_type = Encoding::Q8_0.ggml_type().unwrap();
    header.tensor("k", ggml_type, &[2, 3, 32], 6 * 34);
    let mut file = header.bytes();
    for row in 0..6i8 {
        file.extend(half::f16::ONE.to_le_bytes());
        file.extend((0..32i8).map(|col| (row * 16 + col - 64) as u8));
    }
    Checkpoint::from_bytes("test.gguf", file).unwrap()
}

#[test]
fn transposed_matrices_of_blocks_are_read_in_any_range() {
    let checkpoint = quantized_matrices();
    let mut views = Views::new(&checkpoint);
    let view = || View::TransposedMatrices {
        tensor: "k".into(),
        matrices: 2,
        rows: 0..3,
    };
    views.add("v", view(), &[2, 32, 3]).unwrap();
    let info = views.find("v").unwrap();
    assert_eq!((info.encoding().unwrap(), info.len), (Encoding::F32, 768));
    let all: Vec<f32> = (0..192)
        .map(|i| {
            let (matrix, col, row) = (i / 96, i / 3 % 32, i % 3);
            ((matrix * 3 + row) * 16 + col - 64) as f32
        })
        .collect();
    for start in (0..=192).step_by(11) {
        for end in (start..=192).step_by(7) {
            let found = read(&views, "v", start as u64..end as u64);
            assert_eq!(found, all[start..end], "{start}..{end}");
        }
    }
    let error = views.add("w", view(), &[3, 64]).unwrap_err().to_string();
    assert!(
        error.contains("[2, 3, 32]") && error.contains("[3, 64]"),
        "{error}"
    );
}

#[test]
fn some_rows_of_matrices_are_transposed_in_their_own_precision() {
    use crate::gguf::GgufHeaderBuilder;
    for encoding in [Encoding::F32, Encoding::F16, Encoding::BF16] {
        let bytes: Vec<u8> = match encoding {
            Encoding::F32 => (0..30u32).flat_map(u32::to_le_bytes).collect(),
            _ => (0..30u16).flat_map(u16::to_le_bytes).collect(),
        };
        let mut header = GgufHeaderBuilder::default();
        header.key(
            "general.architecture",
            crate::gguf::Value::String("test".into()),
        );
        let ggml_type = encoding.ggml_type().unwrap();
        header.tensor("k", ggml_type, &[10, 3], bytes.len() as u64);
        let mut file = header.bytes();
        file.extend(&bytes);
        let checkpoint = Checkpoint::from_bytes("test.gguf", file).unwrap();
        let mut views = Views::new(&checkpoint);
        let view = |matrices, rows| View::TransposedMatrices {
            tensor: "k".into(),
            matrices,
            rows,
        };
        views.add("v", view(2, 1..4), &[2, 3, 3]).unwrap();
        let info = views.find("v").unwrap();
        assert_eq!(info.encoding().unwrap(), encoding);
        let found = pollster::block_on(views.read("v", 0..info.len)).unwrap();
        let size = bytes.len() / 30;
        let numbers = found.chunks(size).map(|element| u32::from(element[0]));
        // Rows 1 to 3 of both matrices of 5 rows.
        let expected = (0..18).map(|i| {
            let (matrix, col, row) = (i / 9, i / 3 % 3, i % 3);
            (matrix * 5 + row + 1) * 3 + col
        });
        assert!(numbers.eq(expected), "{encoding}: {found:?}");
        for (matrices, rows) in [(0, 0..0), (3, 0..3), (2, 3..6), (2, 1..3)] {
            assert!(views.add("w", view(matrices, rows), &[2, 3, 3]).is_err());
        }
    }
}
