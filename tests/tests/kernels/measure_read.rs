//! `measure_read`.

use wisp_tests::kernels::{assert_visits_all, check_outputs, noise};

use crate::measure::{floats, measure};

#[test]
fn kernels_read_every_element() {
    let sizes = [(1, 1), (5, 200), (1000, 64), (1003, 130), (70_000, 515)];
    // All positive, so that the sum is far from 0.
    let data = sizes.map(|(len, _)| {
        let x = noise(1, len * 4).into_iter().map(|x| x + 1.5);
        x.collect::<Vec<_>>()
    });
    let all = sizes.iter().zip(&data);
    let cases: Vec<_> = all
        .map(|((len, invocations), x)| measure(*len, *invocations, x))
        .collect();
    assert_visits_all("measure_read", &cases);
    check_outputs("measure_read", &cases, |i, outputs| {
        let out: f64 = floats(&outputs[1], cases[i].grid[0]).iter().sum();
        let sum: f64 = data[i].iter().map(|x| f64::from(*x)).sum();
        match (out - sum).abs() <= 1e-5 * sum {
            true => Vec::new(),
            false => vec![format!("the sum is {out}, expected {sum}")],
        }
    });
}
