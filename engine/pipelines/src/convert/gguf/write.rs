//! Writes a model as a GGUF file.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use wisp_files::temporary_file;
use wisp_types::Encoding;
use wisp_weights::{Checkpoint, Views, encodings::EncodingError, gguf::GgufHeaderBuilder};

use super::{
    encodings::{new_encoding, summary},
    metadata, spec,
    spec_difference::difference,
    tensors::{self, CopiedTensors},
};
use crate::{
    architectures::ModelSpec,
    convert::{
        error::{ConvertError, write_error},
        options::{ConvertOptions, OnProgress},
        planned_tensor::{PlannedTensor, ValueChange, unchanged},
        report::ConvertReport,
        tensor_data::{TensorJob, jobs, write_tensors},
        tokenizer,
    },
    model_files::ModelFiles,
    spec::DecoderSpec,
};

/// Writes a model as a GGUF file. A temporary file is renamed to `out` once it is complete.
///
/// # Errors
///
/// If GGUF cannot express the model, a weight is not finite, or the file cannot be written.
pub fn to_gguf(
    files: &ModelFiles,
    out: &Path,
    options: ConvertOptions,
    on_progress: OnProgress<'_>,
) -> Result<ConvertReport, ConvertError> {
    if out.exists() && !options.force {
        return Err(ConvertError::Exists { path: out.into() });
    }
    files.model_spec.spec.check()?;
    let mut views = Views::new(&files.checkpoint);
    let mut report = ConvertReport::default();
    let mut header = GgufHeaderBuilder::default();
    let (tensors, expected) = match files.checkpoint.gguf() {
        Some(gguf) => {
            metadata::copy(gguf, &mut header);
            let tensors = unchanged(&files.checkpoint, |_| true);
            (tensors, files.model_spec.spec.clone())
        }
        None => describe(files, &mut header, &mut views, &mut report.notes)?,
    };
    metadata::file_type(&mut header, options.encoding);
    let wanted = options.encoding;
    let jobs = jobs(&views, &tensors, |planned, from| {
        new_encoding(planned, from, wanted)
    })?;
    add_tensors(&jobs, wanted, &mut header, &mut report.notes)?;
    let failed = write_error(out);
    let mut file = temporary_file(out, 0o666).map_err(&failed)?;
    file.write_all(&header.bytes()).map_err(&failed)?;
    let padding = |len| header.padding(len) as usize;
    let file_mut = file.as_file_mut();
    write_tensors(&views, &jobs, file_mut, padding, on_progress, &mut report)?.map_err(&failed)?;
    check(file.path(), &expected)?;
    report.note_growth(file.as_file(), &files.checkpoint);
    persist(file, out, options.force).map_err(failed)?;
    Ok(report)
}

/// Adds the metadata of a model in Hugging Face's layout. Returns the tensors to write and the spec
/// that readers of the new file should find.
fn describe(
    files: &ModelFiles,
    header: &mut GgufHeaderBuilder,
    views: &mut Views<'_>,
    notes: &mut Vec<String>,
) -> Result<(Vec<PlannedTensor>, DecoderSpec), ConvertError> {
    if !files.sentence_transformer.dense.is_empty() {
        let what = "linear layers after the pooling";
        return Err(ConvertError::Inexpressible { what });
    }
    let architecture = &files.model_spec.architecture;
    let (spec, factors) = spec::in_gguf(architecture, &files.model_spec.spec)?;
    metadata::describe(files, header);
    let CopiedTensors {
        mut tensors,
        unused,
    } = tensors::copy(files, views)?;
    for (name, values) in factors {
        let shape = vec![values.len() as u64];
        views.add_values(name, &values, &shape);
        tensors.push(PlannedTensor {
            name: name.into(),
            source: name.into(),
            shape,
            change: ValueChange::None,
        });
    }
    if let Some(first) = unused.first() {
        let count = unused.len();
        notes.push(format!(
            "{count} tensors that the model does not use are left out, such as {first}"
        ));
    }
    notes.extend(changed_eps(&files.model_spec.spec, &spec));
    let has_windows = spec.layers.iter().any(|layer| layer.window.is_some());
    if architecture.gguf_output_name(&spec) == "llama" && has_windows {
        notes.push("programs other than Wisp may ignore the sliding window of this model".into());
    }
    tokenizer::describe(files, header, notes);
    Ok((tensors, spec))
}

/// Returns a note if the norms in latent attention have another epsilon in the new file.
fn changed_eps(before: &DecoderSpec, after: &DecoderSpec) -> Option<String> {
    let [before, after] = [before.latent?.norm_eps, after.latent?.norm_eps];
    (before != after).then(|| {
        format!(
            "GGUF has one epsilon for all norms: the norms in latent attention get {after:e} in place of {before:e}, which \
             changes results slightly"
        )
    })
}

/// Adds tensors to the header, and a note about those that cannot have the wanted encoding.
fn add_tensors(
    jobs: &[TensorJob<'_>],
    wanted: Option<Encoding>,
    header: &mut GgufHeaderBuilder,
    notes: &mut Vec<String>,
) -> Result<(), ConvertError> {
    for job in jobs {
        let encoding = job.to;
        let ggml_type = encoding.ggml_type();
        let ggml_type = ggml_type.ok_or(EncodingError::NoGgmlType { encoding })?;
        let PlannedTensor { name, shape, .. } = job.planned;
        header.tensor(name, ggml_type, shape, job.bytes());
    }
    if let Some(wanted) = wanted {
        // Tensors that are always floats have another encoding although their rows may fit.
        let is_other = |job: &&TensorJob<'_>| {
            job.to != wanted && job.rows > 1 && wanted.file_row_bytes(job.cols as u64).is_none()
        };
        let others = jobs.iter().filter(is_other).map(|job| job.to);
        notes.extend(summary(wanted, others));
    }
    Ok(())
}

/// Renames the complete temporary file to its final name.
fn persist(file: tempfile::NamedTempFile, out: &Path, force: bool) -> io::Result<()> {
    let persisted = match force {
        true => file.persist(out),
        false => file.persist_noclobber(out).or_else(|error| {
            // Not every file system supports renaming without replacing.
            match fs::symlink_metadata(out) {
                Err(absent) if absent.kind() == io::ErrorKind::NotFound => error.file.persist(out),
                _ => Err(error),
            }
        }),
    };
    persisted.map(|_| ()).map_err(|error| error.error)
}

/// Opens a new file and checks that it describes the expected model.
fn check(written: &Path, expected: &DecoderSpec) -> Result<(), ConvertError> {
    let checkpoint = Checkpoint::open(written)?;
    let found = ModelSpec::from_gguf(&checkpoint, "the new file")?.spec;
    match difference(expected, &found) {
        None => Ok(()),
        Some(what) => Err(ConvertError::Inexpressible { what }),
    }
}
