//! `map`.

use wisp_shaders::params::{
    ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU, ACTIVATION_SILU, MAP_COS, MAP_EXP,
    MAP_FROM_U32, MAP_LOG, MAP_NEG, MAP_NOT, MAP_RECIP, MAP_RSQRT, MAP_SCALE, MAP_SIN, MAP_SOFTCAP,
    MAP_TO_U32, MapParams,
};
use wisp_tests::kernels::{Case, Memory, case, check, close, exact, noise, test_fold};

fn map<T: bytemuck::NoUninit>(x: &[T], kind: u32, factor: f32, out: Memory) -> Case {
    let len = x.len();
    let params = MapParams {
        len: len as u32,
        kind,
        factor,
    };
    case(params, vec![exact(x), out], &[len], len)
}

#[test]
fn kernels_match_the_twin() {
    let sizes = [
        (1usize, ACTIVATION_SILU),
        (515, ACTIVATION_GELU),
        (257, ACTIVATION_GELU_TANH),
        (1030, ACTIVATION_RELU),
        (5000, MAP_SCALE),
        (172, MAP_SOFTCAP),
        // More workgroups than one dimension of a dispatch holds.
        (test_fold() as usize * 256 + 300, MAP_SCALE),
    ];
    let cases = sizes.map(|(len, kind)| {
        let x: Vec<f32> = noise(1, len).iter().map(|x| x * 12.0).collect();
        Case {
            fold: test_fold(),
            ..map(&x, kind, 0.37, close(len, 2e-6))
        }
    });
    check("map", &cases);
}

/// Functions of one number, where they are defined; conversions and `not` exactly.
#[test]
fn functions_match_the_twin() {
    let defined = |kind: u32| {
        let x = noise(kind, 777).into_iter().map(|x| match kind {
            MAP_LOG..=MAP_RSQRT => x.abs() * 9.0 + 0.01,
            MAP_RECIP => x + x.signum(),
            MAP_EXP => x * 20.0,
            _ => x * 3.0,
        });
        map(&x.collect::<Vec<f32>>(), kind, 1.0, close(777, 2e-6))
    };
    let mut cases: Vec<_> = (MAP_NEG..=MAP_RECIP).map(defined).collect();
    let out = exact(&noise(9, 60));
    let numbers: Vec<f32> = noise(3, 60).iter().map(|x| x * 300.0).collect();
    let edges = [0.0, -0.0, 5e9, -5e9, 4_294_967_040.0, 0.99, 2.5, -2.5];
    let numbers = [&numbers[8..], &edges].concat();
    cases.push(map(&numbers, MAP_TO_U32, 1.0, out.clone()));
    let integers: Vec<u32> = (0..60).map(|i| i * i * 40_503 % 16_777_216).collect();
    cases.push(map(&integers, MAP_FROM_U32, 1.0, out.clone()));
    let conditions: Vec<u32> = (0..60).map(|i| i % 3).collect();
    cases.push(map(&conditions, MAP_NOT, 1.0, out));
    check("map", &cases);
}

/// Sine and cosine of angles up to the largest float and, where a range reduction fails first, around
/// multiples of half pi and where the reduction begins.
#[test]
fn sines_and_cosines_match_the_twin_for_any_angle() {
    let quarters = (0..300).map(|n| n as f32 * std::f32::consts::FRAC_PI_2);
    let edges = quarters.flat_map(|x| [x.next_down(), x, -x.next_up()]);
    let eighth = std::f32::consts::FRAC_PI_4;
    let small = [
        0.0,
        -0.0,
        1e-30,
        eighth,
        -eighth.next_up(),
        eighth.next_down(),
    ];
    let edges: Vec<f32> = edges.chain(small).collect();
    let scaled = |scale: f32| {
        let angles = noise(5, 1003).into_iter().map(|x| x * scale);
        angles.collect::<Vec<f32>>()
    };
    let every_exponent =
        (0..254u32 << 3).map(|i| f32::from_bits((i << 20) | ((i * 40_503) & 0xf_ffff)));
    let angles = [
        edges,
        scaled(10.0),
        scaled(1e3),
        scaled(1e5),
        scaled(1e30),
        every_exponent.collect(),
    ];
    let both = |angles: &Vec<f32>| {
        let of = |kind| map(angles, kind, 1.0, close(angles.len(), 2e-7));
        [of(MAP_SIN), of(MAP_COS)]
    };
    let cases: Vec<_> = angles.iter().flat_map(both).collect();
    check("map", &cases);
}
