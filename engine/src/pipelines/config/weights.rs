//! From a configuration to a model's files: which repository, which of its files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ConfigError, PipelineConfig, SupportedEncoding, WeightsFormat};
use crate::{
    pipelines::{
        PipelineError,
        checkpoint::ModelFiles,
        huggingface_repo::{HuggingFaceRepo, OnTransfer, RepoError, is_later_part},
    },
    weights::{Checkpoint, safetensors::SafetensorsIndex},
};

const INDEX: &str = "model.safetensors.index.json";

/// Files beside the weights that say what a model is and how its text is tokenised.
const COMPANIONS: &[&str] = &[
    "1_Pooling/config.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "config_sentence_transformers.json",
    "generation_config.json",
    "merges.txt",
    "modules.json",
    INDEX,
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
];

/// What a user calls a model: a file, a folder or a repository, and which of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// A path, or `org/name`.
    pub repo: String,
    /// An encoding or a file, written behind a colon.
    pub part: Option<String>,
}

impl ModelName {
    /// Reads `path`, `path:part`, `org/name` or `org/name:part`.
    ///
    /// # Errors
    ///
    /// If there is no such path, and it cannot be a repository's name either.
    pub fn parse(text: &str) -> Result<ModelName, RepoError> {
        let is_model = |name: &str| Path::new(name).exists() || is_repo_id(name);
        let name = |repo: &str, part: Option<&str>| ModelName {
            repo: repo.into(),
            part: part.map(Into::into),
        };
        match text.rsplit_once(':') {
            _ if is_model(text) => Ok(name(text, None)),
            Some((repo, part)) if is_model(repo) && !part.is_empty() => Ok(name(repo, Some(part))),
            _ => Err(RepoError::NotFound {
                name: text.into(),
                may_be_repo: false,
            }),
        }
    }

    fn encoding(&self) -> Option<SupportedEncoding> {
        let part = self.part.as_deref()?;
        match WeightsFormat::of(part) {
            Some(_) => None,
            None => SupportedEncoding::parse_from_file_name(part),
        }
    }
}

/// True for `org/name` with letters, digits and `-_.`; a path to a missing file is none.
fn is_repo_id(name: &str) -> bool {
    let word = |word: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.len() <= 96
            && word.chars().all(plain)
    };
    let parts = name.split_once('/');
    parts.is_some_and(|(org, name)| word(org) && word(name)) && WeightsFormat::of(name).is_none()
}

/// Where the weights of a configuration are.
#[derive(Debug)]
struct Located {
    /// What the model is called.
    name: String,
    /// The repository or folder of the model.
    repo: Option<HuggingFaceRepo>,
    /// The one of the weights, if it is another.
    weights_repo: Option<HuggingFaceRepo>,
    /// Weights on this machine.
    local: Vec<PathBuf>,
    /// Weights in the repository.
    remote: Vec<String>,
}

impl Located {
    fn weights_repo(&self) -> Option<&HuggingFaceRepo> {
        self.weights_repo.as_ref().or(self.repo.as_ref())
    }

    fn format(&self) -> Option<WeightsFormat> {
        let local = self.local.first().and_then(|path| path.to_str());
        WeightsFormat::of(local.or(self.remote.first().map(String::as_str))?)
    }

    fn download(
        &self,
        force: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<PathBuf>, RepoError> {
        let mut paths = self.local.clone();
        if let Some(repo) = self.weights_repo() {
            for file in &self.remote {
                paths.push(repo.download(file, force, on_transfer)?);
            }
        }
        Ok(paths)
    }

    /// Downloads what stands beside the weights and returns the folder, if there is one.
    fn companions(
        &self,
        force: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Option<PathBuf>, RepoError> {
        let Some(repo) = &self.repo else {
            return Ok(None);
        };
        let mut folder = None;
        for file in COMPANIONS.iter().filter(|file| repo.file_exists(file)) {
            let path = repo.download(file, force, on_transfer)?;
            let above = path.ancestors().nth(1 + file.matches('/').count());
            folder = above.map(Path::to_path_buf);
        }
        Ok(folder)
    }
}

impl PipelineConfig {
    fn repo(&self, id: &str, on_transfer: OnTransfer<'_>) -> Result<HuggingFaceRepo, RepoError> {
        let revision = &self.huggingface_revision;
        HuggingFaceRepo::open(id, revision, self.trust_remote_code, on_transfer)
    }

    /// Finds the model's repository and chooses its weights.
    fn locate(&self, on_transfer: OnTransfer<'_>) -> Result<Located, PipelineError> {
        self.require_built()?;
        let mut located = Located {
            name: self.short_name().into(),
            repo: None,
            weights_repo: None,
            local: Vec::new(),
            remote: Vec::new(),
        };
        let model = match &self.huggingface_repo_id {
            Some(text) => Some(ModelName::parse(text)?),
            None if self.weight_path.is_empty() => return Err(ConfigError::NoModel.into()),
            None => None,
        };
        let of_model = model.as_ref().map_or("", |model| model.repo.as_str());
        let mut elsewhere = None;
        for path in &self.weight_path {
            if Path::new(path).is_file() {
                located.local.push(path.into());
                continue;
            }
            // `org/name/file`: a file of another repository.
            let other = path
                .match_indices('/')
                .nth(1)
                .map(|(at, _)| path.split_at(at));
            match other {
                Some((repo, file)) if is_repo_id(repo) => {
                    elsewhere = Some(repo).filter(|repo| *repo != of_model);
                    located.remote.push(file[1..].into());
                }
                _ if model.is_some() => located.remote.push(path.clone()),
                _ => {
                    return Err(PipelineError::Repository(RepoError::NotFound {
                        name: path.clone(),
                        may_be_repo: true,
                    }));
                }
            }
        }
        if let Some(repo) = elsewhere {
            located.weights_repo = Some(self.repo(repo, on_transfer)?);
        }
        let Some(model) = model else {
            return Ok(located);
        };
        let path = Path::new(&model.repo);
        if path.is_file() {
            if self.weight_path.is_empty() {
                located.local.push(path.into());
            }
            return Ok(located);
        }
        let repo = self.repo(&model.repo, on_transfer)?;
        if self.weight_path.is_empty() {
            located.remote = self.choose(&repo, &model, on_transfer)?;
        }
        located.repo = Some(repo);
        Ok(located)
    }

    /// The files of a repository that are the model: those that the name's part or the encoding
    /// asks for, else safetensors before GGUF.
    fn choose(
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

    /// The repository of the weights; `None` if they are files of this machine.
    ///
    /// # Errors
    ///
    /// If there is none of the name, or it cannot be asked.
    pub fn huggingface_weights_repo(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Option<HuggingFaceRepo>, PipelineError> {
        let located = self.locate(on_transfer)?;
        Ok(located.weights_repo.or(located.repo))
    }

    /// The format of the weights.
    ///
    /// # Errors
    ///
    /// If they cannot be found, or have no name that tells a format.
    pub fn weights_format(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<WeightsFormat, PipelineError> {
        let format = self.locate(on_transfer)?.format();
        Ok(format.ok_or(ConfigError::NoModel)?)
    }

    /// Bytes of the weights' files, without downloading them.
    ///
    /// # Errors
    ///
    /// If they cannot be found.
    pub fn weights_size(&self, on_transfer: OnTransfer<'_>) -> Result<u64, PipelineError> {
        let located = self.locate(on_transfer)?;
        let mut size = 0;
        for path in &located.local {
            let found = std::fs::metadata(path).map_err(|source| RepoError::Io {
                path: path.display().to_string(),
                source,
            })?;
            size += found.len();
        }
        if let Some(repo) = located.weights_repo() {
            size += located
                .remote
                .iter()
                .filter_map(|file| repo.size_of(file))
                .sum::<u64>();
        }
        Ok(size)
    }

    /// Downloads the weights that are not on this machine yet, and returns all their paths.
    ///
    /// # Errors
    ///
    /// If they cannot be had whole.
    pub fn download_weights(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<PathBuf>, PipelineError> {
        let located = self.locate(on_transfer)?;
        Ok(located.download(self.force_download, on_transfer)?)
    }

    /// Opens the weights, after downloading what is missing.
    ///
    /// # Errors
    ///
    /// If they cannot be had, or are unsound.
    pub fn load_weights(&self, on_transfer: OnTransfer<'_>) -> Result<Checkpoint, PipelineError> {
        Ok(Checkpoint::open_all(&self.download_weights(on_transfer)?)?)
    }

    /// The model's `config.json`, with `max_seq_len` no more than `max_length`; `None` if the model
    /// has none, as GGUF files have.
    ///
    /// # Errors
    ///
    /// If it cannot be had, or is no JSON.
    pub fn huggingface_config(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Option<Value>, PipelineError> {
        let located = self.locate(on_transfer)?;
        let file = "config.json";
        let Some(repo) = located.repo.filter(|repo| repo.file_exists(file)) else {
            return Ok(None);
        };
        let path = repo.download(file, self.force_download, on_transfer)?;
        let problem = |problem: String| PipelineError::Config {
            file: path.display().to_string(),
            problem,
        };
        let text = std::fs::read_to_string(&path).map_err(|error| problem(error.to_string()))?;
        let mut config: Value =
            serde_json::from_str(&text).map_err(|error| problem(error.to_string()))?;
        let most = ["max_seq_len", "max_position_embeddings"]
            .iter()
            .find_map(|key| config.get(key).and_then(Value::as_u64));
        if let Some(fields) = config.as_object_mut() {
            let length = self.max_length.min(most.unwrap_or(u64::MAX));
            fields.insert("max_seq_len".into(), length.into());
        }
        Ok(Some(config))
    }

    /// Sets `architecture` to the checkpoint's, if it is not set.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be had.
    pub fn update_architecture(
        &mut self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<(), PipelineError> {
        if self.architecture.is_none() {
            let files = self.open(on_transfer)?;
            self.architecture = Some(files.recognised.architecture.into());
        }
        Ok(())
    }

    /// Opens the model's files, after downloading what is missing, and holds them to what the
    /// configuration says of encoding, architecture and rope.
    ///
    /// # Errors
    ///
    /// If they cannot be had, do not fit together, or are not what the configuration says.
    pub fn open(&self, on_transfer: OnTransfer<'_>) -> Result<ModelFiles, PipelineError> {
        let located = self.locate(on_transfer)?;
        let paths = located.download(self.force_download, on_transfer)?;
        let folder = match located.format() {
            Some(WeightsFormat::Gguf) => None,
            _ => located.companions(self.force_download, on_transfer)?,
        };
        let checkpoint = match &folder {
            // The index says which tensor must be where.
            Some(folder) if self.weight_path.is_empty() && paths.len() > 1 => {
                Checkpoint::open(folder)?
            }
            _ => Checkpoint::open_all(&paths)?,
        };
        let files = ModelFiles::from_checkpoint(&located.name, checkpoint, folder.as_deref())?;
        self.hold(files)
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
    let encodings: std::collections::BTreeSet<_> = models
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
    fn names_of_models() {
        let name = |repo: &str, part: Option<&str>| ModelName {
            repo: repo.into(),
            part: part.map(Into::into),
        };
        for (text, expected) in [
            ("org/name", name("org/name", None)),
            ("org/name:q4_k", name("org/name", Some("q4_k"))),
            (
                "org/n-a_m.e1:a/b.gguf",
                name("org/n-a_m.e1", Some("a/b.gguf")),
            ),
            (".", name(".", None)),
            (".:q8_0", name(".", Some("q8_0"))),
        ] {
            assert_eq!(ModelName::parse(text).unwrap(), expected, "{text}");
        }
        for text in [
            "absent.gguf",
            "absent/model.gguf",
            "name",
            "/absent/x",
            "a/b/c",
            "a b/c",
            "",
            ":",
            "org/:q4_k",
        ] {
            assert!(ModelName::parse(text).is_err(), "{text}");
        }
        let encoding = |text| ModelName::parse(text).unwrap().encoding();
        assert_eq!(encoding("a/b:Q4_K_M"), Some(SupportedEncoding::q4_k));
        assert_eq!(encoding("a/b:f16"), Some(SupportedEncoding::float16));
        assert_eq!(encoding("a/b:x-Q4_K_M.gguf"), None);
    }

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
