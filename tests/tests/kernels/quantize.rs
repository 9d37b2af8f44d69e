//! `quantize`.

use wisp_shaders::params::QuantizeParams;
use wisp_tests::kernels::{Case, case, check, exact, noise};

pub(crate) fn quantize(x: &[f32], [tokens, cols]: [usize; 2]) -> Case {
    let blocks = cols.div_ceil(32);
    let params = QuantizeParams {
        tokens: tokens as u32,
        cols: cols as u32,
        blocks: blocks as u32,
    };
    // What is to be written holds other words, which show those that are not.
    let memory = vec![
        exact(x),
        exact(&vec![0x5555_5555u32; tokens * blocks * 8]),
        exact(&vec![0x5555_5555u32; tokens * blocks * 2]),
    ];
    case(params, memory, &[blocks, tokens], cols)
}

/// Noise of all magnitudes that are not subnormal.
fn wide_noise(len: usize) -> Vec<f32> {
    let (signs, exponents) = (noise(3, len), noise(4, len));
    let number = |(sign, exponent): (f32, f32)| sign * 2f32.powf(110.0 * exponent);
    signs.into_iter().zip(exponents).map(number).collect()
}

#[test]
fn kernels_match_the_twin() {
    let sizes: &[[usize; 2]] = &[
        [1, 7],
        [3, 33],
        [2, 60],
        [1, 32],
        [2, 896],
        [5, 2112],
        [300, 64],
        [70, 96],
    ];
    let mut cases = Vec::new();
    for size @ [tokens, cols] in sizes {
        cases.push(quantize(&noise(1, tokens * cols), *size));
        cases.push(quantize(&wide_noise(tokens * cols), *size));
    }
    check("quantize", &cases);
}

/// Blocks of numbers that are each at an edge, in rows with and without a whole number of blocks.
#[test]
fn edges_match_the_twin() {
    let least = 2f32.powi(-100);
    let below = least.next_down();
    let mut blocks: Vec<Vec<f32>> = vec![
        vec![0.0; 32],
        vec![-0.0; 32],
        vec![least; 32],
        vec![-below; 32],
        vec![f32::from_bits(1); 32],
        vec![f32::MAX; 32],
        vec![f32::MIN; 32],
        // The largest magnitude whose mantissa carries, and its neighbours.
        vec![1.9921875; 32],
        vec![1.9921875f32.next_up(); 32],
        vec![f32::from_bits(0x7f7f_0000); 32],
        vec![f32::from_bits(0x7f7f_0001); 32],
        // Ties: halves of a block whose scale is a power of two.
        (0..32).map(|i| (i as f32 - 15.5) / 127.0).collect(),
    ];
    // Halves that are exact: 127 / 127 becomes 127.
    let mut ties: Vec<f32> = (0..32).map(|i| i as f32 * 4.0 - 62.5).collect();
    ties[7] = 127.0;
    blocks.push(ties);
    for outlier in [1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
        for place in [0, 17, 31] {
            let mut block = noise(place as u32, 32);
            block[place] = outlier;
            blocks.push(block);
        }
    }
    // Every mantissa of the largest magnitude, with noise below it.
    for mantissa in 0..256u32 {
        let mut block = noise(mantissa, 32);
        block[5] = f32::from_bits(0x3f80_0000 + (mantissa << 15) + (mantissa & 3));
        blocks.push(block);
    }
    let x: Vec<f32> = blocks.concat();
    let rows = blocks.len();
    // The last columns of a row are those that the next one begins with, so all places are met.
    let cases = [
        quantize(&x, [1, x.len()]),
        quantize(&x, [rows, 32]),
        quantize(&x, [x.len() / 41, 41]),
    ];
    check("quantize", &cases);
}
