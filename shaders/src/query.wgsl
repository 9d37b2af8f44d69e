// The query of a head, where attention leaves it for the format of the cache to score: a workgroup's, or
// with `serial` an invocation's.

// vec4s of the widest head.
const MAX_QUADS: u32 = 64u;

@if(!serial) var<workgroup> query: array<vec4<f32>, MAX_QUADS>;
@if(serial) var<private> query: array<vec4<f32>, MAX_QUADS>;
