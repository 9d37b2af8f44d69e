//! The rows that products read: as they are, or in 8 bits.

use wisp_shaders::params::QuantizeParams;
use wisp_types::Encoding;

use super::{LoweringError, Memory, OpLowering, Size, params};
use crate::{
    runtime_fields,
    value::{ValueId, ValueKind},
};

/// Words of a block's bytes in 8 bits.
const BLOCK_WORDS: u64 = 8;

/// Words of a block's scale and sums.
const FACTOR_WORDS: u64 = 2;

/// A product's kernel, and the memory of the rows that it reads.
pub(crate) struct ProductRows {
    /// The kernel's op, such as `matmul.q4_0` or `matmul_int8.q4_0`.
    pub kernel: String,
    /// The rows, or their bytes.
    pub x: Memory,
    /// The scales and sums of the bytes.
    pub factors: Option<Memory>,
}

impl ProductRows {
    /// Returns the bindings of a product that writes `out`, reads `third` and multiplies by a weight's planes.
    pub fn bindings(&self, out: Memory, third: Memory, planes: &[Memory]) -> Vec<Memory> {
        let before = [self.x, out, third].into_iter().chain(self.factors);
        before.chain(planes.iter().copied()).collect()
    }
}

impl OpLowering<'_> {
    /// Returns the name of a product's kernel for rows in 8 bits, if the program's precision allows such and the
    /// target has it.
    fn int8_kernel(&self, product: &str, encoding: Encoding, cols: u64) -> Option<String> {
        let kernel = format!("{product}_int8.{}", encoding.name());
        self.runs(&kernel, cols).then_some(kernel)
    }

    /// Returns whether a product with a weight of an encoding takes rows in 8 bits.
    pub(crate) fn is_int8(&self, encoding: Encoding, cols: u64) -> bool {
        self.int8_kernel("matmul", encoding, cols).is_some()
    }

    /// Returns how the product of a value's rows and a weight of an encoding is computed: by the kernels of op
    /// `product`, or by those for rows in 8 bits. Adds the call that makes such rows, unless an earlier product
    /// of the same value has added it.
    ///
    /// # Errors
    ///
    /// If the value is a result that no earlier call makes, or the target lacks a kernel.
    pub(crate) fn product_rows(
        &mut self,
        product: &str,
        encoding: Encoding,
        x: ValueId,
    ) -> Result<ProductRows, LoweringError> {
        let cols = self.cols(x)?;
        let Some(kernel) = self.int8_kernel(product, encoding, cols.into()) else {
            return Ok(ProductRows {
                kernel: format!("{product}.{}", encoding.name()),
                x: self.operand(x)?,
                factors: None,
            });
        };
        let [bytes, factors] = match self.compiler.quantized(x) {
            Some(memory) => memory,
            None => self.quantize(x, cols)?,
        };
        Ok(ProductRows {
            kernel,
            x: bytes,
            factors: Some(factors),
        })
    }

    /// Returns the memory of the bytes and factors of a value's rows. The call that makes the value writes them if its op
    /// has a kernel for that; otherwise adds a call that quantises the rows.
    fn quantize(&mut self, x: ValueId, cols: u32) -> Result<[Memory; 2], LoweringError> {
        let blocks = u64::from(cols.div_ceil(32));
        let tokens = self.rows(x);
        let elements =
            [BLOCK_WORDS, FACTOR_WORDS].map(|words| tokens.times(&Size::fixed(blocks * words)));
        if let Some(memory) = self.compiler.extend(x, "_int8", &elements) {
            self.compiler.set_quantized(x, memory);
            return Ok(memory);
        }
        let from = self.operand(x)?;
        let memory = elements.map(|elements| self.scratch(elements));
        let fixed = QuantizeParams {
            tokens: 0,
            cols,
            blocks: blocks as u32,
        };
        let params = params(&fixed, runtime_fields!(QuantizeParams, tokens = tokens));
        let grid = [Size::fixed(blocks), tokens];
        let bindings = vec![from, memory[0], memory[1]];
        self.call_over_rows("quantize", cols, grid, params, bindings)?;
        // An op may write to a graph's buffer before the next product reads it; all other values stay as they are.
        if self.value(x).kind != ValueKind::Buffer {
            self.compiler.set_quantized(x, memory);
        }
        Ok(memory)
    }
}
