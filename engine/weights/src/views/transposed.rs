//! Views of matrices of any encoding that are transposed, each by itself.

use std::ops::Range;

use wisp_types::Encoding;

use crate::{
    encodings,
    error::WeightError,
    source::{WeightSource, require},
    tensor::saturating_elements,
};

/// Rows of the matrices of a tensor, transposed: `[matrices, cols, rows]`. Elements of two or four bytes are moved; other
/// encodings become F32, because blocks cannot be transposed.
pub(super) struct TransposedMatrices {
    tensor: String,
    encoding: Encoding,
    matrices: u64,
    /// The rows of each matrix that are transposed.
    rows: Range<u64>,
    cols: u64,
    /// The bytes of a row of the tensor.
    row_bytes: u64,
    /// The bytes from a matrix of the tensor to the next.
    stride: u64,
}

impl TransposedMatrices {
    /// Checks that the tensor has so many matrices of equal size with these rows, and that the view has the shape
    /// `[matrices, cols, rows]`.
    pub fn new(
        source: &dyn WeightSource,
        view: &str,
        tensor: String,
        (matrices, rows): (u64, Range<u64>),
        shape: &[u64],
    ) -> Result<TransposedMatrices, WeightError> {
        let info = require(source, &tensor)?;
        let encoding = info.encoding()?;
        let unfit = || WeightError::View {
            view: view.into(),
            tensor: tensor.clone(),
            problem: format!(
                "it has shape {:?}, whose rows {}..{} of {matrices} matrices do not have the view's shape {shape:?} if \
                 they are transposed",
                info.shape, rows.start, rows.end
            ),
        };
        let cols = info.shape.last().copied().unwrap_or(0);
        let all = saturating_elements(&info.shape) / cols.max(1);
        let of_matrix = all.checked_div(matrices).unwrap_or(0);
        let count = rows.end.checked_sub(rows.start).ok_or_else(unfit)?;
        let fits = of_matrix.checked_mul(matrices) == Some(all)
            && rows.end <= of_matrix
            && shape == [matrices, cols, count];
        let row_bytes = encoding.file_row_bytes(cols).filter(|_| fits);
        let row_bytes = row_bytes.ok_or_else(unfit)?;
        Ok(TransposedMatrices {
            stride: row_bytes.checked_mul(of_matrix).ok_or_else(unfit)?,
            row_bytes,
            tensor,
            encoding,
            matrices,
            rows,
            cols,
        })
    }

    /// The encoding of the view.
    pub fn encoding(&self) -> Encoding {
        match self.encoding {
            Encoding::F16 | Encoding::BF16 => self.encoding,
            _ => Encoding::F32,
        }
    }

    /// The bytes of an element of the view.
    fn element_bytes(&self) -> u64 {
        match self.encoding() {
            Encoding::F32 => 4,
            _ => 2,
        }
    }

    /// The bytes of a matrix of the view.
    fn matrix_bytes(&self) -> u64 {
        let elements = (self.rows.end - self.rows.start).saturating_mul(self.cols);
        elements.saturating_mul(self.element_bytes())
    }

    /// The bytes of the view.
    pub fn byte_len(&self) -> u64 {
        self.matrices.saturating_mul(self.matrix_bytes())
    }

    /// The bytes of the tensor that a matrix of the view is made of.
    fn stored(&self, matrix: u64) -> Range<u64> {
        let at = matrix * self.stride;
        at + self.rows.start * self.row_bytes..at + self.rows.end * self.row_bytes
    }

    /// Reads the bytes `range` of the view, which are checked to be in it.
    pub async fn read(
        &self,
        source: &dyn WeightSource,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let bytes = self.matrix_bytes().max(1);
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        for index in range.start / bytes..range.end.div_ceil(bytes) {
            let stored = source.read(&self.tensor, self.stored(index)).await?;
            let transposed = self.transposed(&stored)?;
            let at = index * bytes;
            let first = range.start.saturating_sub(at) as usize;
            let last = (range.end - at).min(bytes) as usize;
            out.extend_from_slice(&transposed[first..last]);
        }
        Ok(out)
    }

    /// Transposes the stored rows of a matrix.
    fn transposed(&self, stored: &[u8]) -> Result<Vec<u8>, WeightError> {
        let (rows, cols) = (
            (self.rows.end - self.rows.start) as usize,
            self.cols as usize,
        );
        match self.encoding {
            Encoding::F32 => Ok(transpose::<4>(stored, cols)),
            Encoding::F16 | Encoding::BF16 => Ok(transpose::<2>(stored, cols)),
            encoding => {
                let values = encodings::dequantize(encoding, stored, rows, cols);
                let values = values.map_err(|error| WeightError::View {
                    view: format!("{} transposed", self.tensor),
                    tensor: self.tensor.clone(),
                    problem: error.to_string(),
                })?;
                Ok(transpose::<4>(bytemuck::cast_slice(&values), cols))
            }
        }
    }

    /// Releases the matrices that the bytes `range` of the view are in.
    pub fn release(&self, source: &dyn WeightSource, range: &Range<u64>) {
        let bytes = self.matrix_bytes().max(1);
        for index in range.start / bytes..range.end.div_ceil(bytes) {
            source.release(&self.tensor, self.stored(index));
        }
    }
}

/// Transposes a matrix of elements of `N` bytes with `cols` columns.
fn transpose<const N: usize>(bytes: &[u8], cols: usize) -> Vec<u8> {
    let (elements, _) = bytes.as_chunks::<N>();
    let columns = (0..cols).flat_map(|col| elements.iter().skip(col).step_by(cols));
    columns.flatten().copied().collect()
}
