//! Tensors that a checkpoint does not have as such: parts of its tensors stacked, or transposed, or
//! values that are computed. Nothing is copied until it is read, and then only what is.

use std::{borrow::Cow, collections::HashMap, fmt, ops::Range};

use super::{StoredEncoding, TensorInfo, WeightError, WeightSource};
use wisp_types::BoxFuture;

/// What a view is made of. Rows are those of the source's last dimension; a vector's are its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Rows of one or several tensors of equal width, one after the other.
    Rows(Vec<(String, Range<u64>)>),
    /// Columns of a tensor `[cols, rows]` of floats, as rows `[rows, cols]`.
    Transposed(String, Range<u64>),
}

/// A stretch of a view that stands in one piece in its source.
#[derive(Debug)]
struct Run {
    /// Where it begins in the view, in bytes.
    at: u64,
    tensor: String,
    /// Where it stands in the source, in bytes.
    bytes: Range<u64>,
}

/// Where a view's bytes come from.
#[derive(Debug)]
enum Origin {
    Runs(Vec<Run>),
    Columns {
        tensor: String,
        columns: Range<u64>,
        /// Columns of the source.
        width: u64,
        /// Bytes of one element.
        element: u64,
    },
    Computed(Compute),
}

/// Computes some elements of a tensor.
struct Compute(Box<dyn Fn(Range<u64>) -> Vec<f32> + Send + Sync>);

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compute")
    }
}

/// Elements of a shape that nobody has checked yet.
fn elements(shape: &[u64]) -> u64 {
    shape
        .iter()
        .fold(1, |product, size| product.saturating_mul(*size))
}

/// A checkpoint and its views, under their own names.
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
    inner: &'a dyn WeightSource,
    views: HashMap<String, (TensorInfo, Origin)>,
}

impl<'a> Views<'a> {
    /// A checkpoint without views.
    pub fn new(inner: &'a dyn WeightSource) -> Views<'a> {
        Views {
            inner,
            views: HashMap::new(),
        }
    }

    fn source(&self, name: &str) -> Result<&TensorInfo, WeightError> {
        self.inner
            .find(name)
            .ok_or_else(|| WeightError::MissingTensor { name: name.into() })
    }

    /// Adds a view of this shape, outermost dimension first.
    ///
    /// # Errors
    ///
    /// If a source is missing, or the parts do not make the shape: they have other sizes, or
    /// encodings of their own.
    pub fn add(&mut self, name: &str, view: View, shape: &[u64]) -> Result<(), WeightError> {
        let (stored, origin) = match view {
            View::Rows(parts) => self.rows(name, &parts, shape)?,
            View::Transposed(tensor, columns) => self.columns(name, tensor, columns, shape)?,
        };
        let len = match &origin {
            Origin::Runs(runs) => runs
                .last()
                .map_or(0, |run| run.at + run.bytes.end - run.bytes.start),
            Origin::Columns { element, .. } => elements(shape).saturating_mul(*element),
            Origin::Computed(_) => elements(shape).saturating_mul(4),
        };
        self.insert(name, stored, shape, len, origin);
        Ok(())
    }

    /// Adds a tensor of numbers.
    pub fn add_values(&mut self, name: &str, values: &[f32], shape: &[u64]) {
        let values = values.to_vec();
        let of = move |range: Range<u64>| values[range.start as usize..range.end as usize].to_vec();
        self.add_computed(name, shape, of);
    }

    /// Adds a tensor of numbers that are computed when they are read: some elements at a time.
    pub fn add_computed(
        &mut self,
        name: &str,
        shape: &[u64],
        compute: impl Fn(Range<u64>) -> Vec<f32> + Send + Sync + 'static,
    ) {
        let stored = StoredEncoding::Supported(super::Encoding::F32);
        let len = elements(shape).saturating_mul(4);
        let origin = Origin::Computed(Compute(Box::new(compute)));
        self.insert(name, stored, shape, len, origin);
    }

    fn insert(
        &mut self,
        name: &str,
        stored: StoredEncoding,
        shape: &[u64],
        len: u64,
        origin: Origin,
    ) {
        let info = TensorInfo {
            name: name.into(),
            stored,
            shape: shape.to_vec(),
            file: 0,
            offset: 0,
            len,
            big_endian: false,
        };
        self.views.insert(name.into(), (info, origin));
    }

    fn rows(
        &self,
        name: &str,
        parts: &[(String, Range<u64>)],
        shape: &[u64],
    ) -> Result<(StoredEncoding, Origin), WeightError> {
        let wrong = |tensor: &TensorInfo, problem: String| WeightError::View {
            view: name.into(),
            tensor: tensor.name.clone(),
            problem,
        };
        // A vector's rows are its elements.
        let cols = if shape.len() < 2 {
            1
        } else {
            shape[shape.len() - 1]
        };
        let mut stored = None;
        let (mut runs, mut at, mut rows) = (Vec::new(), 0, 0);
        for (tensor, range) in parts {
            let info = self.source(tensor)?;
            let encoding = info.encoding()?;
            let elements: u64 = info.shape.iter().product();
            if info.shape.len() > 1 && info.shape.last() != Some(&cols) {
                return Err(wrong(
                    info,
                    format!("it has shape {:?}, expected rows of {cols}", info.shape),
                ));
            }
            if range.start > range.end || range.end > elements / cols.max(1) {
                return Err(wrong(
                    info,
                    format!(
                        "it has shape {:?}, expected at least {} rows of {cols}",
                        info.shape, range.end
                    ),
                ));
            }
            if *stored.get_or_insert(info.stored) != info.stored {
                return Err(wrong(info, format!("it is {}, unlike others", info.stored)));
            }
            let row = encoding
                .file_row_bytes(cols)
                .ok_or_else(|| wrong(info, format!("{cols} are no whole blocks of {encoding}")))?;
            runs.push(Run {
                at,
                tensor: tensor.clone(),
                bytes: range.start * row..range.end * row,
            });
            at += (range.end - range.start) * row;
            rows += range.end - range.start;
        }
        let expected = elements(shape) / cols.max(1);
        match (parts.first(), stored) {
            (Some(_), Some(stored)) if rows == expected => Ok((stored, Origin::Runs(runs))),
            (first, _) => Err(WeightError::View {
                view: name.into(),
                tensor: first.map_or(String::new(), |(tensor, _)| tensor.clone()),
                problem: format!("its parts have {rows} rows, expected {expected}"),
            }),
        }
    }

    fn columns(
        &self,
        name: &str,
        tensor: String,
        columns: Range<u64>,
        shape: &[u64],
    ) -> Result<(StoredEncoding, Origin), WeightError> {
        let info = self.source(&tensor)?;
        let encoding = info.encoding()?;
        let wrong = |problem: String| WeightError::View {
            view: name.into(),
            tensor: tensor.clone(),
            problem,
        };
        if !encoding.is_float() {
            return Err(wrong(format!("{encoding} cannot be transposed")));
        }
        let (&[height, width], &[rows, cols]) = (info.shape.as_slice(), shape) else {
            return Err(wrong(format!(
                "it has shape {:?}, expected a matrix",
                info.shape
            )));
        };
        let fits = height == cols
            && columns.start <= columns.end
            && columns.end <= width
            && columns.end - columns.start == rows;
        if !fits {
            return Err(wrong(format!(
                "it has shape {:?}, expected [{cols}, {}] or wider",
                info.shape, columns.end
            )));
        }
        let origin = Origin::Columns {
            tensor: tensor.clone(),
            columns,
            width,
            element: encoding.file_block_bytes() as u64,
        };
        Ok((info.stored, origin))
    }

    /// The stretches of sources that make bytes `range` of a view of runs.
    fn stretches<'r>(
        runs: &'r [Run],
        range: &Range<u64>,
    ) -> impl Iterator<Item = (&'r str, Range<u64>)> + use<'r> {
        let range = range.clone();
        let first = runs.partition_point(|run| run.at <= range.start).max(1) - 1;
        let until = range.end;
        runs[first.min(runs.len())..]
            .iter()
            .take_while(move |run| run.at < until)
            .map(move |run| {
                let start = run.bytes.start + range.start.saturating_sub(run.at);
                let end = run.bytes.end.min(run.bytes.start + (range.end - run.at));
                (run.tensor.as_str(), start.min(end)..end)
            })
            .filter(|(_, bytes)| !bytes.is_empty())
    }

    async fn read_runs<'s>(
        &'s self,
        runs: &'s [Run],
        range: Range<u64>,
    ) -> Result<Cow<'s, [u8]>, WeightError> {
        let mut stretches = Self::stretches(runs, &range);
        let Some((tensor, bytes)) = stretches.next() else {
            return Ok(Cow::Borrowed(&[]));
        };
        // What stands in one piece is lent as it is.
        let mut all = self.inner.read(tensor, bytes).await?;
        for (tensor, bytes) in stretches {
            let more = self.inner.read(tensor, bytes).await?;
            all.to_mut().extend_from_slice(&more);
        }
        Ok(all)
    }

    /// Rows of a transposed view: the same columns of each row of the source.
    async fn read_columns(
        &self,
        tensor: &str,
        columns: &Range<u64>,
        [height, width, element]: [u64; 3],
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let row_bytes = (height * element).max(1);
        let (first, last) = (range.start / row_bytes, range.end.div_ceil(row_bytes));
        let size = element as usize;
        let mut bytes = vec![0; ((last - first) * row_bytes) as usize];
        for row in 0..height {
            let start = row * width + columns.start;
            let from = (start + first) * element..(start + last) * element;
            let values = self.inner.read(tensor, from).await?;
            let to = bytes.chunks_exact_mut(row_bytes as usize);
            for (to, value) in to.zip(values.chunks_exact(size)) {
                to[row as usize * size..][..size].copy_from_slice(value);
            }
        }
        bytes.truncate((range.end - first * row_bytes) as usize);
        bytes.drain(..(range.start - first * row_bytes) as usize);
        Ok(bytes)
    }
}

impl WeightSource for Views<'_> {
    fn tensors(&self) -> &[TensorInfo] {
        self.inner.tensors()
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        match self.views.get(name) {
            Some((info, _)) => Some(info),
            None => self.inner.find(name),
        }
    }

    fn read<'s>(
        &'s self,
        name: &'s str,
        range: Range<u64>,
    ) -> BoxFuture<'s, Result<Cow<'s, [u8]>, WeightError>> {
        let Some((info, origin)) = self.views.get(name) else {
            return self.inner.read(name, range);
        };
        Box::pin(async move {
            if range.start > range.end || range.end > info.len {
                return Err(WeightError::Range {
                    tensor: name.into(),
                    start: range.start,
                    end: range.end,
                    len: info.len,
                });
            }
            match origin {
                Origin::Runs(runs) => self.read_runs(runs, range).await,
                Origin::Columns {
                    tensor,
                    columns,
                    width,
                    element,
                } => {
                    let height = info.shape.last().copied().unwrap_or(0);
                    let sizes = [height, *width, *element];
                    let bytes = self.read_columns(tensor, columns, sizes, range).await?;
                    Ok(Cow::Owned(bytes))
                }
                Origin::Computed(Compute(compute)) => {
                    let values = compute(range.start / 4..range.end.div_ceil(4));
                    let bytes: &[u8] = bytemuck::cast_slice(&values);
                    let first = (range.start % 4) as usize;
                    let len = (range.end - range.start) as usize;
                    Ok(Cow::Owned(bytes[first..first + len].to_vec()))
                }
            }
        })
    }

    fn release(&self, name: &str, range: Range<u64>) {
        match self.views.get(name) {
            None => self.inner.release(name, range),
            Some((_, Origin::Runs(runs))) => {
                for (tensor, bytes) in Self::stretches(runs, &range) {
                    self.inner.release(tensor, bytes);
                }
            }
            // Every column needs every page of the source, until the last is read.
            Some((info, Origin::Columns { tensor, .. })) if range.end == info.len => {
                if let Some(source) = self.inner.find(tensor) {
                    self.inner.release(tensor, 0..source.len);
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;
    use wisp_types::Encoding;

    /// A safetensors file of `a: F32 [4, 3]`, 0 to 11, and `b: F32 [2, 3]`, 100 to 105.
    fn checkpoint() -> Checkpoint {
        let header = r#"{"a":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},
            "b":{"dtype":"F32","shape":[2,3],"data_offsets":[48,72]}}"#;
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        let values = (0..12).chain(100..106).map(|value| value as f32);
        file.extend(values.flat_map(f32::to_le_bytes));
        Checkpoint::from_bytes("test.safetensors", file).unwrap()
    }

    fn read(views: &Views<'_>, name: &str, range: Range<u64>) -> Vec<f32> {
        let range = range.start * 4..range.end * 4;
        let bytes = pollster::block_on(views.read(name, range)).unwrap();
        bytemuck::pod_collect_to_vec(&bytes)
    }

    #[test]
    fn rows_are_stacked_and_read_in_any_part() {
        let checkpoint = checkpoint();
        let mut views = Views::new(&checkpoint);
        let parts = vec![("a".into(), 3..4), ("b".into(), 0..2), ("a".into(), 0..1)];
        views.add("v", View::Rows(parts), &[4, 3]).unwrap();
        let all = [9., 10., 11., 100., 101., 102., 103., 104., 105., 0., 1., 2.];
        for start in 0..=12 {
            for end in start..=12 {
                let expected = &all[start..end];
                assert_eq!(read(&views, "v", start as u64..end as u64), expected);
            }
        }
        assert_eq!(views.find("v").unwrap().len, 48);
        assert_eq!(read(&views, "b", 0..2), [100.0, 101.0]);
    }

    #[test]
    fn columns_become_rows() {
        let checkpoint = checkpoint();
        let mut views = Views::new(&checkpoint);
        views
            .add("v", View::Transposed("a".into(), 1..3), &[2, 4])
            .unwrap();
        let all = [1., 4., 7., 10., 2., 5., 8., 11.];
        for start in 0..=8 {
            for end in start..=8 {
                let expected = &all[start..end];
                assert_eq!(read(&views, "v", start as u64..end as u64), expected);
            }
        }
        assert!(pollster::block_on(views.read("v", 0..33)).is_err());
    }

    #[test]
    fn values_are_tensors_too() {
        let checkpoint = checkpoint();
        let mut views = Views::new(&checkpoint);
        views.add_values("v", &[1.0, 2.0, 3.0], &[1, 3]);
        assert_eq!(read(&views, "v", 1..3), [2.0, 3.0]);
        let info = views.find("v").unwrap();
        assert_eq!(info.encoding().unwrap(), Encoding::F32);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let checkpoint = checkpoint();
        let mut views = Views::new(&checkpoint);
        let mut refuse = |view: View, shape: &[u64], what: &str| {
            let error = views.add("v", view, shape).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        let rows = |name: &str, range| View::Rows(vec![(name.to_string(), range)]);
        refuse(rows("a", 0..5), &[5, 3], "at least 5 rows");
        refuse(rows("a", 0..2), &[2, 4], "rows of 4");
        refuse(rows("a", 0..2), &[3, 3], "2 rows, expected 3");
        refuse(rows("c", 0..2), &[2, 3], "c");
        refuse(View::Rows(Vec::new()), &[2, 3], "0 rows");
        refuse(View::Transposed("a".into(), 0..4), &[4, 4], "[4, 3]");
        refuse(View::Transposed("a".into(), 0..2), &[2, 3], "[4, 3]");
    }
}
