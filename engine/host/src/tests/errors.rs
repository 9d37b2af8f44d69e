//! What twins refuse, and how that reads.

use wisp_shaders::params::*;

use super::super::testing::{bind, buffer, call, contents, run};
use super::super::{HostBuffer, HostError};
use super::zeros;

#[test]
fn what_may_overlap() {
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
    let said = |a, b, out| call(a, b, out).unwrap_err().to_string();
    assert_eq!(
        said(0, 1, 2),
        "binary_contiguous: bindings 2 and 3 overlap, and one is written"
    );
    assert_eq!(
        said(2, 0, 2),
        "binary_contiguous: bindings 1 and 3 overlap, and one is written"
    );
}

#[test]
fn wrong_arguments_are_errors() {
    let message = |result: Result<(), HostError>| result.unwrap_err().to_string();
    let params = BinaryContiguousParams {
        len: 4,
        b_len: 1,
        kind: 0,
        scale: 0.0,
    };
    let (four, three) = (zeros::<f32>(4), zeros::<f32>(3));
    assert_eq!(
        message(run("binary_contiguous", params, &[&four, &four, &three])),
        "binary_contiguous: binding 3 needs 4 elements, 3 are bound"
    );
    assert_eq!(
        message(run("binary_contiguous", params, &[&four])),
        "binary_contiguous: binding 2 is not bound"
    );
    assert_eq!(
        message(run("binary_contiguous", 0u32, &[&four])),
        "binary_contiguous: parameters take 16 bytes, 4 given"
    );
    let params = RowsParams { rows: 1, cols: 3 };
    let bindings = [bind(1, &four, 2..14), bind(2, &three, 0..12)];
    assert_eq!(
        message(call("softmax", params, &bindings)),
        "softmax: binding 1 is not aligned to 4 bytes"
    );
    assert_eq!(
        message(call("softmax", params, &[bind(1, &four, 0..20)])),
        "softmax: binding 1 ends at byte 20 of a buffer of 16"
    );
}

/// Products that overflow count as more than there can be.
#[test]
fn sizes_that_overflow_are_errors() {
    let most = u32::MAX;
    let rows = RowsParams {
        rows: most,
        cols: most,
    };
    let matmul = MatmulParams {
        tokens: most,
        rows: most,
        cols: most - 31,
        blocks: most / 32,
        out_stride: most,
        ..Default::default()
    };
    let attention = AttentionParams {
        tokens: most,
        heads: most,
        kv_heads: most,
        head_dim: 256,
        page_size: most,
        max_pages: most,
        ..Default::default()
    };
    for (op, said, elements) in [
        ("softmax", said("softmax", rows, &[]), 18446744065119617025),
        ("argmax", said("argmax", rows, &[]), 18446744065119617025),
        (
            "matmul.q4_0",
            said("matmul.q4_0", matmul, &[]),
            18446743931975630880,
        ),
        (
            "attention.f32",
            said("attention.f32", attention, &[]),
            u64::MAX,
        ),
    ] {
        let expected = format!("{op}: binding 1 needs {elements} elements, 256 are bound");
        assert_eq!(said, expected);
    }
}

/// What an op says of these parameters, over zeros but for some bindings.
fn said<P: bytemuck::Pod>(op: &str, params: P, given: &[(usize, &[u32])]) -> String {
    let bound = (1..=8).map(|number| {
        let given = given.iter().find(|(binding, _)| *binding == number);
        given.map_or_else(|| zeros::<u32>(256), |(_, words)| buffer(words))
    });
    let bound: Vec<HostBuffer> = bound.collect();
    let bound: Vec<&HostBuffer> = bound.iter().collect();
    run(op, params, &bound).unwrap_err().to_string()
}

/// What data can be: a position, a page or a token that is not there.
#[test]
fn wrong_data_is_told() {
    let attention = AttentionParams {
        tokens: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
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
    let most = u32::MAX;
    let table: &[u32] = &[0, 1, 2, 3, 4, 40];
    let paged = |index: [u32; 2]| said("attention.f32", attention, &[(4, &index), (5, table)]);
    let turned = |index: [u32; 2]| said("rope", rope, &[(2, &index), (3, &[0; 12])]);
    let adapted = |index, adapters| said("lora_shrink", shrink, &[(2, index), (3, adapters)]);
    for (said, expected) in [
        (
            paged([0, 6]),
            "attention.f32: a position must be less than 6, it is 6",
        ),
        (
            paged([0, most]),
            "attention.f32: a position must be less than 6, it is 4294967295",
        ),
        (
            paged([2, 0]),
            "attention.f32: a sequence must be less than 2, it is 2",
        ),
        (
            paged([most, 0]),
            "attention.f32: a sequence must be less than 2, it is 4294967295",
        ),
        // 256 words are 32 pages.
        (
            paged([1, 5]),
            "attention.f32: a page must be less than 32, it is 40",
        ),
        (
            turned([0, 3]),
            "rope: a position must be less than 3, it is 3",
        ),
        (
            said("gather", gather, &[(2, &[0, 1, 2])]),
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
        assert_eq!(said, expected);
    }
}

#[test]
fn wrong_settings_of_a_draw_are_told() {
    let params = SampleParams {
        rows: 1,
        vocab: 4,
        max_biases: 2,
        logprob_words: 1,
    };
    let draw = |params: SampleParams, settings: SampleSettings, biases: usize| {
        let settings: &[u32] = bytemuck::cast_slice(std::slice::from_ref(&settings));
        let biases = vec![0; 4 * biases];
        // Room for two sequences and three steps.
        let given: [(usize, &[u32]); 4] = [(2, settings), (3, &[0; 8]), (6, &[0; 3]), (7, &biases)];
        said("sample", params, &given)
    };
    let plain = SampleSettings::default();
    for (said, expected) in [
        (
            draw(SampleParams { vocab: 0, ..params }, plain, 4),
            "sample: vocab must be at least 1, it is 0",
        ),
        (
            draw(
                params,
                SampleSettings {
                    sequence: 2,
                    ..plain
                },
                4,
            ),
            "sample: a sequence must be less than 2, it is 2",
        ),
        (
            draw(params, SampleSettings { step: 3, ..plain }, 4),
            "sample: a step must be less than 3, it is 3",
        ),
        (
            draw(params, SampleSettings { biases: 3, ..plain }, 4),
            "sample: biases must be at most 2, it is 3",
        ),
        (
            draw(
                params,
                SampleSettings {
                    sequence: 1,
                    ..plain
                },
                3,
            ),
            "sample: binding 7 needs 4 elements, 3 are bound",
        ),
        (
            draw(
                SampleParams {
                    logprob_words: 0,
                    ..params
                },
                SampleSettings {
                    logprobs: 1,
                    ..plain
                },
                4,
            ),
            "sample: logprob_words must be at least 1, it is 0",
        ),
    ] {
        assert_eq!(said, expected);
    }
}

/// What only a forged program can ask for.
#[test]
fn wrong_sizes_are_told() {
    let attention = AttentionParams {
        tokens: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        page_size: 2,
        max_pages: 3,
        ..Default::default()
    };
    let write = KvWriteParams {
        tokens: 1,
        kv_heads: 1,
        head_dim: 4,
        k_stride: 5,
        k_offset: 1,
        v_stride: 5,
        v_offset: 1,
        page_size: 1,
        max_pages: 1,
    };
    let expand = LoraExpandParams {
        tokens: 1,
        rows: 4,
        rank: 1,
        projections: 3,
        first_row: 2,
        b_rows: 6,
        second_start: 3,
        third_start: 5,
    };
    let conv = Conv2dParams {
        len: 4,
        in_channels: 2,
        out_channels: 2,
        out_height: 1,
        out_width: 2,
        groups: 2,
        ..Default::default()
    };
    let matmul = MatmulParams {
        rows: 2,
        cols: 33,
        blocks: 2,
        out_stride: 3,
        out_offset: 1,
        ..Default::default()
    };
    let experts = MatmulExpertsParams {
        pairs: 3,
        cols: 33,
        blocks: 2,
        pairs_per_row: 3,
        ..Default::default()
    };
    let embed = EmbedParams {
        cols: 33,
        blocks: 2,
        id_stride: 1,
        ..Default::default()
    };
    let gated = GatedParams {
        cols: 3,
        gate_stride: 4,
        gate_offset: 1,
        up_stride: 4,
        up_offset: 1,
        ..Default::default()
    };
    let rope = RopeParams {
        heads: 2,
        head_dim: 4,
        rotary_dim: 4,
        stride: 9,
        offset: 1,
        ..Default::default()
    };
    let turned_write = RopeKvWriteParams {
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        rotary_dim: 3,
        ..Default::default()
    };
    let [copy, huge] = [(9, [0; 8]), (2, [u32::MAX; 8])].map(|(rank, dims)| CopyParams {
        rank,
        dims,
        ..Default::default()
    });
    let binary = BinaryParams {
        kind: 15,
        ..Default::default()
    };
    let elementwise = BinaryContiguousParams {
        len: 1,
        b_len: 1,
        ..Default::default()
    };
    let reduction = ReduceParams {
        axis_size: 1,
        kind: 4,
        ..Default::default()
    };
    let map = |kind| {
        let params = MapParams {
            kind,
            ..Default::default()
        };
        said("map", params, &[])
    };
    let mut all = vec![
        (
            "argmax: cols must be at least 1, it is 0",
            said("argmax", RowsParams { rows: 1, cols: 0 }, &[]),
        ),
        (
            "map: kind must be 0 to 3, 8, 9 or 16 to 33, it is 4",
            map(4),
        ),
        (
            "map: kind must be 0 to 3, 8, 9 or 16 to 33, it is 34",
            map(34),
        ),
        (
            "reduce: kind must be 0 to 3, it is 4",
            said("reduce", reduction, &[]),
        ),
        (
            "copy: rank must be at most 8, it is 9",
            said("copy", copy, &[]),
        ),
        (
            "copy: the number of places must be less than 2^32, it is 18446744065119617025",
            said("copy", huge, &[]),
        ),
        (
            "binary: kind must be an operation of its type, it is 15",
            said("binary", binary, &[]),
        ),
    ];
    /// Rows of one op: a message, and what of its good parameters is otherwise.
    macro_rules! wrong {
        ($op:literal, $good:expr, $($field:ident = $value:expr => $said:literal,)*) => {$(
            let mut params = $good;
            params.$field = $value;
            all.push((concat!($op, ": ", $said), said($op, params, &[])));
        )*};
    }
    wrong!("attention.f32", attention,
        head_dim = 0 => "head_dim must be from 1 to 256, it is 0",
        head_dim = 257 => "head_dim must be from 1 to 256, it is 257",
        kv_heads = 3 => "heads must be a multiple of kv_heads, 3, it is 2",
        page_size = 0 => "page_size must be at least 1, it is 0",
    );
    wrong!("conv2d", conv,
        in_channels = 3 => "in_channels must be a multiple of 2 groups, it is 3",
        out_channels = 0 => "out_channels must be a multiple of 2 groups, it is 0",
        len = 5 => "len must be whole images, it is 5",
    );
    wrong!("binary_contiguous", elementwise,
        kind = 5 => "kind must be 0, 1 or 2, it is 5",
        b_len = 0 => "b_len must be at least 1, it is 0",
    );
    wrong!("embed.f32", embed,
        blocks = 1 => "blocks must be 2, it is 1",
        id_offset = 1 => "id_offset must be less than 1, it is 1",
    );
    wrong!("gated", gated,
        gate_stride = 3 => "gate_stride must be at least 4, it is 3",
        up_stride = 3 => "up_stride must be at least 4, it is 3",
        activation = 4 => "activation must be 0 to 3, it is 4",
    );
    wrong!("kv_write.f32", write,
        k_stride = 4 => "k_stride must be at least 5, it is 4",
        v_stride = 4 => "v_stride must be at least 5, it is 4",
    );
    wrong!("lora_expand", expand,
        rows = 5 => "rows must be at most 4, it is 5",
        first_row = 7 => "rows must be at most 0, it is 4",
        second_start = 6 => "second_start must be at most 5, it is 6",
        projections = 2 => "projections must be at least 3, it is 2",
    );
    wrong!("matmul.f32", matmul,
        blocks = 1 => "blocks must be 2, it is 1",
        out_stride = 2 => "out_stride must be at least 3, it is 2",
    );
    wrong!("matmul_experts.f32", experts,
        blocks = 1 => "blocks must be 2, it is 1",
        pairs_per_row = 2 => "pairs_per_row must be a divisor of 3 pairs, it is 2",
        pairs_per_row = 0 => "pairs_per_row must be a divisor of 3 pairs, it is 0",
    );
    wrong!("reduce", reduction, axis_size = 0 => "axis_size must be at least 1, it is 0",);
    wrong!("rope", rope,
        stride = 8 => "stride must be at least 9, it is 8",
        rotary_dim = 3 => "rotary_dim must be even and at most 4, it is 3",
        rotary_dim = 6 => "rotary_dim must be even and at most 4, it is 6",
    );
    wrong!("rope_kv_write.f32", turned_write,
        rotary_dim = 6 => "rotary_dim must be even and at most 4, it is 6",
    );
    let (route, top_k) = (RouteParams::default(), TopKParams::default());
    wrong!("route", route, experts_per_token = 1 => "experts_per_token must be at most 0, it is 1",);
    wrong!("top_k", top_k, k = 1 => "k must be at most 0, it is 1",);
    for (expected, said) in all {
        assert_eq!(said, expected);
    }
}

/// Weights that are not whole, and a format of the cache that there is not.
#[test]
fn what_is_encoded_wrong_is_told() {
    let matmul = MatmulParams {
        tokens: 1,
        rows: 2,
        cols: 32,
        blocks: 1,
        out_stride: 2,
        ..Default::default()
    };
    assert_eq!(
        said("matmul.q4_0", matmul, &[(4, &[0; 7])]),
        "matmul.q4_0: the main plane of Q4_0 weights takes 32 bytes, but 28 were given"
    );
    let attention = AttentionParams {
        tokens: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        page_size: 1,
        max_pages: 1,
        ..Default::default()
    };
    assert_eq!(
        said("attention.q9", attention, &[]),
        "attention.q9: the KV cache has no such format"
    );
}
