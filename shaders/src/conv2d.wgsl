// Two-dimensional convolution. An invocation computes one element.
import constants::WG;

/// `conv2d`: cross-correlation of images with filters, with strides, zero padding, dilation and groups:
/// `out[n, o, y, x] = bias[o] + sum over c, v, u of weight[o, c, v, u] * image[n, g * channels + c,
/// y * stride_y + v * dilation_y - pad_y, x * stride_x + u * dilation_x - pad_x]`, where `channels` is
/// `in_channels / groups` and `g` the group of output channel `o`. Grid: `[len]`.
struct Conv2dParams {
    /// Elements of the result.
    len: u32,
    /// Channels of an image, a multiple of `groups`.
    in_channels: u32,
    /// Rows of an image.
    in_height: u32,
    /// Columns of an image.
    in_width: u32,
    /// Channels of the result, a multiple of `groups`.
    out_channels: u32,
    /// Rows of the result.
    out_height: u32,
    /// Columns of the result.
    out_width: u32,
    /// Rows of a filter.
    kernel_height: u32,
    /// Columns of a filter.
    kernel_width: u32,
    /// Image rows from one row of the result to the next.
    stride_y: u32,
    /// Image columns from one column of the result to the next.
    stride_x: u32,
    /// Rows of zeros above and below the image.
    pad_y: u32,
    /// Columns of zeros left and right of the image.
    pad_x: u32,
    /// Image rows from one row of the filter to the next.
    dilation_y: u32,
    /// Image columns from one column of the filter to the next.
    dilation_x: u32,
    /// Groups of channels that are convolved independently.
    groups: u32,
    /// 1 to add `bias`; 0 if there is none, and any buffer may be bound as `bias`.
    has_bias: u32,
}

@group(0) @binding(0) var<uniform> p: Conv2dParams;
@group(0) @binding(1) var<storage, read> image: array<f32>; // [n, in_channels, in_height, in_width]
@group(0) @binding(2) var<storage, read> weight: array<f32>; // [out_channels, in_channels / groups, kernel_height, kernel_width]
@group(0) @binding(3) var<storage, read> bias: array<f32>; // [out_channels]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [n, out_channels, out_height, out_width]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.len {
        return;
    }
    let x = i % p.out_width;
    let y = i / p.out_width % p.out_height;
    let o = i / (p.out_width * p.out_height) % p.out_channels;
    let n = i / (p.out_width * p.out_height * p.out_channels);
    let channels = p.in_channels / p.groups;
    let first_channel = o / (p.out_channels / p.groups) * channels;
    var sum = 0.0;
    for (var c = 0u; c < channels; c++) {
        let first_image_row = (n * p.in_channels + first_channel + c) * p.in_height;
        let first_filter_row = (o * channels + c) * p.kernel_height;
        for (var v = 0u; v < p.kernel_height; v++) {
            // Wraps around for rows above the image, so one comparison excludes both ends.
            let row = y * p.stride_y + v * p.dilation_y - p.pad_y;
            if row >= p.in_height {
                continue;
            }
            for (var u = 0u; u < p.kernel_width; u++) {
                let col = x * p.stride_x + u * p.dilation_x - p.pad_x;
                if col < p.in_width {
                    sum += weight[(first_filter_row + v) * p.kernel_width + u]
                        * image[(first_image_row + row) * p.in_width + col];
                }
            }
        }
    }
    if p.has_bias != 0u {
        sum += bias[o];
    }
    out[i] = sum;
}
