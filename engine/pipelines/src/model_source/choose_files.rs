//! Chooses the files of a repository that are the model.

use std::collections::BTreeSet;

use wisp_hub::{HuggingFaceRepo, OnTransfer, RepoError, is_later_part};
use wisp_weights::{SupportedEncoding, WeightsFormat, safetensors::SafetensorsIndex};

use super::model_name::ModelName;
use crate::{
    error::PipelineError,
    model_files::{ModelFilesError, PYTORCH_INDEX, SAFETENSORS_INDEX},
};

/// The most bytes that an index may have. It is read whole.
const MAX_INDEX_BYTES: u64 = 100 << 20;

/// Returns the files of a repository that are the model: those that the model's name or `encoding`
/// asks for, or else safetensors before GGUF before PyTorch's.
///
/// # Errors
///
/// If the repository has no such files, or several that could be the model.
pub(super) fn choose_files(
    repo: &HuggingFaceRepo,
    model: &ModelName,
    encoding: Option<SupportedEncoding>,
    on_transfer: OnTransfer<'_>,
) -> Result<Vec<String>, PipelineError> {
    let id = || repo.repo_id().to_string();
    let wanted = model.encoding().or(encoding);
    if let (Some(file), None) = (&model.part, model.encoding()) {
        return Ok(with_later_parts(repo, file));
    }
    let mut files = match wanted {
        Some(encoding) => repo.files_for_encoding(encoding, None, None, on_transfer)?,
        None => repo.weight_files(),
    };
    for list in files.values_mut() {
        list.retain(|file| !is_later_part(file) || !file.ends_with(".gguf"));
    }
    if let Some(files) = files.get(&WeightsFormat::Safetensors) {
        let names = ["model.safetensors", SAFETENSORS_INDEX];
        let shards = shards(repo, files, names, on_transfer)?;
        if !shards.is_empty() {
            return Ok(shards);
        }
    }
    if let Some(models) = files.get(&WeightsFormat::Gguf)
        && !models.is_empty()
    {
        return match best_gguf(models) {
            Some(file) => Ok(with_later_parts(repo, file)),
            None => Err(RepoError::Ambiguous {
                repo: id(),
                files: models.clone(),
            }
            .into()),
        };
    }
    if let Some(files) = files.get(&WeightsFormat::PyTorch) {
        let names = ["pytorch_model.bin", PYTORCH_INDEX];
        let shards = shards(repo, files, names, on_transfer)?;
        if !shards.is_empty() {
            return Ok(shards);
        }
    }
    Err(match wanted {
        Some(wanted) if !repo.weight_files().is_empty() => RepoError::NoEncoding {
            repo: id(),
            wanted,
            available: repo.supported_encodings(on_transfer)?,
        },
        _ => RepoError::NoWeights { repo: id() },
    }
    .into())
}

/// Returns those of a repository's files of one format that are the model: the single file, those
/// that the index names, or else the only one. Trainers leave files of their own beside them.
fn shards(
    repo: &HuggingFaceRepo,
    files: &[String],
    [single, index]: [&str; 2],
    on_transfer: OnTransfer<'_>,
) -> Result<Vec<String>, PipelineError> {
    if files.iter().any(|file| file == single) {
        return Ok(vec![single.into()]);
    }
    if repo.file_exists(index) {
        return index_files(repo, index, on_transfer);
    }
    let is_model = |file: &&String| !file.contains('/') && *file != "training_args.bin";
    let files: Vec<String> = files.iter().filter(is_model).cloned().collect();
    match files.len() {
        0 | 1 => Ok(files),
        _ => {
            let repo = repo.repo_id().to_string();
            Err(RepoError::Ambiguous { repo, files }.into())
        }
    }
}

/// Returns a GGUF file and, if it is the first of several parts, the others.
fn with_later_parts(repo: &HuggingFaceRepo, file: &str) -> Vec<String> {
    let mut files = vec![file.to_string()];
    if let Some((stem, count)) = file.rsplit_once("-00001-of-") {
        let is_part = |name: &String| {
            let middle = name
                .strip_prefix(stem)
                .and_then(|rest| rest.strip_suffix(count));
            middle.is_some_and(|middle| middle.ends_with("-of-") && is_later_part(name))
        };
        let parts = repo.weight_files().remove(&WeightsFormat::Gguf);
        files.extend(parts.into_iter().flatten().filter(is_part));
    }
    files
}

/// Returns which of several GGUF models to take: those of a single encoding, or else of q4_k, which
/// most people use; among them the only one, or the only medium mixture (`K_M`).
fn best_gguf(models: &[String]) -> Option<&String> {
    let encodings: BTreeSet<_> = models
        .iter()
        .map(|file| SupportedEncoding::parse_from_file_name(file))
        .collect();
    let is_q4_k = |file: &&String| {
        SupportedEncoding::parse_from_file_name(file) == Some(SupportedEncoding::q4_k)
    };
    let candidates: Vec<&String> = match encodings.len() {
        1 => models.iter().collect(),
        _ => models.iter().filter(is_q4_k).collect(),
    };
    let is_medium = |file: &&&String| file.to_ascii_lowercase().contains("k_m");
    match candidates.as_slice() {
        [only] => Some(only),
        several => {
            let mut medium = several.iter().filter(is_medium);
            medium.next().filter(|_| medium.next().is_none()).copied()
        }
    }
}

/// Returns the files that the index of a checkpoint in several files names.
fn index_files(
    repo: &HuggingFaceRepo,
    index: &str,
    on_transfer: OnTransfer<'_>,
) -> Result<Vec<String>, PipelineError> {
    let is_too_large = |size| size > MAX_INDEX_BYTES;
    if repo.size_of(index).is_some_and(is_too_large) {
        return Err(PipelineError::ModelFiles(ModelFilesError::File {
            file: index.into(),
            problem: format!("it is larger than {MAX_INDEX_BYTES} bytes"),
        }));
    }
    let path = repo.download(index, false, on_transfer)?;
    let name = path.display().to_string();
    let json = std::fs::read(&path).map_err(|source| RepoError::Io {
        path: name.clone(),
        source,
    })?;
    Ok(SafetensorsIndex::parse(&name, &json)?.files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medium_q4_k_is_taken_among_several_gguf_models() {
        let best = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            best_gguf(&names).cloned()
        };
        assert_eq!(best(&["a.gguf"]).as_deref(), Some("a.gguf"));
        let several = ["a-Q4_K_M.gguf", "a-Q4_K_S.gguf", "a-Q8_0.gguf"];
        assert_eq!(best(&several).as_deref(), Some("a-Q4_K_M.gguf"));
        assert_eq!(best(&several[1..]).as_deref(), Some("a-Q4_K_S.gguf"));
        assert_eq!(best(&["a.gguf", "b.gguf"]), None);
        assert_eq!(best(&["a-Q8_0.gguf", "a-F16.gguf"]), None);
    }
}
