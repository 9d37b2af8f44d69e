// The query of a workgroup's head, where attention leaves it for the format of the cache to score.

// vec4s of the widest head.
const MAX_QUADS: u32 = 64u;

var<workgroup> query: array<vec4<f32>, MAX_QUADS>;
