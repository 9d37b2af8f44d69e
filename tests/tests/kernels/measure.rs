//! `measure_read` and `measure_fma`.
//!
//! They measure time, and their twins do as much work, but not the same work: what they write
//! differs on purpose (every sum of the host is the whole one, its chains begin elsewhere). So they
//! are not compared with them; what is checked is that the work was done.

use wisp_shaders::params::MeasureParams;
use wisp_tests::kernels::{Case, assert_visits_all, case, check_outputs, exact, noise};

fn measure(len: usize, invocations: usize, x: &[f32]) -> Case {
    let params = MeasureParams {
        len: len as u32,
        invocations: invocations as u32,
    };
    // What is left untouched stays NaN.
    let out = vec![f32::NAN; invocations];
    case(params, vec![exact(x), exact(&out)], &[invocations], 1)
}

fn floats(bytes: &[u8], len: usize) -> Vec<f64> {
    let floats = bytes.chunks_exact(4).take(len);
    floats
        .map(|b| bytemuck::pod_read_unaligned::<f32>(b).into())
        .collect()
}

#[test]
fn fma() {
    let sizes = [(0, 1), (1, 64), (64, 515)];
    let cases = sizes.map(|(len, invocations)| measure(len, invocations, &[0.5; 4]));
    assert_visits_all("measure_fma", &cases);
    check_outputs("measure_fma", &cases, |i, outputs| {
        let out = floats(&outputs[1], cases[i].grid[0]);
        let finite = out.iter().filter(|x| x.is_finite()).count();
        let wrong = finite != cases[i].grid[0];
        wrong
            .then(|| format!("{finite} finite"))
            .into_iter()
            .collect()
    });
}

#[test]
fn read() {
    let sizes = [(1, 1), (5, 200), (1000, 64), (1003, 130), (70_000, 515)];
    // All of one sign: the sum is far from 0.
    let data = sizes.map(|(len, _)| {
        noise(1, len * 4)
            .iter()
            .map(|x| x + 1.5)
            .collect::<Vec<_>>()
    });
    let mut cases = Vec::new();
    for ((len, invocations), x) in sizes.iter().zip(&data) {
        cases.push(measure(*len, *invocations, x));
    }
    assert_visits_all("measure_read", &cases);
    check_outputs("measure_read", &cases, |i, outputs| {
        let out: f64 = floats(&outputs[1], cases[i].grid[0]).iter().sum();
        let sum: f64 = data[i].iter().map(|x| f64::from(*x)).sum();
        let near = (out - sum).abs() <= 1e-5 * sum;
        (!near)
            .then(|| format!("{out} is not {sum}"))
            .into_iter()
            .collect()
    });
}
