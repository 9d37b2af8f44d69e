//! Which files of a repository are the model.

use std::collections::BTreeSet;

use super::{ConfigError, ModelName, PipelineConfig, SupportedEncoding, WeightsFormat};
use crate::{
    pipelines::{
        PipelineError,
        huggingface_repo::{HuggingFaceRepo, OnTransfer, RepoError, is_later_part},
    },
    weights::safetensors::SafetensorsIndex,
};

/// Says which tensor is in which file.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// Bytes that it may have.
const MAX_INDEX_BYTES: u64 = 100 << 20;

impl PipelineConfig {
    /// The files of a repository that are the model: those that the name's part or the encoding
    /// asks for, else safetensors before GGUF.
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
        if let Some(shards) = files.get(&WeightsFormat::Safetensors) {
            let whole = |file: &&String| file.as_str() == "model.safetensors";
            let shards: Vec<String> = match shards.iter().find(whole) {
                Some(whole) => vec![whole.clone()],
                None if repo.file_exists(INDEX) => index_files(repo, on_transfer)?,
                None => shards
                    .iter()
                    .filter(|file| !file.contains('/'))
                    .cloned()
                    .collect(),
            };
            match shards.len() {
                0 => {}
                1 => return Ok(shards),
                _ if repo.file_exists(INDEX) => return Ok(shards),
                _ => {
                    let (repo, files) = (id(), shards);
                    return Err(RepoError::Ambiguous { repo, files }.into());
                }
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
        if files.contains_key(&WeightsFormat::PyTorch) {
            return Err(ConfigError::NotBuilt {
                field: "weight_path",
                reason: "the model has only PyTorch's files: use one with safetensors or GGUF",
            }
            .into());
        }
        Err(match wanted {
            Some(wanted) if !repo.weight_files().is_empty() => RepoError::NoEncoding {
                repo: id(),
                wanted,
                there_are: repo.supported_encodings(on_transfer)?,
            },
            _ => RepoError::NoWeights { repo: id() },
        }
        .into())
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
    on_transfer: OnTransfer<'_>,
) -> Result<Vec<String>, PipelineError> {
    // A list of names: read whole, so of bounded size.
    if repo
        .size_of(INDEX)
        .is_some_and(|size| size > MAX_INDEX_BYTES)
    {
        return Err(PipelineError::Config {
            file: INDEX.into(),
            problem: format!("it is larger than {MAX_INDEX_BYTES} bytes"),
        });
    }
    let path = repo.download(INDEX, false, on_transfer)?;
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
