//! Views of matrices of any encoding that are transposed, each by itself.

use std::ops::Range;

use wisp_types::Encoding;

use crate::{
    encodings,
    error::WeightError,
    source::{WeightSource, require},
};

/// The matrices `[matrices, rows, cols]` of a tensor, transposed: rows `[matrices * cols, rows]` of F32, whatever the
/// tensor's encoding, because blocks cannot be transposed.
pub(super) struct TransposedMatrices {
    tensor: String,
    encoding: Encoding,
    matrices: u64,
    rows: u64,
    cols: u64,
    /// The bytes of a matrix of the tensor.
    bytes: u64,
}

impl TransposedMatrices {
    /// Checks that the tensor's matrices have the view's shape `[matrices * cols, rows]`.
    pub fn new(
        source: &dyn WeightSource,
        view: &str,
        tensor: String,
        shape: &[u64],
    ) -> Result<TransposedMatrices, WeightError> {
        let info = require(source, &tensor)?;
        let encoding = info.encoding()?;
        let unfit = || WeightError::View {
            view: view.into(),
            tensor: tensor.clone(),
            problem: format!(
                "it has shape {:?}, whose transposed matrices do not have the view's shape {shape:?}",
                info.shape
            ),
        };
        let &[matrices, rows, cols] = &info.shape[..] else {
            return Err(unfit());
        };
        if matrices
            .checked_mul(cols)
            .map(|all| [all, rows])
            .as_ref()
            .map(|s| &s[..])
            != Some(shape)
        {
            return Err(unfit());
        }
        let row = encoding.file_row_bytes(cols);
        let bytes = row.and_then(|row| row.checked_mul(rows));
        Ok(TransposedMatrices {
            bytes: bytes.ok_or_else(unfit)?,
            tensor,
            encoding,
            matrices,
            rows,
            cols,
        })
    }

    /// The bytes of the view.
    pub fn byte_len(&self) -> u64 {
        let matrix = self.rows.saturating_mul(self.cols).saturating_mul(4);
        self.matrices.saturating_mul(matrix)
    }

    /// Reads the bytes `range` of the view, which are checked to be in it.
    pub async fn read(
        &self,
        source: &dyn WeightSource,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let matrix = (self.rows * self.cols * 4).max(1);
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        for index in range.start / matrix..range.end.div_ceil(matrix) {
            let stored = index * self.bytes..(index + 1) * self.bytes;
            let bytes = source.read(&self.tensor, stored).await?;
            let (rows, cols) = (self.rows as usize, self.cols as usize);
            let values = encodings::dequantize(self.encoding, &bytes, rows, cols);
            let values = values.map_err(|error| WeightError::View {
                view: format!("{} transposed", self.tensor),
                tensor: self.tensor.clone(),
                problem: error.to_string(),
            })?;
            let columns = (0..cols).flat_map(|col| {
                let values = &values;
                (0..rows).map(move |row| values[row * cols + col])
            });
            let transposed: Vec<f32> = columns.collect();
            let bytes: &[u8] = bytemuck::cast_slice(&transposed);
            let at = index * matrix;
            let first = range.start.saturating_sub(at) as usize;
            let last = (range.end - at).min(matrix) as usize;
            out.extend_from_slice(&bytes[first..last]);
        }
        Ok(out)
    }

    /// Releases the matrices that the bytes `range` of the view are in.
    pub fn release(&self, source: &dyn WeightSource, range: &Range<u64>) {
        let matrix = (self.rows * self.cols * 4).max(1);
        let matrices = range.start / matrix..range.end.div_ceil(matrix);
        let stored = matrices.start * self.bytes..matrices.end * self.bytes;
        source.release(&self.tensor, stored);
    }
}
