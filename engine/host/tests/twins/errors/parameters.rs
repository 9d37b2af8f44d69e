//! Parameters that are out of range. The compiler writes none of these, but a forged program can.

use wisp_shaders::params::*;

use super::{buffer, message, run, zeros};

/// Asserts the message for each change of one field of valid parameters.
macro_rules! assert_rejected {
    ($op:literal, $valid:expr, $($field:ident = $value:expr => $message:literal,)*) => {$(
        let mut params = $valid;
        params.$field = $value;
        assert_eq!(message($op, params, &[]), concat!($op, ": ", $message));
    )*};
}

#[test]
fn attention_needs_valid_heads_and_pages() {
    let attention = AttentionParams {
        tokens: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        value_dim: 3,
        page_size: 2,
        max_pages: 3,
        ..Default::default()
    };
    assert_rejected!("attention.f32", attention,
        head_dim = 0 => "head_dim must be from 1 to 576, it is 0",
        head_dim = 577 => "head_dim must be from 1 to 576, it is 577",
        value_dim = 0 => "value_dim must be from 1 to 4, it is 0",
        value_dim = 5 => "value_dim must be from 1 to 4, it is 5",
        kv_heads = 3 => "heads must be a multiple of kv_heads, 3, it is 2",
        page_size = 0 => "page_size must be at least 1, it is 0",
    );
}

#[test]
fn cache_writes_need_rows_within_the_stride() {
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
    assert_rejected!("kv_write.f32", write,
        k_stride = 4 => "k_stride must be at least 5, it is 4",
        v_stride = 4 => "v_stride must be at least 5, it is 4",
    );
}

#[test]
fn rope_needs_an_even_rotary_dim_within_the_head() {
    let rope = RopeParams {
        heads: 2,
        head_dim: 4,
        rotary_dim: 4,
        stride: 9,
        offset: 1,
        ..Default::default()
    };
    assert_rejected!("rope", rope,
        stride = 8 => "stride must be at least 9, it is 8",
        rotary_dim = 3 => "rotary_dim must be even and at most 4, it is 3",
        rotary_dim = 6 => "rotary_dim must be even and at most 4, it is 6",
    );
    let write = RopeKvWriteParams {
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        rotary_dim: 3,
        ..Default::default()
    };
    assert_rejected!("rope_kv_write.f32", write,
        rotary_dim = 6 => "rotary_dim must be even and at most 4, it is 6",
    );
}

#[test]
fn matmuls_need_matching_blocks_and_strides() {
    let matmul = MatmulParams {
        rows: 2,
        cols: 33,
        blocks: 2,
        out_stride: 3,
        out_offset: 1,
        ..Default::default()
    };
    assert_rejected!("matmul.f32", matmul,
        blocks = 1 => "blocks must be 2, it is 1",
        out_stride = 2 => "out_stride must be at least 3, it is 2",
    );
    let experts = MatmulExpertsParams {
        pairs: 3,
        cols: 33,
        blocks: 2,
        pairs_per_row: 3,
        ..Default::default()
    };
    assert_rejected!("matmul_experts.f32", experts,
        blocks = 1 => "blocks must be 2, it is 1",
        pairs_per_row = 2 => "pairs_per_row must be a divisor of 3 pairs, it is 2",
        pairs_per_row = 0 => "pairs_per_row must be a divisor of 3 pairs, it is 0",
    );
}

#[test]
fn embed_needs_matching_blocks_and_ids_within_the_stride() {
    let embed = EmbedParams {
        cols: 33,
        blocks: 2,
        id_stride: 1,
        ..Default::default()
    };
    assert_rejected!("embed.f32", embed,
        blocks = 1 => "blocks must be 2, it is 1",
        id_offset = 1 => "id_offset must be less than 1, it is 1",
    );
}

#[test]
fn lora_expand_needs_rows_within_the_adapter() {
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
    assert_rejected!("lora_expand", expand,
        rows = 5 => "rows must be at most 4, it is 5",
        first_row = 7 => "rows must be at most 0, it is 4",
        second_start = 6 => "second_start must be at most 5, it is 6",
        projections = 2 => "projections must be at least 3, it is 2",
    );
}

#[test]
fn conv2d_needs_whole_groups_and_images() {
    let conv = Conv2dParams {
        len: 4,
        in_channels: 2,
        out_channels: 2,
        out_height: 1,
        out_width: 2,
        groups: 2,
        ..Default::default()
    };
    assert_rejected!("conv2d", conv,
        in_channels = 3 => "in_channels must be a multiple of 2 groups, it is 3",
        out_channels = 0 => "out_channels must be a multiple of 2 groups, it is 0",
        len = 5 => "len must be whole images, it is 5",
        out_width = 0 => "len must be whole images, it is 4",
    );
}

#[test]
fn batch_matmul_needs_operands_that_bound_k() {
    let product = BatchMatmulParams {
        m: 1,
        n: 1,
        k: u32::MAX,
        ..Default::default()
    };
    let one = buffer(&[1f32]);
    let error = run("batch_matmul", product, &[&one, &one, &zeros::<f32>(1)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "batch_matmul: k must be at most 1, it is 4294967295"
    );
}

#[test]
fn gated_needs_valid_strides_and_activation() {
    let gated = GatedParams {
        cols: 3,
        gate_stride: 4,
        gate_offset: 1,
        up_stride: 4,
        up_offset: 1,
        ..Default::default()
    };
    assert_rejected!("gated", gated,
        gate_stride = 3 => "gate_stride must be at least 4, it is 3",
        up_stride = 3 => "up_stride must be at least 4, it is 3",
        activation = 4 => "activation must be 0 to 3, it is 4",
    );
}

#[test]
fn binary_needs_a_valid_kind_and_operand() {
    let elementwise = BinaryContiguousParams {
        len: 1,
        b_len: 1,
        ..Default::default()
    };
    assert_rejected!("binary_contiguous", elementwise,
        kind = 5 => "kind must be 0, 1 or 2, it is 5",
        b_len = 0 => "b_len must be at least 1, it is 0",
    );
    let binary = BinaryParams {
        kind: 15,
        ..Default::default()
    };
    assert_eq!(
        message("binary", binary, &[]),
        "binary: kind must be an operation of its type, it is 15"
    );
}

#[test]
fn map_needs_a_valid_kind() {
    for kind in [4, 34] {
        let params = MapParams {
            kind,
            ..Default::default()
        };
        assert_eq!(
            message("map", params, &[]),
            format!("map: kind must be 0 to 3, 8, 9 or 16 to 33, it is {kind}")
        );
    }
}

#[test]
fn reduce_needs_a_valid_kind_and_axis() {
    let reduction = ReduceParams {
        axis_size: 1,
        kind: 4,
        ..Default::default()
    };
    assert_rejected!("reduce", reduction, axis_size = 0 => "axis_size must be at least 1, it is 0",);
    assert_eq!(
        message("reduce", reduction, &[]),
        "reduce: kind must be 0 to 3, it is 4"
    );
}

#[test]
fn copy_needs_a_valid_rank_and_fewer_than_2_pow_32_elements() {
    for (rank, dims, expected) in [
        (9, [0; 8], "copy: rank must be at most 8, it is 9"),
        (
            2,
            [u32::MAX; 8],
            "copy: the number of places must be less than 2^32, it is 18446744065119617025",
        ),
    ] {
        let params = CopyParams {
            rank,
            dims,
            ..Default::default()
        };
        assert_eq!(message("copy", params, &[]), expected);
    }
}

#[test]
fn selections_need_enough_columns() {
    assert_eq!(
        message("argmax", RowsParams { rows: 1, cols: 0 }, &[]),
        "argmax: cols must be at least 1, it is 0"
    );
    let (route, top_k) = (RouteParams::default(), TopKParams::default());
    assert_rejected!("route", route, experts_per_token = 1 => "experts_per_token must be at most 0, it is 1",);
    assert_rejected!("top_k", top_k, k = 1 => "k must be at most 0, it is 1",);
}

#[test]
fn sequences_may_not_read_a_row_of_state_that_another_one_writes() {
    let params = LinearRecurrenceParams {
        tokens: 2,
        batch: 2,
        k_heads: 1,
        v_heads: 1,
        k_dim: 1,
        v_dim: 1,
        eps: 1e-6,
        scale: 1.0,
    };
    let run = |rows: [[u32; 2]; 2]| {
        let spans = [0u32, 1].map(|at| [at, 1, rows[at as usize][0], rows[at as usize][1]]);
        let [keys, gates, head, out] = [6, 4, 1, 2].map(zeros::<f32>);
        let (spans, state) = (buffer(&spans), zeros::<f32>(4));
        let bindings = [&keys, &gates, &head, &head, &spans, &state, &out];
        run("gated_delta_rule", params, &bindings)
    };
    // Sequences continue their own rows, one that both read, or one that nothing writes.
    for rows in [[[0, 0], [1, 1]], [[2, 0], [2, 1]], [[3, 0], [1, 1]]] {
        assert_eq!(run(rows), Ok(()), "{rows:?}");
    }
    for (rows, read) in [([[1, 0], [1, 1]], 1), ([[0, 0], [0, 1]], 0)] {
        let expected = "a row read must be a row that no other sequence writes, it is";
        let error = run(rows).unwrap_err().to_string();
        assert_eq!(error, format!("gated_delta_rule: {expected} {read}"));
    }
}
