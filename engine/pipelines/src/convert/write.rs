//! Encodes tensors one after the other, a few rows at a time, into a file that has no name yet.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use rayon::prelude::*;
use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};

use super::{ConvertError, Errors, OnProgress, Options, Report, plan::Planned};
use wisp_types::Encoding;
use wisp_weights::{
    Views, WeightError, WeightSource,
    encodings::{EncodingError, dequantize, quantize},
    gguf::GgufHeaderBuilder,
};

/// Weights that are in memory at once, but for one row of more.
const AT_ONCE: usize = 1 << 20;

/// Tensors that are too small or too delicate to be anything but floats.
const FLOAT: [&str; 5] = [
    "position_embd.",
    "token_types.",
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

/// The encoding of a tensor in GGUF: vectors and delicate ones are F32, rows of no whole blocks F16.
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

/// Tensors that are to be written.
pub(super) struct Writing<'a> {
    /// Where they come from.
    pub views: &'a Views<'a>,
    /// In the order of the new file.
    pub tensors: &'a [Planned],
    /// What was asked for.
    pub options: Options,
}

impl Job<'_> {
    fn bytes(&self) -> u64 {
        let row = self.to.file_row_bytes(self.cols as u64).unwrap_or_default();
        row * self.rows as u64
    }
}

impl Writing<'_> {
    fn jobs(
        &self,
        to: impl Fn(&Planned, Encoding) -> Encoding,
    ) -> Result<Vec<Job<'_>>, ConvertError> {
        let job = |planned| self.job(planned, &to);
        self.tensors.iter().map(job).collect()
    }

    fn job<'p>(
        &self,
        planned: &'p Planned,
        to: impl Fn(&Planned, Encoding) -> Encoding,
    ) -> Result<Job<'p>, ConvertError> {
        let info = self.views.find(&planned.source);
        let info = info.ok_or_else(|| WeightError::MissingTensor {
            name: planned.source.clone(),
        })?;
        let from = info.encoding()?;
        let cols = planned.shape.last().copied().unwrap_or(1).max(1);
        let elements: u64 = planned.shape.iter().product();
        Ok(Job {
            planned,
            from,
            to: to(planned, from),
            // The source is in memory or mapped, so its sizes fit.
            rows: (elements / cols) as usize,
            cols: cols as usize,
        })
    }

    /// Writes a GGUF file, lets `check` look at it, and gives it its name.
    pub fn gguf(
        &self,
        mut header: GgufHeaderBuilder,
        out: &Path,
        on_progress: OnProgress<'_>,
        report: &mut Report,
        check: impl FnOnce(&Path) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        let wanted = self.options.encoding;
        let jobs = self.jobs(|planned, from| encoding(planned, from, wanted))?;
        for job in &jobs {
            let Planned { name, shape, .. } = job.planned;
            let encoding = job.to;
            let ggml_type = encoding
                .ggml_type()
                .ok_or(EncodingError::NoGgmlType { encoding })?;
            header.tensor(name, ggml_type, shape, job.bytes());
            if wanted.is_some_and(|wanted| !wanted.is_float()) && job.to == Encoding::F16 {
                let cols = job.cols;
                report.notes.push(format!(
                    "{name} stays F16: its rows of {cols} are no whole blocks"
                ));
            }
        }
        let failed = write_failed(out);
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        builder.prefix(".wisp-convert-").suffix(".gguf");
        // As any new file, which a temporary one otherwise is not.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(&failed)?;
        file.write_all(&header.bytes()).map_err(&failed)?;
        let padding = |len| header.padding(len) as usize;
        self.body(&jobs, file.as_file_mut(), padding, on_progress, report)?
            .map_err(&failed)?;
        check(file.path())?;
        let kept = match self.options.force {
            true => file.persist(out),
            false => file.persist_noclobber(out).or_else(|error| {
                // Not every file system can refuse to replace a file by itself.
                match std::fs::symlink_metadata(out) {
                    Err(absent) if absent.kind() == io::ErrorKind::NotFound => {
                        error.file.persist(out)
                    }
                    _ => Err(error),
                }
            }),
        };
        kept.map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Writes a safetensors file, all of it in the encoding asked for.
    pub fn safetensors(
        &self,
        out: &Path,
        on_progress: OnProgress<'_>,
        report: &mut Report,
    ) -> Result<(), ConvertError> {
        let wanted = self.options.encoding;
        let jobs = self.jobs(|_, from| wanted.unwrap_or(from))?;
        let mut at = 0;
        let mut tensors = Vec::with_capacity(jobs.len());
        for job in &jobs {
            let start = at;
            // The source is in memory or mapped, and floats are at most twice as long.
            at += job.bytes() as usize;
            let shape = job.planned.shape.iter().map(|&size| size as usize);
            let info = TensorInfo {
                dtype: dtype(job.to)?,
                shape: shape.collect(),
                data_offsets: (start, at),
            };
            tensors.push((job.planned.name.clone(), info));
        }
        let failed = write_failed(out);
        // As transformers asks for.
        let format = [("format".to_string(), "pt".to_string())].into();
        let header = Metadata::new(Some(format), tensors).map_err(io::Error::other);
        let mut header = serde_json::to_vec(&header.map_err(&failed)?)
            .map_err(io::Error::other)
            .map_err(&failed)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut file = std::fs::File::create_new(out).map_err(&failed)?;
        let len = (header.len() as u64).to_le_bytes();
        file.write_all(&[&len[..], &header].concat())
            .map_err(&failed)?;
        self.body(&jobs, &mut file, |_| 0, on_progress, report)?
            .map_err(&failed)
    }

    /// Writes the tensors' bytes, with padding between them.
    fn body(
        &self,
        jobs: &[Job<'_>],
        file: &mut std::fs::File,
        padding: impl Fn(u64) -> usize,
        on_progress: OnProgress<'_>,
        report: &mut Report,
    ) -> Result<io::Result<()>, ConvertError> {
        let total = jobs.iter().map(|job| (job.rows * job.cols) as u64).sum();
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        let mut done = 0;
        for (i, job) in jobs.iter().enumerate() {
            let mut errors = Errors::of((job.rows * job.cols) as u64, job.bytes(), job.to);
            let step = (AT_ONCE / job.cols).max(1);
            for first in (0..job.rows).step_by(step) {
                if on_progress(done, total).is_break() {
                    return Err(ConvertError::Interrupted);
                }
                let count = step.min(job.rows - first);
                let piece = encode(self.views, job, first, count, &mut errors)?;
                if let Err(error) = writer.write_all(&piece) {
                    return Ok(Err(error));
                }
                done += (count * job.cols) as u64;
            }
            let padding = if i + 1 < jobs.len() {
                padding(job.bytes())
            } else {
                0
            };
            if let Err(error) = writer.write_all(&vec![0; padding]) {
                return Ok(Err(error));
            }
            report.total.add(&errors);
            let kind = kind(&job.planned.name);
            report.kinds.entry(kind).or_default().add(&errors);
        }
        let flushed = writer.into_inner().map_err(|error| error.into_error());
        Ok(flushed.and_then(|file| file.sync_all()))
    }
}

/// What safetensors calls an encoding.
fn dtype(encoding: Encoding) -> Result<Dtype, ConvertError> {
    match encoding {
        Encoding::F32 => Ok(Dtype::F32),
        Encoding::F16 => Ok(Dtype::F16),
        Encoding::BF16 => Ok(Dtype::BF16),
        encoding => Err(ConvertError::Quantised { encoding }),
    }
}

/// The error of a file that cannot be written.
pub(super) fn write_failed(path: &Path) -> impl Fn(io::Error) -> ConvertError {
    let path = path.to_path_buf();
    move |source| ConvertError::Write {
        path: path.clone(),
        source,
    }
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
