//! Encodes tensors one by one, a number of rows at a time, and writes them to a file.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

use rayon::prelude::*;
use wisp_types::Encoding;
use wisp_weights::{
    Views, WeightError, WeightSource,
    encodings::{dequantize, quantize},
};

use super::{
    error::ConvertError,
    options::OnProgress,
    planned_tensor::{PlannedTensor, ValueChange},
    report::{ConvertReport, TensorStats},
};

/// The largest number of weights that are in memory at once, unless one row has more.
const WEIGHTS_AT_ONCE: usize = 1 << 20;

/// A planned tensor, and its encoding before and after.
pub(super) struct TensorJob<'p> {
    pub planned: &'p PlannedTensor,
    pub from: Encoding,
    pub to: Encoding,
    pub rows: usize,
    pub cols: usize,
}

impl TensorJob<'_> {
    /// Returns the size of the tensor in its new encoding, in bytes.
    pub fn bytes(&self) -> u64 {
        let row = self.to.file_row_bytes(self.cols as u64).unwrap_or_default();
        row * self.rows as u64
    }

    fn weights(&self) -> u64 {
        (self.rows * self.cols) as u64
    }
}

/// Determines the encodings of planned tensors. `encoding` returns the new encoding for a tensor
/// and its present encoding.
pub(super) fn jobs<'p>(
    views: &Views<'_>,
    tensors: &'p [PlannedTensor],
    encoding: impl Fn(&PlannedTensor, Encoding) -> Encoding,
) -> Result<Vec<TensorJob<'p>>, ConvertError> {
    let job = |planned: &'p PlannedTensor| {
        let info = views.find(&planned.source);
        let info = info.ok_or_else(|| WeightError::MissingTensor {
            name: planned.source.clone(),
        })?;
        let from = info.encoding()?;
        if views.column_order(&planned.source).is_some() {
            let tensor = planned.source.clone();
            return Err(ConvertError::ColumnOrder { tensor });
        }
        let cols = planned.shape.last().copied().unwrap_or(1).max(1);
        let elements: u64 = planned.shape.iter().product();
        Ok(TensorJob {
            planned,
            from,
            to: encoding(planned, from),
            // The source is in memory or mapped, so its sizes fit.
            rows: (elements / cols) as usize,
            cols: cols as usize,
        })
    };
    tensors.iter().map(job).collect()
}

/// Writes the data of tensors to a file. `padding` returns the number of padding bytes after a
/// tensor of a given length; the last tensor is not padded.
///
/// # Errors
///
/// If a tensor cannot be read or encoded, or the caller cancels the conversion; the inner error if
/// the file cannot be written.
pub(super) fn write_tensors(
    views: &Views<'_>,
    jobs: &[TensorJob<'_>],
    file: &mut File,
    padding: impl Fn(u64) -> usize,
    on_progress: OnProgress<'_>,
    report: &mut ConvertReport,
) -> Result<io::Result<()>, ConvertError> {
    let total = jobs.iter().map(TensorJob::weights).sum();
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    let mut done = 0;
    for (i, job) in jobs.iter().enumerate() {
        let mut stats = TensorStats::of_tensor(job.weights(), job.bytes(), job.to);
        let rows_at_once = (WEIGHTS_AT_ONCE / job.cols).max(1);
        for first in (0..job.rows).step_by(rows_at_once) {
            if on_progress(done, total).is_break() {
                return Err(ConvertError::Interrupted);
            }
            let count = rows_at_once.min(job.rows - first);
            let encoded = encode_rows(views, job, first, count, &mut stats)?;
            if let Err(error) = writer.write_all(&encoded) {
                return Ok(Err(error));
            }
            done += (count * job.cols) as u64;
        }
        let padding = match i + 1 < jobs.len() {
            true => padding(job.bytes()),
            false => 0,
        };
        if let Err(error) = writer.write_all(&vec![0; padding]) {
            return Ok(Err(error));
        }
        report.total.add(&stats);
        let kind = kind(&job.planned.name);
        report.kinds.entry(kind).or_default().add(&stats);
    }
    let flushed = writer.into_inner().map_err(|error| error.into_error());
    Ok(flushed.and_then(|file| file.sync_all()))
}

/// Returns a tensor's name without the layer number, `blk` and `weight`.
fn kind(name: &str) -> String {
    let parts = name.split('.');
    let parts = parts.filter(|part| part.parse::<u32>().is_err());
    let parts: Vec<&str> = parts
        .filter(|part| !matches!(*part, "blk" | "weight"))
        .collect();
    parts.join(".")
}

/// Encodes a range of a tensor's rows, and records the error in `stats`.
fn encode_rows(
    views: &Views<'_>,
    job: &TensorJob<'_>,
    first: usize,
    rows: usize,
    stats: &mut TensorStats,
) -> Result<Vec<u8>, ConvertError> {
    let source = &job.planned.source;
    let row = job.from.file_row_bytes(job.cols as u64).unwrap_or_default();
    let range = first as u64 * row..(first + rows) as u64 * row;
    let bytes = pollster::block_on(views.read(source, range.clone()))?;
    let mut weights = dequantize(job.from, &bytes, rows, job.cols)?;
    let change = &job.planned.change;
    let is_vector = job.planned.shape.len() < 2;
    change.apply(&mut weights, first, job.cols, is_vector);
    let encoded = match job.from == job.to && *change == ValueChange::None {
        true => bytes.into_owned(),
        false => {
            let rows = weights.par_chunks(job.cols);
            let rows: Result<Vec<_>, _> = rows.map(|row| quantize(job.to, row)).collect();
            rows?.concat()
        }
    };
    let decoded = dequantize(job.to, &encoded, rows, job.cols)?;
    let mut pairs = weights.iter().zip(&decoded);
    let broken = pairs.find(|(before, after)| !before.is_finite() || !after.is_finite());
    if let Some((&value, _)) = broken {
        return Err(ConvertError::NotFinite {
            tensor: job.planned.name.clone(),
            value,
            encoding: job.to,
        });
    }
    stats.compare(&weights, &decoded);
    views.release(source, range);
    Ok(encoded)
}
