// Splitting x into two halves, which tensor cores multiply in turn.

// Encodings whose numbers are nibbles may leave the high ones where they are in a word; they belong to columns 16 and up of a
// block, whose x is multiplied by this.
@if(nibbles) const HIGH_UNIT: f32 = 0.0625;
@if(!nibbles) const HIGH_UNIT: f32 = 1.0;

fn sum4(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

// Four columns as halves: columns 0 and 2 in a word, and columns 1 and 3; with `in_order` columns 0 and 1, and columns 2 and 3.
@if(!in_order)
fn packed(v: vec4<f32>) -> vec2<u32> {
    return vec2(pack2x16float(v.xz), pack2x16float(v.yw));
}

@if(in_order)
fn packed(v: vec4<f32>) -> vec2<u32> {
    return vec2(pack2x16float(v.xy), pack2x16float(v.zw));
}

// The remainder of four columns after the halves that `packed` makes of them.
fn rest(v: vec4<f32>, words: vec2<u32>) -> vec4<f32> {
    let first = unpack2x16float(words.x);
    let second = unpack2x16float(words.y);
    @if(!in_order) return v - vec4(first.x, second.x, first.y, second.y);
    @if(in_order) return v - vec4(first, second);
}
