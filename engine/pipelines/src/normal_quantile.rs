//! The inverse of the normal distribution's cumulative distribution function.

/// Returns the number that a standard normal variable is below with this probability, with a relative error below 1.2e-9:
/// Acklam's rational approximations (2003) of the central part and of the tails. It is infinite or no number outside of
/// probabilities between 0 and 1.
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    let polynomial = |factors: &[f64], x: f64| factors.iter().fold(0.0, |sum, a| sum * x + a);
    let tail = |probability: f64| {
        let q = (-2.0 * probability.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    match probability {
        p if p < 0.02425 => tail(p),
        p if p > 1.0 - 0.02425 => -tail(1.0 - p),
        p => {
            let q = p - 0.5;
            q * polynomial(&A, q * q) / polynomial(&B, q * q)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::normal_quantile;

    /// Values of SciPy's `norm.ppf`.
    #[test]
    fn quantiles_match_a_table() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.95, 1.644_853_626_951_472_2),
            (0.7, 0.524_400_512_708_041),
            (0.01, -2.326_347_874_040_840_8),
            (0.999, 3.090_232_306_167_813),
        ] {
            let found = normal_quantile(probability);
            assert!((found - expected).abs() < 1e-8, "{probability}: {found}");
        }
    }
}
