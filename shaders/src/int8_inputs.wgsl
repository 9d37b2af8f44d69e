// The rows of x of products with signed bytes, as `quantize` writes them.
import package::matmul_io::{p, x_row};

// A block has eight words. Kernels load half of one at once; with `words` a word in each of eight invocations; with
// `parts` the words that belong to a part of a block of weights.
@if(words && !experts) @group(0) @binding(1) var<storage, read> x: array<u32>; // [tokens, blocks, 8]
@if(!words && !parts && !experts) @group(0) @binding(1) var<storage, read> x: array<vec4<u32>>; // [tokens, blocks, 8], in vec4s
@if(!words && !parts && experts) @group(0) @binding(1) var<storage, read> x: array<vec4<u32>>; // [pairs / pairs_per_row, blocks, 8], in vec4s
@if(parts && !experts) @group(0) @binding(1) var<storage, read> x: array<vec2<u32>>; // [tokens, blocks, 8], in pairs
@if(parts && experts) @group(0) @binding(1) var<storage, read> x: array<vec2<u32>>; // [pairs / pairs_per_row, blocks, 8], in pairs
@if(!experts) @group(0) @binding(4) var<storage, read> x_factors: array<vec2<u32>>; // [tokens, blocks], of a scale and two sums
@if(experts) @group(0) @binding(4) var<storage, read> x_factors: array<vec2<u32>>; // [pairs / pairs_per_row, blocks], of a scale and two sums

// Loads word `i` of block `b` of the row of x that output row `t` multiplies.
@if(words)
fn load_word(t: u32, b: u32, i: u32) -> u32 {
    return x[8u * (x_row(t) * p.blocks + b) + i];
}

// Loads half `half` of block `b` of the row of x that output row `t` multiplies: 16 columns.
@if(!words && !parts)
fn load_half(t: u32, b: u32, half: u32) -> vec4<u32> {
    return x[2u * (x_row(t) * p.blocks + b) + half];
}

// Loads the words of that row whose columns are those of part `part` of a row of weights, in the same order.
@if(parts)
fn load_part_words(t: u32, part: u32, half: u32) -> vec4<u32> {
    let i = 4u * x_row(t) * p.blocks + 2u * part - half;
    return vec4(x[i], x[i + 2u]);
}

// The scale of a block of x, as bits, and the sums of its halves.
fn load_factors(t: u32, b: u32) -> vec2<u32> {
    return x_factors[x_row(t) * p.blocks + b];
}

// The sum of half `half` of a block with these factors.
fn half_sum(factors: vec2<u32>, half: u32) -> i32 {
    return extractBits(bitcast<i32>(factors.y), 16u * half, 16u);
}

// Adds the products of the bytes of two pairs of words.
fn dot_words(a: vec2<u32>, b: vec2<u32>, sum: i32) -> i32 {
    return dot4I8Packed(a.x, b.x) + (dot4I8Packed(a.y, b.y) + sum);
}
