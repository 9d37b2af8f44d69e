//! Views that stack rows of tensors.

use std::{borrow::Cow, ops::Range, sync::Arc};

use wisp_types::Encoding;

use crate::{
    error::WeightError,
    source::{WeightSource, require},
    tensor::{TensorInfo, saturating_elements},
};

/// Rows of one or several tensors, one after the other.
pub(super) struct StackedRows {
    encoding: Encoding,
    /// In the order of the view, without gaps.
    runs: Vec<Run>,
}

/// A part of a view that is contiguous in one tensor of the source.
struct Run {
    /// The offset in the view, in bytes.
    at: u64,
    tensor: String,
    /// The bytes of the tensor.
    bytes: Range<u64>,
}

impl StackedRows {
    /// Locates the rows, and checks that together they have the view's shape.
    pub fn new(
        source: &dyn WeightSource,
        view: &str,
        parts: &[(String, Range<u64>)],
        shape: &[u64],
    ) -> Result<StackedRows, WeightError> {
        let cols = match shape {
            // The rows of a vector are its elements.
            [] | [_] => 1,
            [.., cols] => *cols,
        };
        let (mut stacked, mut order) = (None, None);
        let (mut runs, mut at, mut rows) = (Vec::new(), 0, 0);
        for (tensor, range) in parts {
            let info = require(source, tensor)?;
            let unfit = |problem: String| WeightError::View {
                view: view.into(),
                tensor: tensor.clone(),
                problem,
            };
            check_rows(info, cols, range).map_err(unfit)?;
            let encoding = info.encoding()?;
            if *stacked.get_or_insert(encoding) != encoding {
                return Err(unfit(format!("it is {encoding}, unlike the others")));
            }
            if runs.is_empty() {
                order = source.column_order(tensor);
            } else if source.column_order(tensor) != order {
                return Err(unfit(
                    "its columns are in another order than the others'".into(),
                ));
            }
            let row = encoding.file_row_bytes(cols).ok_or_else(|| {
                unfit(format!("rows of {cols} are not whole blocks of {encoding}"))
            })?;
            runs.push(Run {
                at,
                tensor: tensor.clone(),
                bytes: range.start * row..range.end * row,
            });
            at += (range.end - range.start) * row;
            rows += range.end - range.start;
        }
        let expected = saturating_elements(shape) / cols.max(1);
        match stacked {
            Some(encoding) if rows == expected => Ok(StackedRows { encoding, runs }),
            _ => Err(WeightError::View {
                view: view.into(),
                tensor: parts.first().map_or(String::new(), |part| part.0.clone()),
                problem: format!("its parts have {rows} rows, expected {expected}"),
            }),
        }
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub fn column_order(&self, source: &dyn WeightSource) -> Option<Arc<[u32]>> {
        // All tensors have the same.
        source.column_order(&self.runs.first()?.tensor)
    }

    pub fn byte_len(&self) -> u64 {
        let last = self.runs.last();
        last.map_or(0, |run| run.at + (run.bytes.end - run.bytes.start))
    }

    /// The parts of the source's tensors that the bytes `range` of the view consist of.
    fn parts(&self, range: &Range<u64>) -> impl Iterator<Item = (&str, Range<u64>)> {
        let range = range.clone();
        let first = self.runs.partition_point(|run| run.at <= range.start);
        let until = range.end;
        self.runs[first.saturating_sub(1)..]
            .iter()
            .take_while(move |run| run.at < until)
            .map(move |run| {
                let start = run.bytes.start + range.start.saturating_sub(run.at);
                let end = run.bytes.end.min(run.bytes.start + (range.end - run.at));
                (run.tensor.as_str(), start.min(end)..end)
            })
            .filter(|(_, bytes)| !bytes.is_empty())
    }

    /// Reads the bytes `range` of the view. They are borrowed from the source if one tensor has them all.
    pub async fn read<'s>(
        &'s self,
        source: &'s dyn WeightSource,
        range: Range<u64>,
    ) -> Result<Cow<'s, [u8]>, WeightError> {
        let mut parts = self.parts(&range);
        let Some((tensor, bytes)) = parts.next() else {
            return Ok(Cow::Borrowed(&[]));
        };
        let mut all = source.read(tensor, bytes).await?;
        for (tensor, bytes) in parts {
            let more = source.read(tensor, bytes).await?;
            all.to_mut().extend_from_slice(&more);
        }
        Ok(all)
    }

    pub fn release(&self, source: &dyn WeightSource, range: &Range<u64>) {
        for (tensor, bytes) in self.parts(range) {
            source.release(tensor, bytes);
        }
    }
}

/// Checks that a tensor has these rows of `cols` elements.
fn check_rows(info: &TensorInfo, cols: u64, range: &Range<u64>) -> Result<(), String> {
    let shape = &info.shape;
    if shape.len() > 1 && shape.last() != Some(&cols) {
        return Err(format!("it has shape {shape:?}, expected rows of {cols}"));
    }
    let rows = saturating_elements(shape) / cols.max(1);
    if range.start > range.end || range.end > rows {
        return Err(format!(
            "it has shape {shape:?}, expected at least {} rows of {cols}",
            range.end
        ));
    }
    Ok(())
}
