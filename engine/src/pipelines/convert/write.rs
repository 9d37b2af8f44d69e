//! Encodes tensors one after the other, a few rows at a time, into a file that has no name yet.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use rayon::prelude::*;

use super::{ConvertError, Errors, OnProgress, Options, Report, plan::Planned};
use crate::weights::{
    Encoding, Views, WeightError, WeightSource,
    encodings::{dequantize, quantize},
    gguf::GgufHeader,
};

/// Weights that are in memory at once, but for one row of more.
const AT_ONCE: usize = 8 << 20;

/// Tensors that are too small or too delicate to be anything but floats.
const FLOAT: [&str; 4] = [
    "position_embd.",
    "ffn_gate_inp.",
    "rope_freqs.",
    "rope_factors_",
];

/// A planned tensor and how it is stored, before and after.
struct Job<'p> {
    planned: &'p Planned,
    from: Encoding,
    to: Encoding,
    rows: usize,
    cols: usize,
}

/// The encoding of a tensor: vectors and delicate ones are F32, rows of no whole blocks F16.
fn encoding(planned: &Planned, from: Encoding, wanted: Option<Encoding>) -> Encoding {
    let is_vector = planned.shape.iter().filter(|&&size| size != 1).count() < 2;
    let wanted = wanted.unwrap_or(from);
    if is_vector || FLOAT.iter().any(|name| planned.name.contains(name)) {
        return if from.is_float() { Encoding::F32 } else { from };
    }
    let cols = planned.shape.last().copied().unwrap_or(1);
    match wanted.file_row_bytes(cols) {
        Some(_) => wanted,
        None => Encoding::F16,
    }
}

fn job<'p>(
    views: &Views<'_>,
    planned: &'p Planned,
    options: Options,
) -> Result<Job<'p>, ConvertError> {
    let info = views.find(&planned.source);
    let info = info.ok_or_else(|| WeightError::MissingTensor {
        name: planned.source.clone(),
    })?;
    let from = info.encoding()?;
    let cols = planned.shape.last().copied().unwrap_or(1).max(1);
    let elements: u64 = planned.shape.iter().product();
    Ok(Job {
        planned,
        from,
        to: encoding(planned, from, options.encoding),
        // The source is in memory or mapped, so its sizes fit.
        rows: (elements / cols) as usize,
        cols: cols as usize,
    })
}

/// Writes all tensors behind their header, lets `check` look at the file, and gives it its name.
#[allow(clippy::too_many_arguments)]
pub(super) fn write(
    views: &Views<'_>,
    tensors: &[Planned],
    mut header: GgufHeader,
    out: &Path,
    options: Options,
    on_progress: OnProgress<'_>,
    report: &mut Report,
    check: impl FnOnce(&Path) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let failed = |source: io::Error| ConvertError::Write {
        path: out.into(),
        source,
    };
    let jobs = tensors.iter().map(|planned| job(views, planned, options));
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let bytes = |job: &Job<'_>| {
        let row = job.to.file_row_bytes(job.cols as u64).unwrap_or_default();
        row * job.rows as u64
    };
    for job in &jobs {
        let Planned { name, shape, .. } = job.planned;
        header.tensor(name, job.to.ggml(), shape, bytes(job));
        if options.encoding.is_some_and(|wanted| !wanted.is_float()) && job.to == Encoding::F16 {
            let cols = job.cols;
            report.notes.push(format!(
                "{name} stays F16: its rows of {cols} are no whole blocks"
            ));
        }
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".wisp-convert-").suffix(".gguf");
    // As any new file, which a temporary one otherwise is not.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    writer.write_all(&header.bytes()).map_err(failed)?;
    let total = jobs.iter().map(|job| (job.rows * job.cols) as u64).sum();
    let mut done = 0;
    for (i, job) in jobs.iter().enumerate() {
        let mut errors = Errors::of((job.rows * job.cols) as u64, bytes(job), job.to);
        let step = (AT_ONCE / job.cols).max(1);
        for first in (0..job.rows).step_by(step) {
            if on_progress(done, total).is_break() {
                return Err(ConvertError::Interrupted);
            }
            let count = step.min(job.rows - first);
            let piece = encode(views, job, first, count, &mut errors)?;
            writer.write_all(&piece).map_err(failed)?;
            done += (count * job.cols) as u64;
        }
        if i + 1 < jobs.len() {
            let padding = header.padding(bytes(job)) as usize;
            writer.write_all(&vec![0; padding]).map_err(failed)?;
        }
        report.total.add(&errors);
        report
            .kinds
            .entry(kind(&job.planned.name))
            .or_default()
            .add(&errors);
    }
    let file = writer
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    check(file.path())?;
    let kept = match options.force {
        true => file.persist(out),
        false => file.persist_noclobber(out),
    };
    kept.map_err(|error| failed(error.error))?;
    Ok(())
}

/// A tensor's name without its layer and its ending.
fn kind(name: &str) -> String {
    let parts = name.split('.').filter(|part| part.parse::<u32>().is_err());
    let parts: Vec<&str> = parts
        .filter(|part| !matches!(*part, "blk" | "weight"))
        .collect();
    parts.join(".")
}

/// Rows of a tensor in their new encoding.
fn encode(
    views: &Views<'_>,
    job: &Job<'_>,
    first: usize,
    rows: usize,
    errors: &mut Errors,
) -> Result<Vec<u8>, ConvertError> {
    let source = &job.planned.source;
    let row = job.from.file_row_bytes(job.cols as u64).unwrap_or_default();
    let range = first as u64 * row..(first + rows) as u64 * row;
    let bytes = pollster::block_on(views.read(source, range.clone()))?;
    let mut weights = dequantize(job.from, &bytes, rows, job.cols)?;
    if job.planned.add_one {
        weights.iter_mut().for_each(|weight| *weight += 1.0);
    }
    let encoded = match job.from == job.to && !job.planned.add_one {
        true => bytes.into_owned(),
        false => {
            let pieces = weights.par_chunks(job.cols);
            let pieces: Result<Vec<_>, _> = pieces.map(|row| quantize(job.to, row)).collect();
            pieces?.concat()
        }
    };
    let back = dequantize(job.to, &encoded, rows, job.cols)?;
    let finite = weights.iter().zip(&back);
    let broken = finite.filter(|(before, after)| !before.is_finite() || !after.is_finite());
    if let Some((&value, _)) = broken.into_iter().next() {
        return Err(ConvertError::NotFinite {
            tensor: job.planned.name.clone(),
            value,
            encoding: job.to,
        });
    }
    errors.compare(&weights, &back);
    views.release(source, range);
    Ok(encoded)
}
