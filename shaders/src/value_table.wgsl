// The values of encodings whose weights are indices into a table of 16 or 32 values. Kernels with the condition `lookup` look
// them up in workgroup memory, which takes GPUs fewer instructions than to compute them: each value has a bank of its own, so
// that no invocation waits for another.
@if(lookup) import package::values::ENTRIES;
@if(lookup && !int8) import package::values::entry;
@if(!lookup && !int8 && !codes) import package::values::computed_values;
@if(codes) import package::mma::cuda_byte_perm;
@if(codes) import package::values::BYTES;
@if(int8) import package::values::computed_packed_values;
@if(int8) import package::unpack::nibbles;

@if(lookup && !int8) var<workgroup> table: array<f32, ENTRIES>; // [index]
@if(lookup && int8) var<workgroup> table: array<u32, ENTRIES>; // [index], a byte each

// Writes the table, which may be read after a barrier. A workgroup must have 32 invocations or more.
@if(lookup)
fn fill_table(lid: u32) {
    if lid < ENTRIES {
        @if(!int8) table[lid] = entry(lid);
        @if(int8) table[lid] = computed_packed_values(vec2(lid)).x & 0xffu;
    }
}

// The bytes of eight codes: the low nibble of byte 0 of the word, its high nibble, the low nibble of byte 1, and so on.
@if(codes)
fn coded_bytes(word: u32) -> vec2<u32> {
    // Places in both halves of the table, and by a code's highest bit the half that counts: byte `i` of the first or, plus 4, of
    // the second.
    let places = word & 0x77777777u;
    let halves = 0x32103210u | ((word >> 1u) & 0x44444444u);
    return vec2(four_bytes(places, halves), four_bytes(places >> 16u, halves >> 16u));
}

@if(codes)
fn four_bytes(places: u32, halves: u32) -> u32 {
    let low = cuda_byte_perm(BYTES.x, BYTES.y, places);
    let high = cuda_byte_perm(BYTES.z, BYTES.w, places);
    return cuda_byte_perm(low, high, halves);
}

// The values at the indices in the low bits of a word's bytes.
@if(!int8 && !codes)
fn values(word: u32) -> vec4<f32> {
    @if(!lookup) { return computed_values(word); }
    @if(lookup) {
        let i = (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(ENTRIES - 1u);
        return vec4(table[i.x], table[i.y], table[i.z], table[i.w]);
    }
}

// The values of a part, whose words have the indices of its first two groups in their low nibbles and those of the last two
// in their high nibbles.
@if(!int8 && !codes)
fn part_values(w: vec2<u32>) -> array<vec4<f32>, 4> {
    return array(values(w.x), values(w.y), values(w.x >> 4u), values(w.y >> 4u));
}

// The values at the indices in the low nibbles of each word, as bytes.
@if(int8)
fn packed_values(words: vec2<u32>) -> vec2<u32> {
    @if(!lookup) { return computed_packed_values(words); }
    @if(lookup) {
        let i = nibbles(words.x);
        let j = nibbles(words.y);
        let low = vec2(table[i.x], table[j.x]) | (vec2(table[i.y], table[j.y]) << vec2(8u));
        return low | (vec2(table[i.z], table[j.z]) << vec2(16u)) | (vec2(table[i.w], table[j.w]) << vec2(24u));
    }
}

// As `part_values`, as bytes: the words of the first two groups, then those of the last two.
@if(int8)
fn packed_part_values(w: vec2<u32>) -> vec4<u32> {
    return vec4(packed_values(w), packed_values(w >> vec2(4u)));
}
