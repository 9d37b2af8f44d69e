// Names that C++, CUDA or the prelude have for other things.
struct float {
    int: f32,
    _under: u32,
    Δ: vec2<f32>,
}

struct float_ty0 {
    float: float,
}

@group(0) @binding(0) var<storage, read_write> threadIdx: array<float_ty0>;
@group(0) @binding(1) var<storage, read_write> main_g0: array<f32>;
const cell3 = array(1.0, 2.0);

fn w_add(double: f32, w_half: f32) -> f32 {
    let short = double + w_half;
    return short * short;
}

fn printf(long__: u32) -> u32 {
    return long__ * 2u;
}

@compute @workgroup_size(8)
fn main(@builtin(local_invocation_index) register_: u32) {
    let π = 3.14;
    var union_ = w_add(π, cell3[register_]);
    union_ += threadIdx[register_].float.Δ.y;
    threadIdx[0].float.int = union_;
    main_g0[printf(register_)] = union_;
}
