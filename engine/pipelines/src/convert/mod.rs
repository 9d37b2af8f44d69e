//! Conversion of checkpoints to GGUF, in any encoding that Wisp quantises to, or to safetensors.
//!
//! Names and sizes come from what loading knows anyway: an architecture's tensor names in Hugging
//! Face's layout beside GGUF's, and its [`DecoderSpec`]. What was written is
//! opened again before it gets its name, and must describe the same model.

mod error;
mod form;
mod metadata;
mod plan;
mod report;
mod safetensors;
mod tokenizer;
mod write;

use std::{ops::ControlFlow, path::Path};

use super::{DecoderSpec, architectures, model_files::ModelFiles};
use wisp_types::Encoding;
use wisp_weights::{Checkpoint, Views, gguf::GgufHeaderBuilder};

pub use error::ConvertError;
pub use report::{Errors, Report};
pub use safetensors::to_safetensors;

use plan::Planned;

/// What a conversion is to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The encoding of matrices; `None` keeps the source's.
    pub encoding: Option<Encoding>,
    /// An existing file may be replaced.
    pub force: bool,
}

/// Is told how many of how many weights are done; ends the conversion with `Break`.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Writes a model as a GGUF file. It appears under its name only when it is whole.
///
/// # Errors
///
/// If GGUF cannot express the model, a weight is not a finite number, or a file cannot be written.
pub fn to_gguf(
    files: &ModelFiles,
    out: &Path,
    options: Options,
    on_progress: OnProgress<'_>,
) -> Result<Report, ConvertError> {
    if out.exists() && !options.force {
        return Err(ConvertError::Exists { path: out.into() });
    }
    let mut views = Views::new(&files.checkpoint);
    let mut report = Report::default();
    let mut header = GgufHeaderBuilder::default();
    let (tensors, expected) = match files.checkpoint.gguf() {
        Some(gguf) => {
            metadata::copied(gguf, &mut header);
            (
                plan::same(&files.checkpoint, |_| true),
                files.model_spec.spec.clone(),
            )
        }
        None => {
            let form = form::of(files.model_spec.architecture)?;
            let (spec, factors) = form::expressed(form, &files.model_spec.spec)?;
            metadata::described(form, files, &mut header);
            for (name, values) in &factors {
                views.add_values(name, values, &[values.len() as u64]);
            }
            let mut tensors = plan::renamed(form, files, &mut views, &mut report.notes)?;
            tensors.extend(factors.iter().map(|(name, values)| Planned {
                name: name.clone(),
                source: name.clone(),
                shape: vec![values.len() as u64],
                add_one: false,
            }));
            if form.gguf == "llama" && spec.layers.iter().any(|layer| layer.window.is_some()) {
                report.notes.push(
                    "other programs than Wisp may ignore the sliding window of this model".into(),
                );
            }
            tokenizer::describe(files, &mut header, &mut report.notes);
            (tensors, spec)
        }
    };
    metadata::file_type(&mut header, options.encoding);
    let writing = write::Writing {
        views: &views,
        tensors: &tensors,
        options,
    };
    let check = |written: &Path| check(written, &expected);
    writing.gguf(header, out, on_progress, &mut report, check)?;
    Ok(report)
}

/// Opens what was written and compares the model that it describes.
fn check(written: &Path, expected: &DecoderSpec) -> Result<(), ConvertError> {
    let checkpoint = Checkpoint::open(written).map_err(super::PipelineError::from)?;
    let found = architectures::from_gguf(&checkpoint, "the new file")?.spec;
    match form::difference(expected, &found) {
        None => Ok(()),
        Some(what) => Err(ConvertError::Inexpressible { what }),
    }
}
