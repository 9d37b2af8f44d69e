//! `matmul_int8.<encoding>`.

use wisp_engine::weights::Encoding;
use wisp_shaders::params::MatmulParams;
use wisp_tests::kernels::{
    Case, Memory, case, check, check_fitting, close, exact, matmul_params, noise, twin_outputs,
    weight,
};

use crate::{matmul::SIZES, quantize::quantize};

/// The encodings with kernels for these products.
pub(crate) fn encodings() -> impl Iterator<Item = Encoding> {
    Encoding::device_encodings().filter(|encoding| {
        wisp_shaders::candidates(&format!("matmul_int8.{}", encoding.name()))
            .next()
            .is_some()
    })
}

/// The bytes of rows of x, and their factors.
pub(crate) fn quantized(x: &[f32], size: [usize; 2]) -> [Memory; 2] {
    let outputs = twin_outputs("quantize", &quantize(x, size));
    [exact(&outputs[1]), exact(&outputs[2])]
}

fn matmul_int8(encoding: Encoding, [tokens, rows, cols]: [usize; 3]) -> Case {
    let cols = cols.next_multiple_of(encoding.file_block_weights());
    let (before, after, bias_offset) = (3, 2, 1);
    let out_stride = before + rows + after;
    let params = MatmulParams {
        out_stride: out_stride as u32,
        out_offset: before as u32,
        bias_offset,
        has_bias: (rows % 2) as u32,
        ..matmul_params([tokens, rows, cols])
    };
    let [x, factors] = quantized(&noise(1, tokens * cols), [tokens, cols]);
    let mut memory = vec![
        x,
        close(tokens * out_stride, 1e-6 * (cols as f64).sqrt()),
        exact(&noise(2, rows + 1)),
        factors,
    ];
    memory.extend(weight(encoding, rows, cols));
    case(params, memory, &[rows, tokens], cols)
}

#[test]
fn kernels_match_the_twin() {
    for encoding in encodings() {
        let cases: Vec<_> = SIZES
            .iter()
            .map(|sizes| matmul_int8(encoding, *sizes))
            .collect();
        check(&format!("matmul_int8.{}", encoding.name()), &cases);
    }
}
