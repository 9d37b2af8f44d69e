//! Chooses the files of a repository that are the model.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use wisp_files::{FileKind, read_small};
use wisp_hub::{HuggingFaceRepo, OnTransfer, RepoError, RepoType};
use wisp_weights::{
    SupportedEncoding, WeightsFormat, is_auxiliary_file, is_auxiliary_name, is_later_part,
    safetensors::SafetensorsIndex,
};

use super::model_name::ModelName;
use crate::{
    error::PipelineError,
    model_files::{ModelFilesError, PYTORCH_INDEX, SAFETENSORS_INDEX},
};

/// Returns the files of a repository that are the model: those that the model's name or `encoding`
/// asks for, or else `model.safetensors` or its index before GGUF, before `pytorch_model.bin` or its index, before a
/// single file of another name.
///
/// A name such as `Q4_K_S` means the GGUF file whose name ends with it, or else the encoding that it is a kind of. A
/// hub's repository with GGUF files in several encodings gives that of q4_k, which its readers expect. A folder gives
/// only what is certain: one model, in the folder itself.
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
    let named = model.part.as_deref().map(|part| gguf_named(repo, part));
    match named.unwrap_or_default().as_slice() {
        [] => {}
        [file] => return Ok(with_later_parts(repo, file)),
        several => return Err(ambiguous(repo, several.to_vec())),
    }
    let wanted = model.encoding().or(encoding);
    if let (Some(file), None) = (&model.part, model.encoding()) {
        return Ok(with_later_parts(repo, file));
    }
    let mut files = match wanted {
        Some(encoding) => repo.files_for_encoding(encoding, None, None, on_transfer)?,
        None => repo.weight_files(),
    };
    let is_folder = repo.repo_type() == RepoType::Local;
    if is_folder {
        keep_own_files(repo, &mut files)?;
    }
    keep_models(repo, &mut files);
    let of_format = |format| files.get(&format).map_or(&[][..], Vec::as_slice);
    let safetensors = of_format(WeightsFormat::Safetensors);
    let names = ["model.safetensors", SAFETENSORS_INDEX];
    if let Some(files) = layout(repo, safetensors, names, on_transfer)? {
        return Ok(files);
    }
    let gguf = of_format(WeightsFormat::Gguf);
    if !gguf.is_empty() {
        return match best_gguf(gguf).filter(|_| gguf.len() == 1 || !is_folder) {
            Some(file) => {
                note_replacement(model, file);
                Ok(with_later_parts(repo, file))
            }
            None => Err(ambiguous(repo, gguf.to_vec())),
        };
    }
    let pytorch = of_format(WeightsFormat::PyTorch);
    let names = ["pytorch_model.bin", PYTORCH_INDEX];
    if let Some(files) = layout(repo, pytorch, names, on_transfer)? {
        return Ok(files);
    }
    for files in [safetensors, pytorch] {
        let own: Vec<String> = files
            .iter()
            .filter(|file| !file.contains('/'))
            .cloned()
            .collect();
        match own.len() {
            0 => {}
            1 => return Ok(own),
            _ => return Err(ambiguous(repo, own)),
        }
    }
    Err(match wanted {
        Some(wanted) if !repo.weight_files().is_empty() => {
            let error = RepoError::NoEncoding {
                repo: id(),
                wanted,
                available: repo.supported_encodings(on_transfer)?,
            };
            repo.lacks(&format!("a model in {wanted}"), error)
        }
        _ => repo.lacks("the model", RepoError::NoWeights { repo: id() }),
    }
    .into())
}

/// Returns the GGUF models whose names end with a word, such as `Q4_K_S`.
fn gguf_named(repo: &HuggingFaceRepo, word: &str) -> Vec<String> {
    let mut files = repo.weight_files();
    keep_models(repo, &mut files);
    let mut models = files.remove(&WeightsFormat::Gguf).unwrap_or_default();
    let is_folder = repo.repo_type() == RepoType::Local;
    models.retain(|file| ends_with_word(file, word) && !(is_folder && file.contains('/')));
    models
}

/// Returns whether a GGUF file's name ends with a word, in upper or lower case. Its extension does not count, nor does
/// the number of a part.
fn ends_with_word(file: &str, word: &str) -> bool {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let stem = stem
        .rsplit_once("-00001-of-")
        .map_or(stem, |(stem, _)| stem);
    let at = stem.len().checked_sub(word.len());
    let Some((before, end)) = at.and_then(|at| stem.split_at_checked(at)) else {
        return false;
    };
    end.eq_ignore_ascii_case(word) && !before.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Warns if a model's name asks for a kind of an encoding, such as `Q4_K_S`, and `file` is another one.
fn note_replacement(model: &ModelName, file: &str) {
    let (Some(part), Some(encoding)) = (&model.part, model.encoding()) else {
        return;
    };
    let name = part.to_ascii_lowercase();
    if name != encoding.name() && name.contains(encoding.name()) {
        let repo = &model.repo;
        tracing::warn!("{repo} has no file whose name ends with {part}: {file} is used instead");
    }
}

/// Leaves only the files of a folder itself.
///
/// # Errors
///
/// If there are none, but folders in it have some.
fn keep_own_files(
    repo: &HuggingFaceRepo,
    files: &mut BTreeMap<WeightsFormat, Vec<String>>,
) -> Result<(), RepoError> {
    let (own, below): (Vec<&String>, Vec<&String>) = files
        .values()
        .flatten()
        .partition(|file| !file.contains('/'));
    if own.is_empty() && !below.is_empty() {
        return Err(RepoError::OnlyBelow {
            folder: repo.repo_id().trim_end_matches('/').into(),
            files: below.into_iter().cloned().collect(),
        });
    }
    for list in files.values_mut() {
        list.retain(|file| !file.contains('/'));
    }
    Ok(())
}

/// Leaves out the later parts of GGUF models and, where others remain, the files that are no models. Publishers and
/// trainers leave such files beside a model.
fn keep_models(repo: &HuggingFaceRepo, files: &mut BTreeMap<WeightsFormat, Vec<String>>) {
    let is_auxiliary = |file: &String| match repo.repo_type() {
        RepoType::Local => is_auxiliary_file(&Path::new(repo.repo_id()).join(file)),
        RepoType::Online => is_auxiliary_name(file),
    };
    for (format, list) in files {
        if *format == WeightsFormat::Gguf {
            list.retain(|file| !is_later_part(file));
        }
        if list.len() > 1 {
            list.retain(|file| !is_auxiliary(file));
        }
    }
}

fn ambiguous(repo: &HuggingFaceRepo, files: Vec<String>) -> PipelineError {
    let name = repo.repo_id();
    match repo.repo_type() {
        RepoType::Local => RepoError::SeveralInFolder {
            folder: name.trim_end_matches('/').into(),
            files,
        },
        RepoType::Online => RepoError::Ambiguous {
            repo: name.into(),
            files,
        },
    }
    .into()
}

/// Returns the single file or those that the index names, by the names that they have in Hugging Face's layout; `None`
/// if there is neither. Trainers leave files of their own beside them.
fn layout(
    repo: &HuggingFaceRepo,
    files: &[String],
    [single, index]: [&str; 2],
    on_transfer: OnTransfer<'_>,
) -> Result<Option<Vec<String>>, PipelineError> {
    if files.iter().any(|file| file == single) {
        return Ok(Some(vec![single.into()]));
    }
    match !files.is_empty() && repo.file_exists(index) {
        true => index_files(repo, index, on_transfer).map(Some),
        false => Ok(None),
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
    let max = FileKind::Index.max_bytes();
    if repo.size_of(index).is_some_and(|size| size > max) {
        return Err(PipelineError::ModelFiles(ModelFilesError::File {
            file: index.into(),
            problem: format!("it is larger than {max} bytes"),
        }));
    }
    let path = repo.download(index, false, on_transfer)?;
    let name = path.display().to_string();
    let json = read_small(&path, FileKind::Index).map_err(|source| RepoError::Io {
        path: name.clone(),
        source,
    })?;
    Ok(SafetensorsIndex::parse(&name, &json)?.files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_end_with_whole_words() {
        for (file, word, ends) in [
            ("m-Q4_K_S.gguf", "q4_k_s", true),
            ("a/m.Q4_K_S-00001-of-00002.gguf", "Q4_K_S", true),
            ("Q4_K_S.gguf", "Q4_K_S", true),
            ("m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL", true),
            ("m-Q4_K_M.gguf", "Q4_K_S", false),
            ("m-Q4_K_M.gguf", "Q4_K", false),
            ("m-BF16.gguf", "F16", false),
            ("m-IQ4_XS.gguf", "Q4_XS", false),
            ("ä.gguf", "Q", false),
            ("m.gguf", "longer-than-the-name", false),
        ] {
            assert_eq!(ends_with_word(file, word), ends, "{file} {word}");
        }
    }

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
