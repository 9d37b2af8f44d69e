//! `conv2d`.

use proptest::prelude::*;
use wisp_shaders::params::Conv2dParams;
use wisp_tests::kernels::{Case, case, check, check_fitting, close, exact, noise};

/// A convolution. Pairs are (rows, columns), but channels are those in and out of each group.
#[derive(Clone, Debug)]
struct Convolution {
    size: [u32; 2],
    filter: [u32; 2],
    channels: [u32; 2],
    groups: u32,
    stride: [u32; 2],
    pad: [u32; 2],
    dilation: [u32; 2],
}

fn conv2d(images: u32, conv: &Convolution, has_bias: bool) -> Case {
    let out = |i: usize| {
        let reach = (conv.filter[i] - 1) * conv.dilation[i] + 1;
        (conv.size[i] + 2 * conv.pad[i] - reach) / conv.stride[i] + 1
    };
    let [in_channels, out_channels] = conv.channels.map(|channels| channels * conv.groups);
    let len = images * out_channels * out(0) * out(1);
    let params = Conv2dParams {
        len,
        in_channels,
        in_height: conv.size[0],
        in_width: conv.size[1],
        out_channels,
        out_height: out(0),
        out_width: out(1),
        kernel_height: conv.filter[0],
        kernel_width: conv.filter[1],
        stride_y: conv.stride[0],
        stride_x: conv.stride[1],
        pad_y: conv.pad[0],
        pad_x: conv.pad[1],
        dilation_y: conv.dilation[0],
        dilation_x: conv.dilation[1],
        groups: conv.groups,
        has_bias: has_bias.into(),
    };
    let image = images * in_channels * conv.size[0] * conv.size[1];
    let filter = conv.channels[0] * conv.filter[0] * conv.filter[1];
    let memory = vec![
        exact(&noise(1, image as usize)),
        exact(&noise(2, (out_channels * filter) as usize)),
        exact(&noise(3, out_channels as usize)),
        close(len as usize, 3e-6),
    ];
    case(params, memory, &[len as usize], len as usize)
}

#[test]
fn kernels_match_the_twin() {
    let plain = Convolution {
        size: [9, 7],
        filter: [3, 3],
        channels: [3, 5],
        groups: 1,
        stride: [1, 1],
        pad: [1, 1],
        dilation: [1, 1],
    };
    let grouped = Convolution {
        size: [11, 16],
        filter: [2, 5],
        channels: [2, 1],
        groups: 3,
        stride: [2, 3],
        pad: [0, 4],
        dilation: [3, 2],
    };
    let one_dimensional = Convolution {
        size: [1, 60],
        filter: [1, 7],
        pad: [0, 3],
        ..plain.clone()
    };
    let cases = [
        conv2d(2, &plain, true),
        conv2d(1, &grouped, false),
        conv2d(3, &one_dimensional, true),
    ];
    check("conv2d", &cases);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn kernels_match_the_twin_at_any_size(
        size in [5u32..14, 5u32..14],
        filter in [1u32..4, 1u32..4],
        channels in [1u32..4, 1u32..4],
        groups in 1u32..4,
        stride in [1u32..4, 1u32..4],
        pad in [0u32..4, 0u32..4],
        dilation in [1u32..3, 1u32..3],
    ) {
        let conv = Convolution { size, filter, channels, groups, stride, pad, dilation };
        check_fitting("conv2d", &[conv2d(2, &conv, true)]);
    }
}
