//! Views whose elements are at regular distances in a float tensor, such as transposed matrices.

use std::ops::Range;

use wisp_types::Encoding;

use crate::{
    error::WeightError,
    source::{WeightSource, require},
    tensor::saturating_elements,
};

/// Elements of a float tensor at regular distances, as rows of a view.
pub(super) struct StridedElements {
    tensor: String,
    encoding: Encoding,
    /// The element of the tensor that is the view's first.
    offset: u64,
    /// The sizes of the view as matrices: their number, their rows and their columns.
    dims: [u64; 3],
    /// The distance in the tensor from an element to the next one of each dimension.
    strides: [u64; 3],
}

impl StridedElements {
    /// Checks that the tensor has all elements of a view of this shape.
    pub fn new(
        source: &dyn WeightSource,
        view: &str,
        tensor: String,
        (offset, strides): (u64, &[u64]),
        shape: &[u64],
    ) -> Result<StridedElements, WeightError> {
        let info = require(source, &tensor)?;
        let encoding = info.encoding()?;
        let unfit = |problem: String| WeightError::View {
            view: view.into(),
            tensor: tensor.clone(),
            problem,
        };
        if !encoding.is_float() {
            return Err(unfit(format!(
                "{encoding} is stored in blocks of which no single elements can be taken"
            )));
        }
        let (Some(dims), Some(all_strides)) = (padded(shape), padded(strides)) else {
            return Err(unfit("views of more than three dimensions".into()));
        };
        let last = dims
            .iter()
            .zip(all_strides)
            .try_fold(offset, |at, (size, stride)| {
                at.checked_add(size.saturating_sub(1).checked_mul(stride)?)
            });
        let elements = saturating_elements(&info.shape);
        if shape.len() != strides.len() || last.is_none_or(|last| last >= elements) {
            return Err(unfit(format!(
                "it has shape {:?}, which lacks elements of the view's shape {shape:?}",
                info.shape
            )));
        }
        Ok(StridedElements {
            tensor,
            encoding,
            offset,
            dims,
            strides: all_strides,
        })
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub fn byte_len(&self) -> u64 {
        saturating_elements(&self.dims).saturating_mul(self.element_bytes())
    }

    fn element_bytes(&self) -> u64 {
        self.encoding.file_block_bytes() as u64
    }

    /// Reads the bytes `range` of the view.
    pub async fn read(
        &self,
        source: &dyn WeightSource,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let [_, rows, cols] = self.dims;
        let row_bytes = (cols * self.element_bytes()).max(1);
        let (first, last) = (range.start / row_bytes, range.end.div_ceil(row_bytes));
        let mut bytes = Vec::new();
        let mut row = first;
        // The rows of one matrix at a time.
        while row < last {
            let end = last.min((row / rows + 1) * rows);
            bytes.extend(
                self.read_rows(source, row / rows, row % rows..row % rows + end - row)
                    .await?,
            );
            row = end;
        }
        bytes.truncate((range.end - first * row_bytes) as usize);
        bytes.drain(..(range.start - first * row_bytes) as usize);
        Ok(bytes)
    }

    /// Reads rows of one matrix. What lies close together in the tensor, rows or columns, is read at once.
    async fn read_rows(
        &self,
        source: &dyn WeightSource,
        matrix: u64,
        rows: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let ([_, _, cols], [matrix_stride, row_stride, col_stride]) = (self.dims, self.strides);
        let (size, count) = (self.element_bytes(), rows.end - rows.start);
        let base = self.offset + matrix * matrix_stride + rows.start * row_stride;
        let mut bytes = vec![0; (count * cols * size) as usize];
        // The index among the view's elements of the `near`th element of a run, and of the `far`th run.
        let by_rows = col_stride <= row_stride;
        let ((near, near_stride, near_step), (far, far_stride, far_step)) = match by_rows {
            true => ((cols, col_stride, 1), (count, row_stride, cols)),
            false => ((count, row_stride, cols), (cols, col_stride, 1)),
        };
        if near == 0 {
            return Ok(bytes);
        }
        let size = size as usize;
        for run in 0..far {
            let start = base + run * far_stride;
            let end = start + (near - 1) * near_stride + 1;
            let elements = start * size as u64..end * size as u64;
            let values = source.read(&self.tensor, elements).await?;
            for i in 0..near {
                let from = (i * near_stride) as usize * size;
                let to = (run * far_step + i * near_step) as usize * size;
                bytes[to..to + size].copy_from_slice(&values[from..from + size]);
            }
        }
        Ok(bytes)
    }

    /// Releases the tensor once the end of the view has been used, because every part of the view may
    /// read every page of the tensor's data.
    pub fn release(&self, source: &dyn WeightSource, range: &Range<u64>) {
        if range.end == self.byte_len()
            && let Some(info) = source.find(&self.tensor)
        {
            source.release(&self.tensor, 0..info.len);
        }
    }
}

/// Returns the sizes or strides of three dimensions, the outermost of which may be missing; `None` if there
/// are more.
fn padded(sizes: &[u64]) -> Option<[u64; 3]> {
    let mut all = [1; 3];
    let missing = all.len().checked_sub(sizes.len())?;
    all[missing..].copy_from_slice(sizes);
    Some(all)
}
