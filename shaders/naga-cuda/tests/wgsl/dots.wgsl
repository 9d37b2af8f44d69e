@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<i32>;

@compute @workgroup_size(1)
fn main() {
    x[0] = dot4U8Packed(x[1], x[2]) + x[3];
    y[0] = y[1] + dot4I8Packed(x[1], x[2]);
    y[2] = dot4I8Packed(x[1], x[2]) + (dot4I8Packed(x[3], x[4]) + y[3]);
    y[4] = dot4I8Packed(x[1], x[2]) - y[5];
    // Used twice.
    let sum = dot4U8Packed(x[4], x[5]);
    x[6] = sum + sum;
}
