//! Which files of a repository are the model.

use std::collections::BTreeSet;

use super::{ModelName, PipelineConfig, SupportedEncoding, WeightsFormat};
use crate::PipelineError;
use wisp_hub::{HuggingFaceRepo, OnTransfer, RepoError, is_later_part};
use wisp_weights::safetensors::SafetensorsIndex;

/// Says which tensor is in which file.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// The same, of PyTorch's files.
pub(super) const PYTORCH_INDEX: &str = "pytorch_model.bin.index.json";

/// Bytes that an index may have.
const MAX_INDEX_BYTES: u64 = 100 << 20;

impl PipelineConfig {
    /// The files of a repository that are the model: those that the name's part or the encoding
    /// asks for, else safetensors before GGUF before PyTorch's.
    pub(super) fn choose(
        &self,
        repo: &HuggingFaceRepo,
        model: &ModelName,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<String>, PipelineError> {
        let id = || repo.repo_id().to_string();
        let wanted = model.encoding().or(self.quantization_encoding);
        if let (Some(file), None) = (&model.part, model.encoding()) {
            return Ok(with_parts(repo, file));
        }
        let mut files = match wanted {
            Some(encoding) => repo.files_for_encoding(encoding, None, None, on_transfer)?,
            None => repo.weight_files(),
        };
        for list in files.values_mut() {
            list.retain(|file| !is_later_part(file) || !file.ends_with(".gguf"));
        }
        if let Some(files) = files.get(&WeightsFormat::Safetensors) {
            let shards = shards(repo, files, "model.safetensors", INDEX, on_transfer)?;
            if !shards.is_empty() {
                return Ok(shards);
            }
        }
        if let Some(models) = files
            .get(&WeightsFormat::Gguf)
            .filter(|models| !models.is_empty())
        {
            return match best_gguf(models) {
                Some(file) => Ok(with_parts(repo, file)),
                None => Err(RepoError::Ambiguous {
                    repo: id(),
                    files: models.clone(),
                }
                .into()),
            };
        }
        if let Some(files) = files.get(&WeightsFormat::PyTorch) {
            let shards = shards(repo, files, "pytorch_model.bin", PYTORCH_INDEX, on_transfer)?;
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
}

/// Of a repository's files of one format those that are the model: the whole one, those that the
/// index names, or else the only one. Trainers leave files of their own beside them.
fn shards(
    repo: &HuggingFaceRepo,
    files: &[String],
    whole: &str,
    index: &str,
    on_transfer: OnTransfer<'_>,
) -> Result<Vec<String>, PipelineError> {
    if files.iter().any(|file| file == whole) {
        return Ok(vec![whole.into()]);
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

/// A GGUF file and, if it is the first of several, the others.
fn with_parts(repo: &HuggingFaceRepo, file: &str) -> Vec<String> {
    let mut files = vec![file.to_string()];
    if let Some((stem, count)) = file.rsplit_once("-00001-of-") {
        let part = |name: &String| {
            let middle = name
                .strip_prefix(stem)
                .and_then(|rest| rest.strip_suffix(count));
            middle.is_some_and(|middle| middle.ends_with("-of-") && is_later_part(name))
        };
        let parts = repo.weight_files().remove(&WeightsFormat::Gguf);
        files.extend(parts.into_iter().flatten().filter(part));
    }
    files
}

/// Of several GGUF models, the one to take: the only one; of q4_k, which most people take, the
/// middle mixture.
fn best_gguf(models: &[String]) -> Option<&String> {
    let of = |encoding| {
        let same =
            move |file: &&String| SupportedEncoding::parse_from_file_name(file) == Some(encoding);
        models.iter().filter(same).collect::<Vec<_>>()
    };
    let encodings: BTreeSet<_> = models
        .iter()
        .map(|file| SupportedEncoding::parse_from_file_name(file))
        .collect();
    let candidates = match encodings.len() {
        1 => models.iter().collect(),
        _ => of(SupportedEncoding::q4_k),
    };
    let middle = |file: &&&String| file.to_ascii_lowercase().contains("k_m");
    match candidates.as_slice() {
        [only] => Some(only),
        several => {
            let mut middles = several.iter().filter(middle);
            middles.next().filter(|_| middles.next().is_none()).copied()
        }
    }
}

/// The files that the index of a checkpoint in several files names.
fn index_files(
    repo: &HuggingFaceRepo,
    index: &str,
    on_transfer: OnTransfer<'_>,
) -> Result<Vec<String>, PipelineError> {
    // A list of names: read whole, so of bounded size.
    if repo
        .size_of(index)
        .is_some_and(|size| size > MAX_INDEX_BYTES)
    {
        return Err(PipelineError::Config {
            file: index.into(),
            problem: format!("it is larger than {MAX_INDEX_BYTES} bytes"),
        });
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
    fn the_gguf_that_most_people_take() {
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
