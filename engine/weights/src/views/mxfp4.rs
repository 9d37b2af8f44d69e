//! Views of MXFP4 weights that a safetensors file stores as two tensors of bytes, as gpt-oss does.

use std::ops::Range;

use wisp_types::Encoding;

use crate::{
    error::WeightError,
    source::{WeightSource, require},
    tensor::TensorInfo,
};

/// Bytes of a block's weights, two in each.
const NIBBLE_BYTES: usize = 16;
/// Bytes of a block in a GGUF file: its exponent, then its weights.
const BLOCK_BYTES: u64 = 17;

/// Rows of MXFP4 weights, as a GGUF file stores them.
///
/// The tensor `blocks` is `[.., rows, blocks of a row, 16]`, and `scales` is `[.., rows, blocks of a row]`, the
/// exponents. In `blocks`, weight `2 * i` of a block is in the low half of byte `i`, and the next one in its high
/// half; in GGUF the low halves hold the block's first 16 weights.
pub(super) struct Mxfp4Rows {
    blocks: String,
    scales: String,
    /// Rows of a matrix of the tensors, and of one of the view.
    stored_rows: u64,
    rows: u64,
    /// The first row of each matrix that is part of the view, and the distance to the next.
    first: u64,
    step: u64,
    row_blocks: u64,
    /// Bytes of the view.
    len: u64,
}

impl Mxfp4Rows {
    /// Checks that the tensors have the rows `first`, `first + step`, .. of each matrix of a view `[matrices, rows,
    /// cols]`.
    pub fn new(
        source: &dyn WeightSource,
        view: &str,
        [blocks, scales]: [String; 2],
        [first, step]: [u64; 2],
        shape: &[u64],
    ) -> Result<Mxfp4Rows, WeightError> {
        let &[matrices, rows, cols] = shape else {
            return Err(unfit(
                view,
                &blocks,
                format!("the view has shape {shape:?}"),
            ));
        };
        let info = require(source, &blocks)?;
        let stored_rows = info.shape.get(1).copied().unwrap_or(0);
        let row_blocks = cols / 32;
        let last = rows.saturating_sub(1).checked_mul(step);
        let last = last.and_then(|last| last.checked_add(first));
        let fits = cols % 32 == 0 && last.is_some_and(|last| last < stored_rows);
        let expected = [matrices, stored_rows, row_blocks, NIBBLE_BYTES as u64];
        check(view, info, &expected, fits)?;
        check(view, require(source, &scales)?, &expected[..3], true)?;
        let len = [rows, row_blocks, BLOCK_BYTES];
        let len = len
            .iter()
            .try_fold(matrices, |len, size| len.checked_mul(*size));
        let len = len.ok_or_else(|| unfit(view, &blocks, "the view is too large".into()))?;
        Ok(Mxfp4Rows {
            blocks,
            scales,
            stored_rows,
            rows,
            first,
            step,
            row_blocks,
            len,
        })
    }

    pub fn encoding(&self) -> Encoding {
        Encoding::MXFP4
    }

    pub fn byte_len(&self) -> u64 {
        self.len
    }

    /// Reads the bytes `range` of the view.
    pub async fn read(
        &self,
        source: &dyn WeightSource,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let row_bytes = (self.row_blocks * BLOCK_BYTES).max(1);
        let (first, last) = (range.start / row_bytes, range.end.div_ceil(row_bytes));
        let mut bytes = Vec::with_capacity(((last - first) * row_bytes) as usize);
        let mut row = first;
        // The rows of one matrix at a time.
        while row < last {
            let end = last.min((row / self.rows + 1) * self.rows);
            self.read_rows(source, row..end, &mut bytes).await?;
            row = end;
        }
        bytes.truncate((range.end - first * row_bytes) as usize);
        bytes.drain(..(range.start - first * row_bytes) as usize);
        Ok(bytes)
    }

    /// Reads rows of one matrix of the view, and appends them to `bytes`. Rows between them are read as well, so
    /// that a remote file needs one request.
    async fn read_rows(
        &self,
        source: &dyn WeightSource,
        rows: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), WeightError> {
        let stored = self.stored(&rows);
        let part = |unit: u64| {
            let row = self.row_blocks * unit;
            stored.start * row..stored.end * row
        };
        let blocks = source.read(&self.blocks, part(NIBBLE_BYTES as u64)).await?;
        let scales = source.read(&self.scales, part(1)).await?;
        let (blocks, _) = blocks.as_chunks::<NIBBLE_BYTES>();
        let row_blocks = self.row_blocks as usize;
        for row in 0..(rows.end - rows.start) as usize {
            let from = row * self.step as usize * row_blocks;
            let blocks = &blocks[from..from + row_blocks];
            for (block, scale) in blocks.iter().zip(&scales[from..from + row_blocks]) {
                bytes.push(*scale);
                bytes.extend(reordered(block));
            }
        }
        Ok(())
    }

    /// The rows of the tensors from the first to the last of some rows of one matrix of the view.
    fn stored(&self, rows: &Range<u64>) -> Range<u64> {
        let (matrix, count) = (rows.start / self.rows.max(1), rows.end - rows.start);
        let row = rows.start % self.rows.max(1);
        let start = matrix * self.stored_rows + self.first + row * self.step;
        start..start + count.saturating_sub(1) * self.step + 1
    }

    /// Releases the tensors once the end of the view has been used: rows of other views lie between its own.
    pub fn release(&self, source: &dyn WeightSource, range: &Range<u64>) {
        for name in [&self.blocks, &self.scales] {
            if range.end == self.len
                && let Some(info) = source.find(name)
            {
                source.release(name, 0..info.len);
            }
        }
    }
}

/// Returns the weights of a block in GGUF's order.
fn reordered(block: &[u8; NIBBLE_BYTES]) -> [u8; NIBBLE_BYTES] {
    let weight = |i: usize| block[i / 2] >> (i % 2 * 4) & 15;
    std::array::from_fn(|i| weight(i) | weight(i + NIBBLE_BYTES) << 4)
}

fn unfit(view: &str, tensor: &str, problem: String) -> WeightError {
    WeightError::View {
        view: view.into(),
        tensor: tensor.into(),
        problem,
    }
}

/// Checks a tensor of bytes.
fn check(view: &str, info: &TensorInfo, shape: &[u64], fits: bool) -> Result<(), WeightError> {
    let bytes = shape
        .iter()
        .try_fold(1u64, |bytes, size| bytes.checked_mul(*size));
    match fits && info.shape == shape && bytes == Some(info.len) {
        true => Ok(()),
        false => Err(unfit(
            view,
            &info.name,
            format!(
                "it is {} of shape {:?}, expected bytes of shape {shape:?}",
                info.stored, info.shape
            ),
        )),
    }
}
