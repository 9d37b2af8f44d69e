//! Directories in Hugging Face's layout with their weights in one safetensors file.

use std::{fs, path::Path};

use serde_json::Value;

use super::{
    ConvertError, OnProgress, Options, Report, plan,
    write::{Writing, write_failed},
};
use crate::{PipelineError, config::COMPANIONS, model_files::ModelFiles};
use wisp_types::Encoding;
use wisp_weights::{StoredEncoding, Views};

/// What the names of types of whole numbers begin with.
const WHOLE: [&str; 3] = ["I", "U", "BOOL"];

/// Writes a model as a directory in Hugging Face's layout: `model.safetensors`, `config.json`, and the files of
/// the tokenizer. It appears under its name only when it is whole.
///
/// # Errors
///
/// If the model is in GGUF, an encoding of blocks is asked for, a weight is not a finite number, or a file cannot be
/// written.
pub fn to_safetensors(
    files: &ModelFiles,
    out: &Path,
    options: Options,
    on_progress: OnProgress<'_>,
) -> Result<Report, ConvertError> {
    if let Some(encoding) = options.encoding.filter(|encoding| !encoding.is_float()) {
        return Err(ConvertError::Quantised { encoding });
    }
    let source = files.directory.as_deref();
    let source = source.ok_or_else(|| ConvertError::FromGguf {
        model: files.name.clone(),
    })?;
    let failed = write_failed(out);
    // `.` and links cannot be replaced by what they lead to.
    let out = &match fs::symlink_metadata(out) {
        Ok(_) => fs::canonicalize(out).map_err(&failed)?,
        Err(_) => out.to_path_buf(),
    };
    let is_empty = || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    if out.exists() && !is_empty() {
        return Err(ConvertError::NotEmpty { path: out.clone() });
    }
    let mut report = Report::default();
    let tensors = plan::same(&files.checkpoint, |tensor| {
        let whole = |name: &str| WHOLE.iter().any(|start| name.starts_with(start));
        let left_out = matches!(tensor.stored, StoredEncoding::Unsupported(name) if whole(name));
        if left_out {
            let (name, stored) = (&tensor.name, tensor.stored);
            report
                .notes
                .push(format!("{name} is left out: it is {stored}"));
        }
        !left_out
    });
    let mut builder = tempfile::Builder::new();
    builder.prefix(".wisp-convert-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let parent = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = builder
        .tempdir_in(parent.unwrap_or(Path::new(".")))
        .map_err(&failed)?;
    let writing = Writing {
        views: &Views::new(&files.checkpoint),
        tensors: &tensors,
        options,
    };
    writing.safetensors(
        &folder.path().join("model.safetensors"),
        on_progress,
        &mut report,
    )?;
    for name in COMPANIONS
        .iter()
        .filter(|name| !name.ends_with(".index.json"))
    {
        let (from, to) = (source.join(name), folder.path().join(name));
        let copied = match (from.is_file(), *name) {
            (false, _) => Ok(()),
            (true, "config.json") => configure(&from, &to, options.encoding),
            (true, _) => copy(&from, &to),
        };
        copied.map_err(&failed)?;
    }
    check(files, folder.path())?;
    if out.exists() {
        fs::remove_dir(out).map_err(&failed)?;
    }
    fs::rename(folder.path(), out).map_err(&failed)?;
    // It has another name now.
    let _ = folder.keep();
    Ok(report)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).map(|_| ())
}

/// Writes `config.json` with the new type of weights.
fn configure(from: &Path, to: &Path, encoding: Option<Encoding>) -> std::io::Result<()> {
    let dtype = match encoding {
        None => return copy(from, to),
        Some(Encoding::F16) => "float16",
        Some(Encoding::BF16) => "bfloat16",
        Some(_) => "float32",
    };
    let mut config: Value = serde_json::from_slice(&fs::read(from)?)?;
    // Transformers 5 calls it otherwise.
    let key = if config["torch_dtype"].is_null() {
        "dtype"
    } else {
        "torch_dtype"
    };
    config[key] = dtype.into();
    fs::write(to, serde_json::to_vec_pretty(&config)?)
}

/// Opens what was written and compares the model that it describes.
fn check(files: &ModelFiles, written: &Path) -> Result<(), ConvertError> {
    let found = ModelFiles::open(written)?;
    match found.model_spec.spec == files.model_spec.spec {
        true => Ok(()),
        false => Err(ConvertError::Model(PipelineError::Config {
            file: "config.json".into(),
            problem: "it does not describe the same model once it is copied".into(),
        })),
    }
}
