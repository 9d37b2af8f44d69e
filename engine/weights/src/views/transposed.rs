//! Views that transpose columns of float tensors.

use std::ops::Range;

use wisp_types::Encoding;

use crate::{
    error::WeightError,
    source::{WeightSource, require},
    tensor::saturating_elements,
};

/// Columns of a tensor `[height, width]`, as rows of `height` elements.
pub(super) struct TransposedColumns {
    tensor: String,
    encoding: Encoding,
    columns: Range<u64>,
    height: u64,
    width: u64,
}

impl TransposedColumns {
    /// Checks that the columns have the view's shape.
    pub fn new(
        source: &dyn WeightSource,
        view: &str,
        tensor: String,
        columns: Range<u64>,
        shape: &[u64],
    ) -> Result<TransposedColumns, WeightError> {
        let info = require(source, &tensor)?;
        let encoding = info.encoding()?;
        let unfit = |problem: String| WeightError::View {
            view: view.into(),
            tensor: tensor.clone(),
            problem,
        };
        if !encoding.is_float() {
            return Err(unfit(format!("{encoding} cannot be transposed")));
        }
        let (&[height, width], &[rows, cols]) = (info.shape.as_slice(), shape) else {
            return Err(unfit(format!(
                "it has shape {:?}, expected a matrix",
                info.shape
            )));
        };
        let fits = height == cols
            && columns.start <= columns.end
            && columns.end <= width
            && columns.end - columns.start == rows;
        if !fits {
            return Err(unfit(format!(
                "it has shape {:?}, expected [{cols}, {}] or wider",
                info.shape, columns.end
            )));
        }
        Ok(TransposedColumns {
            tensor,
            encoding,
            columns,
            height,
            width,
        })
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub fn byte_len(&self) -> u64 {
        let rows = self.columns.end - self.columns.start;
        saturating_elements(&[rows, self.height]).saturating_mul(self.element_bytes())
    }

    fn element_bytes(&self) -> u64 {
        self.encoding.file_block_bytes() as u64
    }

    /// Reads the bytes `range` of the view: the same columns of each row of the source.
    pub async fn read(
        &self,
        source: &dyn WeightSource,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let element = self.element_bytes();
        let row_bytes = (self.height * element).max(1);
        let (first, last) = (range.start / row_bytes, range.end.div_ceil(row_bytes));
        let size = element as usize;
        let mut bytes = vec![0; ((last - first) * row_bytes) as usize];
        for row in 0..self.height {
            let start = row * self.width + self.columns.start;
            let elements = (start + first) * element..(start + last) * element;
            let values = source.read(&self.tensor, elements).await?;
            let rows = bytes.chunks_exact_mut(row_bytes as usize);
            for (to, value) in rows.zip(values.chunks_exact(size)) {
                to[row as usize * size..][..size].copy_from_slice(value);
            }
        }
        bytes.truncate((range.end - first * row_bytes) as usize);
        bytes.drain(..(range.start - first * row_bytes) as usize);
        Ok(bytes)
    }

    /// Releases the tensor once the end of the view has been used, because every part of the view
    /// reads every page of the tensor's data.
    pub fn release(&self, source: &dyn WeightSource, range: &Range<u64>) {
        if range.end == self.byte_len()
            && let Some(info) = source.find(&self.tensor)
        {
            source.release(&self.tensor, 0..info.len);
        }
    }
}
