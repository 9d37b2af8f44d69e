// Activation functions of feed-forward layers. The result is finite for any finite input.

/// A [`GatedParams::activation`] and [`MapParams::kind`]: SiLU, `x * sigmoid(x)`.
const ACTIVATION_SILU: u32 = 0u;
/// A [`GatedParams::activation`] and [`MapParams::kind`]: GELU by the error function,
/// `x * (1 + erf(x / sqrt(2))) / 2`.
const ACTIVATION_GELU: u32 = 1u;
/// A [`GatedParams::activation`] and [`MapParams::kind`]: the tanh approximation of GELU.
const ACTIVATION_GELU_TANH: u32 = 2u;
/// A [`GatedParams::activation`] and [`MapParams::kind`]: ReLU, `max(x, 0)`.
const ACTIVATION_RELU: u32 = 3u;

// The power series of the error function, for |x| < 0.5.
fn erf_series(x: f32) -> f32 {
    let s = x * x;
    return x * 1.1283791671 * (1.0 + s * (-0.33333333333 + s * (0.1 + s * (-0.023809523810
        + s * (0.0046296296296 - s * 0.00075757575758)))));
}

// The complementary error function of `a` >= 0.5: the Chebyshev fit of Press et al., Numerical Recipes, 6.2. The
// relative error is 1.2e-7.
fn erfc_fit(a: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.5 * a);
    let series = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418
        + t * (-0.18628806 + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587
        + t * (-0.82215223 + t * 0.17087277))))))));
    return t * exp(max(-a * a, -87.0) + series);
}

// The error function.
fn erf(x: f32) -> f32 {
    if abs(x) < 0.5 {
        return erf_series(x);
    }
    let tail = erfc_fit(abs(x));
    return select(1.0 - tail, tail - 1.0, x < 0.0);
}

// The complementary error function, 1 - erf(x), without the cancellation of this difference.
fn erfc(x: f32) -> f32 {
    if abs(x) < 0.5 {
        return 1.0 - erf_series(x);
    }
    let tail = erfc_fit(abs(x));
    return select(tail, 2.0 - tail, x < 0.0);
}

// Applies the activation function with the number `kind`.
fn activate(x: f32, kind: u32) -> f32 {
    if kind == ACTIVATION_SILU {
        // exp overflows above 88.
        return x / (1.0 + exp(min(-x, 87.0)));
    }
    if kind == ACTIVATION_GELU {
        return 0.5 * x * erfc(x * -0.70710678118);
    }
    if kind == ACTIVATION_RELU {
        return max(x, 0.0);
    }
    // (1 + tanh(u)) / 2 is the logistic function of 2u, which does not cancel for negative x.
    let u = 1.5957691216 * x * (1.0 + 0.044715 * x * x);
    return x / (1.0 + exp(clamp(-u, -87.0, 87.0)));
}
