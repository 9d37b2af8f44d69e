//! `measure_fma`.

use wisp_tests::kernels::{assert_visits_all, check_outputs};

use crate::measure::{floats, measure};

#[test]
fn kernels_write_a_finite_result_for_every_invocation() {
    let sizes = [(0, 1), (1, 64), (64, 515)];
    let cases = sizes.map(|(len, invocations)| measure(len, invocations, &[0.5; 4]));
    assert_visits_all("measure_fma", &cases);
    check_outputs("measure_fma", &cases, |i, outputs| {
        let invocations = cases[i].grid[0];
        let out = floats(&outputs[1], invocations);
        let finite = out.iter().filter(|x| x.is_finite()).count();
        match finite == invocations {
            true => Vec::new(),
            false => vec![format!("{finite} of {invocations} results are finite")],
        }
    });
}
