//! Views: tensors that a checkpoint does not have as such, but that are stacked, strided or differently packed parts
//! of its tensors, or are computed. Nothing is copied or computed until it is read, and then only what is read.

mod mxfp4;
mod rows;
mod strided;
mod transposed;

use std::{borrow::Cow, collections::HashMap, ops::Range, sync::Arc};

use wisp_types::{BoxFuture, Encoding};

use self::{
    mxfp4::Mxfp4Rows, rows::StackedRows, strided::StridedElements, transposed::TransposedMatrices,
};
use crate::{
    error::WeightError,
    source::WeightSource,
    tensor::{StoredEncoding, TensorInfo, saturating_elements},
};

/// The parts of a source's tensors that a view consists of.
///
/// Rows are those of a tensor's last dimension; the rows of a vector are its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Rows of one or several tensors of equal width, stacked: the names of the tensors and the ranges of
    /// rows.
    Rows(Vec<(String, Range<u64>)>),
    /// Elements of a float tensor at regular distances, as at most three dimensions.
    Strided {
        /// The name of the tensor.
        tensor: String,
        /// The element of the tensor that is the view's first.
        offset: u64,
        /// The distance from an element to the next one of each dimension, outermost first.
        strides: Vec<u64>,
    },
    /// Rows of MXFP4 weights in two tensors of bytes, as gpt-oss stores them: `[matrices, rows, blocks, 16]` and
    /// `[matrices, rows, blocks]`. The view is `[matrices, rows, cols]`.
    Mxfp4 {
        /// The tensor of the weights, two in a byte.
        blocks: String,
        /// The tensor of the blocks' exponents.
        scales: String,
        /// The first row of each matrix.
        first: u64,
        /// The distance from a row to the next.
        step: u64,
    },
    /// Rows of each of the matrices of a tensor in any encoding, each transposed: `[matrices, cols, rows]`. Elements of F32,
    /// F16 and BF16 stay as they are; blocks cannot be transposed and become F32.
    TransposedMatrices {
        /// The name of the tensor, `[matrices * rows of a matrix, cols]`.
        tensor: String,
        /// The number of matrices.
        matrices: u64,
        /// The rows of each matrix that are transposed.
        rows: Range<u64>,
    },
    /// A function of each element of rows of F32 tensors, as in [`View::Rows`].
    Mapped {
        /// The names of the tensors and the ranges of rows.
        rows: Vec<(String, Range<u64>)>,
        /// What each element becomes.
        function: ElementFunction,
    },
}

/// What a view computes of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementFunction {
    /// The logarithm of the negative number: GGUF stores `-exp(x)` of the rates at which recurrent states decay.
    LogOfNegative,
}

impl ElementFunction {
    fn apply(self, x: f32) -> f32 {
        match self {
            ElementFunction::LogOfNegative => (-x).ln(),
        }
    }
}

impl View {
    /// Returns the view of a range of columns of a float tensor `[cols, width]` as rows `[rows, cols]`.
    pub fn transposed(tensor: String, width: u64, columns: Range<u64>) -> View {
        View::Strided {
            tensor,
            offset: columns.start,
            strides: vec![1, width],
        }
    }
}

/// Computes a range of elements of a tensor.
type Compute = Box<dyn Fn(Range<u64>) -> Vec<f32> + Send + Sync>;

/// The origin of a view's data.
enum Origin {
    Rows(StackedRows),
    Strided(StridedElements),
    Mxfp4(Mxfp4Rows),
    Transposed(TransposedMatrices),
    Mapped(StackedRows, ElementFunction),
    Computed(Compute),
}

/// A source of weights with views of its tensors, which have names like its tensors.
///
/// ```
/// use wisp_weights::{MemoryWeights, View, Views, WeightSource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut file = MemoryWeights::default();
/// file.insert("qkv", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut weights = Views::new(&file);
/// weights.add("k", View::Rows(vec![("qkv".into(), 1..2)]), &[1, 2])?;
/// let bytes = pollster::block_on(weights.read("k", 0..8))?;
/// assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), [3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub struct Views<'a> {
    source: &'a dyn WeightSource,
    views: HashMap<String, (TensorInfo, Origin)>,
}

impl<'a> Views<'a> {
    /// Creates a source that has the tensors of `source` and no views yet.
    pub fn new(source: &'a dyn WeightSource) -> Views<'a> {
        Views {
            source,
            views: HashMap::new(),
        }
    }

    /// Adds a view of a shape, outermost dimension first, or replaces the one with this name.
    ///
    /// # Errors
    ///
    /// If the source lacks a tensor, or the parts do not result in this shape: they have other sizes or
    /// different encodings.
    pub fn add(&mut self, name: &str, view: View, shape: &[u64]) -> Result<(), WeightError> {
        let (encoding, len, origin) = match view {
            View::Rows(parts) => {
                let rows = StackedRows::new(self.source, name, &parts, shape)?;
                (rows.encoding(), rows.byte_len(), Origin::Rows(rows))
            }
            View::Strided {
                tensor,
                offset,
                strides,
            } => {
                let layout = (offset, &strides[..]);
                let view = StridedElements::new(self.source, name, tensor, layout, shape)?;
                (view.encoding(), view.byte_len(), Origin::Strided(view))
            }
            View::Mxfp4 {
                blocks,
                scales,
                first,
                step,
            } => {
                let tensors = [blocks, scales];
                let view = Mxfp4Rows::new(self.source, name, tensors, [first, step], shape)?;
                (view.encoding(), view.byte_len(), Origin::Mxfp4(view))
            }
            View::TransposedMatrices {
                tensor,
                matrices,
                rows,
            } => {
                let view =
                    TransposedMatrices::new(self.source, name, tensor, (matrices, rows), shape)?;
                (view.encoding(), view.byte_len(), Origin::Transposed(view))
            }
            View::Mapped { rows, function } => {
                let stacked = StackedRows::new(self.source, name, &rows, shape)?;
                if stacked.encoding() != Encoding::F32 {
                    return Err(WeightError::View {
                        view: name.into(),
                        tensor: rows.first().map_or(String::new(), |part| part.0.clone()),
                        problem: format!("it is {}, expected F32", stacked.encoding()),
                    });
                }
                let len = stacked.byte_len();
                (Encoding::F32, len, Origin::Mapped(stacked, function))
            }
        };
        self.insert(name, encoding, shape, len, origin);
        Ok(())
    }

    /// Adds a tensor of floats, or replaces the view with this name. `values` has as many elements as
    /// `shape`.
    pub fn add_values(&mut self, name: &str, values: &[f32], shape: &[u64]) {
        let values = values.to_vec();
        self.add_computed(name, shape, move |range: Range<u64>| {
            values[range.start as usize..range.end as usize].to_vec()
        });
    }

    /// Adds a tensor of floats that are computed when they are read, a range of elements at a time, or
    /// replaces the view with this name. `compute` returns as many values as the range has elements.
    pub fn add_computed(
        &mut self,
        name: &str,
        shape: &[u64],
        compute: impl Fn(Range<u64>) -> Vec<f32> + Send + Sync + 'static,
    ) {
        let len = saturating_elements(shape).saturating_mul(4);
        let origin = Origin::Computed(Box::new(compute));
        self.insert(name, Encoding::F32, shape, len, origin);
    }

    fn insert(&mut self, name: &str, encoding: Encoding, shape: &[u64], len: u64, origin: Origin) {
        let info = TensorInfo {
            name: name.into(),
            stored: StoredEncoding::Supported(encoding),
            shape: shape.to_vec(),
            file: 0,
            offset: 0,
            len,
            big_endian: false,
        };
        self.views.insert(name.into(), (info, origin));
    }
}

/// The bytes `range` of computed floats.
fn computed_bytes(compute: &dyn Fn(Range<u64>) -> Vec<f32>, range: Range<u64>) -> Vec<u8> {
    let values = compute(range.start / 4..range.end.div_ceil(4));
    let bytes: &[u8] = bytemuck::cast_slice(&values);
    let first = (range.start % 4) as usize;
    let len = (range.end - range.start) as usize;
    bytes[first..first + len].to_vec()
}

impl WeightSource for Views<'_> {
    /// Returns the descriptions of the source's tensors, without the views.
    fn tensors(&self) -> &[TensorInfo] {
        self.source.tensors()
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        match self.views.get(name) {
            Some((info, _)) => Some(info),
            None => self.source.find(name),
        }
    }

    fn read<'s>(
        &'s self,
        name: &'s str,
        range: Range<u64>,
    ) -> BoxFuture<'s, Result<Cow<'s, [u8]>, WeightError>> {
        let Some((info, origin)) = self.views.get(name) else {
            return self.source.read(name, range);
        };
        Box::pin(async move {
            if range.start > range.end || range.end > info.len {
                return Err(info.out_of_range(&range));
            }
            match origin {
                Origin::Rows(rows) => rows.read(self.source, range).await,
                Origin::Strided(view) => view.read(self.source, range).await.map(Cow::Owned),
                Origin::Mxfp4(view) => view.read(self.source, range).await.map(Cow::Owned),
                Origin::Transposed(view) => view.read(self.source, range).await.map(Cow::Owned),
                Origin::Mapped(rows, function) => {
                    // Whole elements around the range.
                    let whole = range.start / 4 * 4..range.end.next_multiple_of(4);
                    let bytes = rows.read(self.source, whole.clone()).await?;
                    let values = bytemuck::pod_collect_to_vec::<u8, f32>(&bytes);
                    let apply = |at: Range<u64>| {
                        let (first, end) = (at.start - whole.start / 4, at.end - whole.start / 4);
                        let values = &values[first as usize..end as usize];
                        values.iter().map(|x| function.apply(*x)).collect()
                    };
                    Ok(Cow::Owned(computed_bytes(&apply, range)))
                }
                Origin::Computed(compute) => Ok(Cow::Owned(computed_bytes(compute, range))),
            }
        })
    }

    fn column_order(&self, name: &str) -> Option<Arc<[u32]>> {
        match self.views.get(name) {
            None => self.source.column_order(name),
            Some((_, Origin::Rows(rows))) => rows.column_order(self.source),
            Some(_) => None,
        }
    }

    fn release(&self, name: &str, range: Range<u64>) {
        match self.views.get(name) {
            None => self.source.release(name, range),
            Some((_, Origin::Rows(rows) | Origin::Mapped(rows, _))) => {
                rows.release(self.source, &range);
            }
            Some((_, Origin::Strided(view))) => view.release(self.source, &range),
            Some((_, Origin::Mxfp4(view))) => view.release(self.source, &range),
            Some((_, Origin::Transposed(view))) => view.release(self.source, &range),
            Some((_, Origin::Computed(_))) => {}
        }
    }
}

#[cfg(test)]
mod tests;
