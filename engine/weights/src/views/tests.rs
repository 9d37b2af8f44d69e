//! Views of a small safetensors file.

use super::*;
use crate::Checkpoint;

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
        .add("v", View::Transposed("a".into(), 1..3), &[2, 4])
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
    refuse(View::Transposed("a".into(), 0..4), &[4, 4], "[4, 3]");
    refuse(View::Transposed("a".into(), 0..2), &[2, 3], "[4, 3]");
}
