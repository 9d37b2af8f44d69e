//! `top_k`.

use wisp_shaders::params::TopKParams;
use wisp_tests::kernels::{case, check, exact, noise};

#[test]
fn kernels_match_the_twin() {
    let sizes = [[1, 1, 1], [3, 60, 7], [2, 515, 515], [17, 300, 40]];
    let cases = sizes.map(|[rows, cols, k]: [u32; 3]| {
        let params = TopKParams { rows, cols, k };
        let mut x: Vec<f32> = noise(1, (rows * cols) as usize);
        // Coarse, so that some are equal; and a NaN.
        x.iter_mut().for_each(|x| *x = (*x * 20.0).round());
        x[0] = f32::NAN;
        let out = (rows * k) as usize;
        let memory = vec![exact(&x), exact(&noise(2, out)), exact(&noise(3, out))];
        case(params, memory, &[rows as usize], cols as usize)
    });
    check("top_k", &cases);
}
