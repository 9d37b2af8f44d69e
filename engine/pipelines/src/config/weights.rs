//! From a configuration to a model's files: which repository, which of its files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    ConfigError, ModelName, PipelineConfig, WeightsFormat,
    choose::{INDEX, PYTORCH_INDEX},
    model_name::is_repo_id,
};
use crate::{PipelineError, model_files, model_files::ModelFiles};
use wisp_hub::{HuggingFaceRepo, OnTransfer, RepoError};
use wisp_text::tokenizer::Tokenizer;
use wisp_weights::Checkpoint;

/// Files beside the weights that say what a model is and how its text is tokenised.
pub(crate) const COMPANIONS: &[&str] = &[
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
    PYTORCH_INDEX,
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
];

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
        let not_found = |path: &String| {
            PipelineError::Repository(RepoError::NotFound {
                name: path.clone(),
                may_be_repo: true,
            })
        };
        // The repository of the weights: all of them are in the first one's.
        let mut source: Option<&str> = None;
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
            let (repo, file) = match other {
                Some((repo, file)) if is_repo_id(repo) => (repo, &file[1..]),
                _ if model.is_some() => (of_model, path.as_str()),
                _ => return Err(not_found(path)),
            };
            if source.is_some_and(|first| first != repo) || Path::new(repo).is_file() {
                return Err(not_found(path));
            }
            source = Some(repo);
            located.remote.push(file.into());
        }
        if let Some(repo) = source.filter(|repo| *repo != of_model) {
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
        Ok(Checkpoint::open_files(
            &self.download_weights(on_transfer)?,
        )?)
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
            self.architecture = Some(files.model_spec.architecture.into());
        }
        Ok(())
    }

    /// Opens the tokenizer alone, and downloads no weights if it stands beside them.
    ///
    /// # Errors
    ///
    /// If there is none, or of an unknown kind.
    pub fn open_tokenizer(&self, on_transfer: OnTransfer<'_>) -> Result<Tokenizer, PipelineError> {
        let located = self.locate(on_transfer)?;
        let force = self.force_download;
        if located.format() != Some(WeightsFormat::Gguf)
            && let Some(folder) = located.companions(force, on_transfer)?
        {
            return Ok(Tokenizer::from_dir(&folder)?);
        }
        let checkpoint = Checkpoint::open_files(&located.download(force, on_transfer)?)?;
        Ok(model_files::tokenizer(&checkpoint)?)
    }

    /// The model's name, its checkpoint, after downloading what is missing, and the folder of what
    /// describes it, if that is another than the checkpoint's.
    pub(crate) fn checkpoint(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<(String, Checkpoint, Option<PathBuf>), PipelineError> {
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
            _ => Checkpoint::open_files(&paths)?,
        };
        Ok((located.name, checkpoint, folder))
    }

    /// Opens the model's files, after downloading what is missing, and holds them to what the
    /// configuration says of encoding, architecture and rope.
    ///
    /// # Errors
    ///
    /// If they cannot be had, do not fit together, or are not what the configuration says.
    pub fn open(&self, on_transfer: OnTransfer<'_>) -> Result<ModelFiles, PipelineError> {
        let (name, checkpoint, folder) = self.checkpoint(on_transfer)?;
        let files = ModelFiles::from_checkpoint(&name, checkpoint, folder.as_deref())?;
        self.apply_overrides(files)
    }
}
