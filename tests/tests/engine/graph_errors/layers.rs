//! Layers that are composed of several ops.

use wisp_engine::{
    graph::{ConvSpec, PoolSpec},
    shape,
};

use super::{TestGraph, assert_error};

#[test]
fn convolutions_need_images_and_filters_that_fit() {
    let mut b = TestGraph::new();
    let image = b.f32(shape!["n", 3u64, 8u64, 8u64]);
    let x = b.f32(shape!["n", 6u64]);
    let (filters, spec) = (
        b.weight(shape![4u64, 3u64, 3u64, 3u64]),
        ConvSpec::default(),
    );
    assert_error!(
        b,
        conv2d(x, filters, None, spec),
        [x, filters],
        "conv2d: the image must be a tensor of 4 dimensions, but $0 is [n, 6]"
    );
    let bias = b.weight(shape![5u64]);
    assert_error!(
        b,
        conv2d(image, filters, Some(bias), spec),
        [image, filters, bias],
        "conv2d: the bias must be f32[4], but $2 is f32[5]"
    );
    let dilated = ConvSpec {
        dilation: [5, 1],
        ..spec
    };
    assert_error!(
        b,
        conv2d(image, filters, None, dilated),
        [image, filters],
        "conv2d: a filter of 3 pixels (stride 1, dilation 5) does not fit 8 pixels with 0 of padding on both sides"
    );
    let zero_stride = ConvSpec {
        stride: [0, 1],
        ..spec
    };
    assert_error!(
        b,
        conv2d(image, filters, None, zero_stride),
        [image, filters],
        "conv2d: a filter of 3 pixels (stride 0, dilation 1) does not fit 8 pixels with 0 of padding on both sides"
    );
    let any_height = b.f32(shape!["n", 3u64, "h", 8u64]);
    assert_error!(
        b,
        conv2d(any_height, filters, None, spec),
        [any_height, filters],
        "conv2d: the image's height and width must be a fixed size, but is h"
    );
    assert_error!(
        b,
        conv1d(x, filters, None, spec),
        [x, filters],
        "conv1d: $0 must have 3 dimensions, but is [n, 6]"
    );
    let (signal, taps) = (
        b.f32(shape!["n", 3u64, 8u64]),
        b.weight(shape![4u64, 2u64, 3u64]),
    );
    assert_error!(
        b,
        conv1d(signal, taps, None, spec),
        [signal, taps],
        "conv1d: conv2d: an image of 3 channels with 1 groups needs a weight [filters, channels / groups, rows, columns], filters being a multiple of groups, but it is [4, 2, 1, 3]"
    );
}

#[test]
fn pooling_needs_windows_that_fit() {
    let mut b = TestGraph::new();
    let image = b.f32(shape!["n", 3u64, 8u64, 8u64]);
    let x = b.f32(shape!["n", 6u64]);
    let any_height = b.f32(shape!["n", 3u64, "h", 8u64]);
    assert_error!(
        b,
        max_pool2d(x, PoolSpec::square(2)),
        [x],
        "max_pool2d: x must be [n, channels, height, width], but is [n, 6]"
    );
    assert_error!(
        b,
        max_pool2d(image, PoolSpec::square(9)),
        [image],
        "max_pool2d: a window of 9 pixels (stride 9) does not fit 8 pixels with 0 of padding on both sides"
    );
    let padded = PoolSpec {
        padding: [2, 2],
        ..PoolSpec::square(3)
    };
    assert_error!(
        b,
        avg_pool2d(image, padded),
        [image],
        "avg_pool2d: a window of 3 pixels (stride 3) does not fit 8 pixels with 2 of padding on both sides"
    );
    assert_error!(
        b,
        avg_pool2d(any_height, PoolSpec::square(2)),
        [any_height],
        "avg_pool2d: a window of 2 pixels (stride 2) does not fit h pixels with 0 of padding on both sides"
    );
    assert_error!(
        b,
        global_avg_pool(x),
        [x],
        "global_avg_pool: x must be [n, channels, ..] with pixels, but is [n, 6]"
    );
}

#[test]
fn padding_needs_an_existing_dimension_and_f32() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let u = b.u32(shape!["n"]);
    assert_error!(
        b,
        pad(x, 2, [1, 1], 0.0),
        [x],
        "pad: [n, 6] has no dimension 2"
    );
    assert_error!(
        b,
        pad(x, 0, [65536, 0], 0.0),
        [x],
        "pad: a padding of 65536 and 0 slices exceeds the limit of 65535"
    );
    assert_error!(
        b,
        pad(u, 0, [1, 1], 0.0),
        [u],
        "pad: select: b must be u32, but constant.1 is f32"
    );
}

#[test]
fn batch_norm_needs_an_element_per_channel() {
    let mut b = TestGraph::new();
    let image = b.f32(shape!["n", 3u64, 8u64, 8u64]);
    let u = b.u32(shape!["n"]);
    let bias = b.weight(shape![5u64]);
    assert_error!(
        b,
        batch_norm(u, [bias; 4], 1e-5),
        [u, bias, bias, bias, bias],
        "batch_norm: x must be [n, channels, ..], but is [n]"
    );
    assert_error!(
        b,
        batch_norm(image, [bias; 4], 1e-5),
        [image, bias, bias, bias, bias],
        "batch_norm: $4 must have an element for each of x's 3 channels, but is [5]"
    );
}

#[test]
fn embedding_needs_a_table_of_two_dimensions() {
    let mut b = TestGraph::new();
    let u = b.u32(shape!["n"]);
    let filters = b.weight(shape![4u64, 3u64, 3u64, 3u64]);
    assert_error!(
        b,
        embed(filters, u),
        [filters, u],
        "embed: the table must be f32 with 2 dimensions, but $0 is f32[4, 3, 3, 3]"
    );
}

#[test]
fn attention_needs_matching_keys_values_and_mask() {
    let mut b = TestGraph::new();
    let [q, k] = [5u64, 7].map(|len| b.f32(shape!["n", len, 4u64]));
    assert_error!(
        b,
        attention([q, k, q], None, 1.0),
        [q, k, q],
        "attention: matmul: a has 7 columns, but b has 5 rows"
    );
    let mask = b.f32(shape![2u64, "n", 5u64, 7u64]);
    assert_error!(
        b,
        attention([q, k, k], Some(mask), 1.0),
        [q, k, k, mask],
        "attention: the mask must broadcast to the scores' shape [n, 5, 7]"
    );
}

#[test]
fn rope_needs_an_even_last_dimension_and_matching_angles() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let odd = b.f32(shape!["n", 5u64]);
    assert_error!(
        b,
        rope(odd, x, x),
        [odd, x, x],
        "rope: x must be a tensor whose last dimension is fixed and even, but $0 is [n, 5]"
    );
    let q = b.f32(shape!["n", 5u64, 4u64]);
    assert_error!(
        b,
        rope(q, x, x),
        [q, x, x],
        "rope: mul: [n, 5, 2] and [n, 6] cannot be broadcast: 5 differs from n"
    );
    let angles = b.f32(shape![3u64, "n", 5u64, 2u64]);
    assert_error!(
        b,
        rope(q, angles, angles),
        [q, angles, angles],
        "rope: the angles must broadcast to the shape of x, [n, 5, 4]"
    );
}
