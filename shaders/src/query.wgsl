// The query of one head, which an attention kernel stores here and the cache formats multiply with keys:
// in workgroup memory or, with `serial`, in private memory.

/// The largest `head_dim` that the attention kernels support.
const MAX_HEAD_DIM: u32 = 576u;

/// The largest `value_dim` that they support.
const MAX_VALUE_DIM: u32 = 512u;

// vec4s of the largest head.
const MAX_VEC4S: u32 = MAX_HEAD_DIM / 4u;

// vec4s of the largest value.
const MAX_VALUE_VEC4S: u32 = MAX_VALUE_DIM / 4u;

@if(!serial) var<workgroup> query: array<vec4<f32>, MAX_VEC4S>;
@if(serial) var<private> query: array<vec4<f32>, MAX_VEC4S>;
