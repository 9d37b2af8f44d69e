//! Conversion to a directory in Hugging Face's layout, with the weights in one safetensors file.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use serde::de::IgnoredAny;
use wisp_files::{FileKind, read_small, temporary_folder};
use wisp_text::python_json;
use wisp_types::Encoding;
use wisp_weights::{StoredEncoding, Views, WeightSource};

use super::{
    error::{ConvertError, write_error},
    options::{ConvertOptions, OnProgress},
    planned_tensor::{PlannedTensor, unchanged},
    report::ConvertReport,
    tensor_data::{TensorJob, jobs, write_tensors},
};
use crate::{
    model_files::{COMPANIONS, MODELOPT_CONFIG, ModelFiles},
    spec::{ExpertPart, FusedExperts},
};

/// Prefixes of the names of integer types.
const INTEGERS: [&str; 3] = ["I", "U", "BOOL"];

/// Writes a model as a directory in Hugging Face's layout: `model.safetensors`, `config.json`, and
/// the files of the tokenizer. A temporary directory is renamed to `out` once it is complete.
///
/// # Errors
///
/// If the model is in GGUF, a block encoding is requested, a weight is not finite, or a file cannot
/// be written.
pub fn to_safetensors(
    files: &ModelFiles,
    out: &Path,
    options: ConvertOptions,
    on_progress: OnProgress<'_>,
) -> Result<ConvertReport, ConvertError> {
    if let Some(encoding) = options.encoding.filter(|encoding| !encoding.is_float()) {
        return Err(ConvertError::Quantized { encoding });
    }
    let source = files.directory.as_deref();
    let source = source.ok_or_else(|| ConvertError::FromGguf {
        model: files.name.clone(),
    })?;
    let failed = write_error(out);
    // A rename cannot replace `.` or a link, so replace the directory that it leads to.
    let out = &match fs::symlink_metadata(out) {
        Ok(_) => fs::canonicalize(out).map_err(&failed)?,
        Err(_) => out.to_path_buf(),
    };
    let is_empty = || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    if out.exists() && !is_empty() {
        return Err(ConvertError::NotEmpty { path: out.clone() });
    }
    // Experts in MXFP4 are stored as integers, which are otherwise left out.
    if packed_experts(files) {
        let encoding = Encoding::MXFP4;
        return Err(ConvertError::Quantized { encoding });
    }
    let mut report = ConvertReport::default();
    let tensors = float_tensors(files, &mut report.notes);
    let folder = temporary_folder(out).map_err(&failed)?;
    let weights = folder.path().join("model.safetensors");
    let views = Views::new(&files.checkpoint);
    let jobs = jobs(&views, &tensors, |_, from| options.encoding.unwrap_or(from))?;
    let header = header(&jobs)?.map_err(&failed)?;
    let mut written = fs::File::create_new(&weights).map_err(&failed)?;
    written.write_all(&header).map_err(&failed)?;
    write_tensors(&views, &jobs, &mut written, |_| 0, on_progress, &mut report)?
        .map_err(&failed)?;
    report.note_growth(&written, &files.checkpoint);
    copy_companions(source, folder.path(), options.encoding).map_err(&failed)?;
    let found = ModelFiles::open(folder.path())?;
    if found.model_spec.spec != files.model_spec.spec {
        return Err(ConvertError::Mismatch { path: out.clone() });
    }
    if out.exists() {
        fs::remove_dir(out).map_err(&failed)?;
    }
    fs::rename(folder.path(), out).map_err(&failed)?;
    // The folder has its final name and must not be deleted.
    folder.keep();
    Ok(report)
}

/// Returns whether experts are in MXFP4.
fn packed_experts(files: &ModelFiles) -> bool {
    let model = &files.model_spec;
    let shape_of = |name: &str| Some(files.checkpoint.find(name)?.shape.clone());
    let exists = |name: &str| shape_of(name).is_some();
    let prefix = model.tensor_names().prefix(exists);
    (0..model.spec.layers.len()).any(|layer| {
        let names = (&model.spec, model.tensor_names(), prefix);
        let fused = FusedExperts::find(names, layer, ExpertPart::Down, shape_of);
        fused.is_some_and(|fused| fused.is_packed(exists))
    })
}

/// Plans to write all tensors unchanged, except for integer tensors, which some checkpoints
/// contain.
fn float_tensors(files: &ModelFiles, notes: &mut Vec<String>) -> Vec<PlannedTensor> {
    unchanged(&files.checkpoint, |tensor| {
        let is_integer = |name: &str| INTEGERS.iter().any(|prefix| name.starts_with(prefix));
        let left_out =
            matches!(tensor.stored, StoredEncoding::Unsupported(name) if is_integer(name));
        if left_out {
            let (name, stored) = (&tensor.name, tensor.stored);
            notes.push(format!("{name} is left out: it is {stored}"));
        }
        !left_out
    })
}

/// Returns the header of a safetensors file with these tensors, after its length; the inner error is that of writing it.
fn header(jobs: &[TensorJob<'_>]) -> Result<io::Result<Vec<u8>>, ConvertError> {
    let mut end = 0;
    let mut infos = Vec::with_capacity(jobs.len());
    for job in jobs {
        let start = end;
        // The source is in memory or mapped, and encoding as floats at most doubles its size, so it
        // fits.
        end += job.bytes() as usize;
        let shape = job.planned.shape.iter().map(|&size| size as usize);
        let info = TensorInfo {
            dtype: dtype(job.to)?,
            shape: shape.collect(),
            data_offsets: (start, end),
        };
        infos.push((job.planned.name.clone(), info));
    }
    // transformers requires the key.
    let format = [("format".to_string(), "pt".to_string())].into();
    let metadata = Metadata::new(Some(format), infos).map_err(io::Error::other);
    let json = metadata.and_then(|metadata| Ok(serde_json::to_vec(&metadata)?));
    Ok(json.map(|mut json| {
        json.resize(json.len().next_multiple_of(8), b' ');
        [&(json.len() as u64).to_le_bytes()[..], &json].concat()
    }))
}

/// Returns the safetensors type of an encoding.
fn dtype(encoding: Encoding) -> Result<Dtype, ConvertError> {
    match encoding {
        Encoding::F32 => Ok(Dtype::F32),
        Encoding::F16 => Ok(Dtype::F16),
        Encoding::BF16 => Ok(Dtype::BF16),
        encoding => Err(ConvertError::Quantized { encoding }),
    }
}

/// Copies the files beside the weights, except for the indices of weights in several files.
fn copy_companions(source: &Path, folder: &Path, encoding: Option<Encoding>) -> io::Result<()> {
    for name in COMPANIONS
        .iter()
        .filter(|name| !name.ends_with(".index.json"))
    {
        let (from, to) = (source.join(name), folder.join(name));
        match (from.is_file(), *name) {
            (false, _) => {}
            (true, "config.json") => copy_config(&from, &to, encoding)?,
            // As there, the new weights are not quantised.
            (true, MODELOPT_CONFIG) if encoding.is_some() => {}
            (true, _) => copy(&from, &to)?,
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).map(|_| ())
}

/// Copies a `config.json`, with its `dtype` set to that of the new weights, which are not quantised.
fn copy_config(from: &Path, to: &Path, encoding: Option<Encoding>) -> io::Result<()> {
    let dtype = match encoding {
        None => return copy(from, to),
        Some(Encoding::F16) => "float16",
        Some(Encoding::BF16) => "bfloat16",
        Some(_) => "float32",
    };
    let bytes = read_small(from, FileKind::Config)?;
    let mut config = python_json::parse(&bytes)?;
    // The key is `dtype` since transformers 5.
    let key = match config["torch_dtype"].is_null() {
        true => "dtype",
        false => "torch_dtype",
    };
    config[key] = dtype.into();
    if let Some(fields) = config.as_object_mut() {
        for key in ["quantization_config", "compression_config"] {
            fields.remove(key);
        }
    }
    // Numbers that JSON cannot express stay as they were written.
    let is_json = serde_json::from_slice::<IgnoredAny>(&bytes).is_ok();
    let text = match is_json {
        true => serde_json::to_vec_pretty(&config)?,
        false => python_json::write(&config)?,
    };
    fs::write(to, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// transformers 4 does not know the objects that transformers 5 writes instead of words.
    #[test]
    fn configurations_keep_infinite_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        for infinity in ["Infinity", r#"{"__float__":"Infinity"}"#] {
            let config = format!(
                r#"{{"dtype": "bfloat16", "quantization_config": {{}}, "limit": [0.0, {infinity}]}}"#
            );
            fs::write(&from, config).unwrap();
            copy_config(&from, &to, Some(Encoding::F32)).unwrap();
            let written = fs::read_to_string(&to).unwrap();
            let written: String = written.split_whitespace().collect();
            let expected = format!(r#"{{"dtype":"float32","limit":[0.0,{infinity}]}}"#);
            assert_eq!(written, expected);
        }
    }
}
