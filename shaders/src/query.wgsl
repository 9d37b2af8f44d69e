// The query of one head, where an attention kernel stores it for the cache formats to multiply with
// keys: in workgroup memory or, with `serial`, in an invocation's own.

/// The widest head that the attention kernels support.
const MAX_HEAD_DIM: u32 = 256u;

// vec4s of the widest head.
const MAX_VEC4S: u32 = MAX_HEAD_DIM / 4u;

@if(!serial) var<workgroup> query: array<vec4<f32>, MAX_VEC4S>;
@if(serial) var<private> query: array<vec4<f32>, MAX_VEC4S>;
