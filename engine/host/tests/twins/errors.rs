//! The errors of kernels' host twins: bindings, sizes, data and parameters.

mod parameters;

use wisp_shaders::params::*;

use super::zeros;
use crate::support::{bind, buffer, call, contents, run};
use wisp_host::{HostBuffer, HostError};

#[test]
fn overlapping_bindings_are_an_error_if_one_is_written() {
    let all = buffer(&[1.0f32, 2.0, 3.0, 4.0]);
    let params = BinaryContiguousParams {
        len: 2,
        b_len: 2,
        kind: 0,
        scale: 0.0,
    };
    let call = |a: usize, b: usize, out: usize| {
        let part = |number, at: usize| bind(number, &all, 4 * at..4 * at + 8);
        call(
            "binary_contiguous",
            params,
            &[part(1, a), part(2, b), part(3, out)],
        )
    };
    assert_eq!(call(0, 0, 2), Ok(()));
    assert_eq!(contents::<f32>(&all), [1.0, 2.0, 2.0, 4.0]);
    let error = |a, b, out| call(a, b, out).unwrap_err().to_string();
    assert_eq!(
        error(0, 1, 2),
        "binary_contiguous: bindings 2 and 3 overlap, and one is written"
    );
    assert_eq!(
        error(2, 0, 2),
        "binary_contiguous: bindings 1 and 3 overlap, and one is written"
    );
}

#[test]
fn missing_short_and_misaligned_bindings_are_errors() {
    let error = |result: Result<(), HostError>| result.unwrap_err().to_string();
    let params = BinaryContiguousParams {
        len: 4,
        b_len: 1,
        kind: 0,
        scale: 0.0,
    };
    let (four, three) = (zeros::<f32>(4), zeros::<f32>(3));
    assert_eq!(
        error(run("binary_contiguous", params, &[&four, &four, &three])),
        "binary_contiguous: binding 3 needs 4 elements, 3 are bound"
    );
    assert_eq!(
        error(run("binary_contiguous", params, &[&four])),
        "binary_contiguous: binding 2 is not bound"
    );
    assert_eq!(
        error(run("binary_contiguous", 0u32, &[&four])),
        "binary_contiguous: parameters take 16 bytes, 4 given"
    );
    let params = RowsParams { rows: 1, cols: 3 };
    let bindings = [bind(1, &four, 2..14), bind(2, &three, 0..12)];
    assert_eq!(
        error(call("softmax", params, &bindings)),
        "softmax: binding 1 is not aligned to 4 bytes"
    );
    assert_eq!(
        error(call("softmax", params, &[bind(1, &four, 0..20)])),
        "softmax: binding 1 ends at byte 20 of a buffer of 16"
    );
}

/// A product of sizes that overflows saturates.
#[test]
fn overflowing_sizes_are_errors() {
    let max = u32::MAX;
    let rows = RowsParams {
        rows: max,
        cols: max,
    };
    let matmul = MatmulParams {
        tokens: max,
        rows: max,
        cols: max - 31,
        blocks: max / 32,
        out_stride: max,
        ..Default::default()
    };
    let attention = AttentionParams {
        tokens: max,
        heads: max,
        kv_heads: max,
        head_dim: 256,
        value_dim: 256,
        page_size: max,
        max_pages: max,
        ..Default::default()
    };
    for (op, error, elements) in [
        (
            "softmax",
            message("softmax", rows, &[]),
            18446744065119617025,
        ),
        ("argmax", message("argmax", rows, &[]), 18446744065119617025),
        (
            "matmul.q4_0",
            message("matmul.q4_0", matmul, &[]),
            18446743931975630880,
        ),
        (
            "attention.f32",
            message("attention.f32", attention, &[]),
            u64::MAX,
        ),
    ] {
        let expected = format!("{op}: binding 1 needs {elements} elements, 256 are bound");
        assert_eq!(error, expected);
    }
}

/// The error of an op with these parameters. `given` has the contents of some bindings by number; the
/// others are 256 zeros.
fn message<P: bytemuck::Pod>(op: &str, params: P, given: &[(usize, &[u32])]) -> String {
    let bound = (1..=8).map(|number| {
        let given = given.iter().find(|(binding, _)| *binding == number);
        given.map_or_else(|| zeros::<u32>(256), |(_, words)| buffer(words))
    });
    let bound: Vec<HostBuffer> = bound.collect();
    let bound: Vec<&HostBuffer> = bound.iter().collect();
    run(op, params, &bound).unwrap_err().to_string()
}

#[test]
fn positions_pages_sequences_indices_and_adapters_out_of_range_are_errors() {
    let attention = AttentionParams {
        tokens: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        value_dim: 4,
        page_size: 2,
        max_pages: 3,
        ..Default::default()
    };
    let rope = RopeParams {
        tokens: 1,
        heads: 1,
        head_dim: 4,
        rotary_dim: 4,
        stride: 4,
        ..Default::default()
    };
    let gather = GatherParams {
        outer: 1,
        axis_size: 2,
        inner: 2,
        index_count: 3,
    };
    let shrink = LoraShrinkParams {
        tokens: 1,
        rows: 2,
        cols: 32,
    };
    let max = u32::MAX;
    let table: &[u32] = &[0, 1, 2, 3, 4, 40];
    let paged = |index: [u32; 2]| message("attention.f32", attention, &[(4, &index), (5, table)]);
    let rotated = |index: [u32; 2]| message("rope", rope, &[(2, &index), (3, &[0; 12])]);
    let adapted = |index, adapters| message("lora_shrink", shrink, &[(2, index), (3, adapters)]);
    for (error, expected) in [
        (
            paged([0, 6]),
            "attention.f32: a position must be less than 6, it is 6",
        ),
        (
            paged([0, max]),
            "attention.f32: a position must be less than 6, it is 4294967295",
        ),
        (
            paged([2, 0]),
            "attention.f32: a sequence must be less than 2, it is 2",
        ),
        (
            paged([max, 0]),
            "attention.f32: a sequence must be less than 2, it is 4294967295",
        ),
        // 256 words are 32 pages.
        (
            paged([1, 5]),
            "attention.f32: a page must be less than 32, it is 40",
        ),
        (
            rotated([0, 3]),
            "rope: a position must be less than 3, it is 3",
        ),
        (
            message("gather", gather, &[(2, &[0, 1, 2])]),
            "gather: an index must be less than 2, it is 2",
        ),
        (
            adapted(&[2, 0], &[0, 0]),
            "lora_shrink: a sequence must be less than 2, it is 2",
        ),
        // 256 words are four adapters.
        (
            adapted(&[1, 0], &[0, 5]),
            "lora_shrink: an adapter must be at most 4, it is 5",
        ),
    ] {
        assert_eq!(error, expected);
    }
}

#[test]
fn invalid_sampling_settings_are_errors() {
    let params = SampleParams {
        rows: 1,
        vocab: 4,
        max_biases: 2,
        logprob_words: 1,
    };
    let words = |settings: SampleSettings| -> Vec<u32> {
        bytemuck::cast_slice(std::slice::from_ref(&settings)).to_vec()
    };
    let scan = |params: SampleParams, settings: SampleSettings, biases: usize| {
        let (settings, biases) = (words(settings), vec![0; 4 * biases]);
        // Room for two sequences.
        let given: [(usize, &[u32]); 4] =
            [(2, &settings), (3, &[0; 8]), (4, &biases), (5, &[0; 2])];
        message("sample_scan", params, &given)
    };
    let select = |params: SampleParams, settings: SampleSettings| {
        let settings = words(settings);
        // Room for two sequences and three steps.
        let given: [(usize, &[u32]); 3] = [(3, &settings), (4, &[0; 8]), (7, &[0; 3])];
        message("sample", params, &given)
    };
    let base = SampleSettings::default();
    let sequence = |sequence| SampleSettings { sequence, ..base };
    for (error, expected) in [
        (
            scan(SampleParams { vocab: 0, ..params }, base, 4),
            "sample_scan: vocab must be from 1 to 524288, it is 0",
        ),
        (
            scan(params, sequence(2), 4),
            "sample_scan: a sequence must be less than 2, it is 2",
        ),
        (
            select(params, sequence(2)),
            "sample: a sequence must be less than 2, it is 2",
        ),
        (
            select(params, SampleSettings { step: 3, ..base }),
            "sample: a step must be less than 3, it is 3",
        ),
        (
            scan(params, SampleSettings { biases: 3, ..base }, 4),
            "sample_scan: biases must be at most 2, it is 3",
        ),
        (
            scan(params, sequence(1), 3),
            "sample_scan: binding 4 needs 4 elements, 3 are bound",
        ),
        (
            select(
                SampleParams {
                    logprob_words: 0,
                    ..params
                },
                SampleSettings {
                    logprobs: 1,
                    ..base
                },
            ),
            "sample: logprob_words must be at least 1, it is 0",
        ),
    ] {
        assert_eq!(error, expected);
    }
}

#[test]
fn truncated_weights_and_unknown_cache_formats_are_errors() {
    let matmul = MatmulParams {
        tokens: 1,
        rows: 2,
        cols: 32,
        blocks: 1,
        out_stride: 2,
        ..Default::default()
    };
    assert_eq!(
        message("matmul.q4_0", matmul, &[(4, &[0; 7])]),
        "matmul.q4_0: the main plane of Q4_0 weights takes 32 bytes, but 28 were given"
    );
    let attention = AttentionParams {
        tokens: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        value_dim: 4,
        page_size: 1,
        max_pages: 1,
        ..Default::default()
    };
    assert_eq!(
        message("attention.q9", attention, &[]),
        "attention.q9: the KV cache has no such format"
    );
}
