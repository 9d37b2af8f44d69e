// Convolution (cross-correlation) of images, with strides, zero padding, dilation and groups:
// out[n, o, y, x] = bias[o] + sum over c, v, u of weight[o, c, v, u] * image[n, group * channels + c,
// y * stride_y + v * dilation_y - pad_y, x * stride_x + u * dilation_x - pad_x].
import constants::WG;

struct Conv2dParams {
    len: u32,
    in_channels: u32,
    in_height: u32,
    in_width: u32,
    out_channels: u32,
    out_height: u32,
    out_width: u32,
    kernel_height: u32,
    kernel_width: u32,
    stride_y: u32,
    stride_x: u32,
    pad_y: u32,
    pad_x: u32,
    dilation_y: u32,
    dilation_x: u32,
    groups: u32,
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
    let first = o / (p.out_channels / p.groups) * channels;
    var sum = 0.0;
    for (var c = 0u; c < channels; c++) {
        let plane = (n * p.in_channels + first + c) * p.in_height;
        let filter_base = (o * channels + c) * p.kernel_height;
        for (var v = 0u; v < p.kernel_height; v++) {
            // Below the padding it wraps around and is as far outside.
            let row = y * p.stride_y + v * p.dilation_y - p.pad_y;
            if row >= p.in_height {
                continue;
            }
            for (var u = 0u; u < p.kernel_width; u++) {
                let col = x * p.stride_x + u * p.dilation_x - p.pad_x;
                if col < p.in_width {
                    sum += weight[(filter_base + v) * p.kernel_width + u] * image[(plane + row) * p.in_width + col];
                }
            }
        }
    }
    if p.has_bias != 0u {
        sum += bias[o];
    }
    out[i] = sum;
}
