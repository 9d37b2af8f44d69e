//! Finds, downloads and opens a model's files.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wisp_files::{FileKind, read_small_text};
use wisp_hub::{HuggingFaceRepo, OnTransfer, RepoError};
use wisp_text::{python_json, tokenizer::Tokenizer};
use wisp_weights::{Checkpoint, WeightsFormat};

use super::{
    choose_files::choose_files,
    located::Located,
    model_name::{ModelName, is_repo_id},
};
use crate::{
    config::{ConfigError, PipelineConfig},
    error::PipelineError,
    model_files::{ModelFiles, ModelFilesError, tokenizer},
};

impl PipelineConfig {
    /// Opens the model's files, after downloading those that are missing, and checks that they are
    /// what the configuration demands.
    ///
    /// # Errors
    ///
    /// If the files cannot be found, downloaded or read, do not fit together, or are not what the
    /// configuration demands.
    pub fn open(&self, on_transfer: OnTransfer<'_>) -> Result<ModelFiles, PipelineError> {
        let (name, checkpoint, folder) = self.checkpoint(on_transfer)?;
        let files = ModelFiles::from_checkpoint(&name, checkpoint, folder.as_deref())?;
        Ok(self.apply_overrides(files)?)
    }

    /// Opens only the tokenizer. Weights are not downloaded if it is beside them.
    ///
    /// # Errors
    ///
    /// If there is none, or it is of a kind that is not supported.
    pub fn open_tokenizer(&self, on_transfer: OnTransfer<'_>) -> Result<Tokenizer, PipelineError> {
        let located = self.locate(on_transfer)?;
        let force = self.force_download;
        if located.format() != Some(WeightsFormat::Gguf)
            && let Some(folder) = located.download_companions(force, on_transfer)?
        {
            return Ok(Tokenizer::from_dir(&folder)?);
        }
        let checkpoint = Checkpoint::open_files(&located.download(force, on_transfer)?)?;
        Ok(tokenizer(&checkpoint)?)
    }

    /// Returns the repository of the weights; `None` if they are files of this machine.
    ///
    /// # Errors
    ///
    /// If it cannot be found or reached.
    pub fn huggingface_weights_repo(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Option<HuggingFaceRepo>, PipelineError> {
        let located = self.locate(on_transfer)?;
        Ok(located.weights_repo.or(located.repo))
    }

    /// Returns the format of the weights.
    ///
    /// # Errors
    ///
    /// If they cannot be found, or their names do not tell a format.
    pub fn weights_format(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<WeightsFormat, PipelineError> {
        let located = self.locate(on_transfer)?;
        let format = located.format();
        Ok(format.ok_or_else(|| match located.first_file() {
            Some(file) => ConfigError::Format { file: file.into() },
            None => ConfigError::NoModel,
        })?)
    }

    /// Returns the bytes of the files of weights, without downloading them.
    ///
    /// # Errors
    ///
    /// If they cannot be found.
    pub fn weights_size(&self, on_transfer: OnTransfer<'_>) -> Result<u64, PipelineError> {
        let located = self.locate(on_transfer)?;
        let mut size = 0;
        for path in &located.local {
            let metadata = std::fs::metadata(path).map_err(|source| RepoError::Io {
                path: path.display().to_string(),
                source,
            })?;
            size += metadata.len();
        }
        if let Some(repo) = located.weights_repo() {
            let sizes = located.remote.iter().filter_map(|file| repo.size_of(file));
            size += sizes.sum::<u64>();
        }
        Ok(size)
    }

    /// Downloads the weights that are not on this machine yet. Returns the paths of all.
    ///
    /// # Errors
    ///
    /// If they cannot be found or downloaded.
    pub fn download_weights(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<PathBuf>, PipelineError> {
        let located = self.locate(on_transfer)?;
        Ok(located.download(self.force_download, on_transfer)?)
    }

    /// Opens the weights, after downloading those that are missing.
    ///
    /// # Errors
    ///
    /// If they cannot be found, downloaded or read.
    pub fn load_weights(&self, on_transfer: OnTransfer<'_>) -> Result<Checkpoint, PipelineError> {
        let paths = self.download_weights(on_transfer)?;
        Ok(Checkpoint::open_files(&paths)?)
    }

    /// Returns the model's `config.json`, with `max_seq_len` of at most `max_length`; `None` if the
    /// model has none, as GGUF files.
    ///
    /// # Errors
    ///
    /// If it cannot be downloaded, or is not JSON.
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
        let problem = |problem: String| ModelFilesError::File {
            file: path.display().to_string(),
            problem,
        };
        let text = read_small_text(&path, FileKind::Config);
        let text = text.map_err(|error| problem(error.to_string()))?;
        let config = python_json::parse(text.as_bytes());
        let mut config = config.map_err(|error| problem(error.to_string()))?;
        let positions = ["max_seq_len", "max_position_embeddings"]
            .iter()
            .find_map(|key| config.get(key).and_then(Value::as_u64));
        if let Some(fields) = config.as_object_mut() {
            let length = self.max_length.min(positions.unwrap_or(u64::MAX));
            fields.insert("max_seq_len".into(), length.into());
        }
        Ok(Some(config))
    }

    /// Sets [`Self::architecture`] to the checkpoint's, if it is not set.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn update_architecture(
        &mut self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<(), PipelineError> {
        if self.architecture.is_none() {
            let files = self.open(on_transfer)?;
            self.architecture = Some(files.model_spec.architecture.name().into());
        }
        Ok(())
    }

    /// Returns the model's name, its checkpoint, after downloading what is missing, and the folder
    /// of the files that describe it, if that is not the checkpoint's.
    pub(crate) fn checkpoint(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<(String, Checkpoint, Option<PathBuf>), PipelineError> {
        let located = self.locate(on_transfer)?;
        let paths = located.download(self.force_download, on_transfer)?;
        let folder = match located.format() {
            Some(WeightsFormat::Gguf) => None,
            _ => located.download_companions(self.force_download, on_transfer)?,
        };
        let checkpoint = match &folder {
            // The index says which file has which tensor.
            Some(folder) if self.weight_path.is_empty() && paths.len() > 1 => {
                Checkpoint::open(folder)?
            }
            _ => Checkpoint::open_files(&paths)?,
        };
        Ok((located.name, checkpoint, folder))
    }

    fn repo(&self, id: &str, on_transfer: OnTransfer<'_>) -> Result<HuggingFaceRepo, RepoError> {
        let revision = &self.huggingface_revision;
        HuggingFaceRepo::open(id, revision, self.trust_remote_code, on_transfer)
    }

    /// Finds the model's repository and chooses its weights.
    fn locate(&self, on_transfer: OnTransfer<'_>) -> Result<Located, PipelineError> {
        self.check_supported()?;
        let model = match &self.huggingface_repo_id {
            Some(text) => Some(ModelName::parse(text)?),
            None if self.weight_path.is_empty() => return Err(ConfigError::NoModel.into()),
            None => None,
        };
        let model_repo = model.as_ref().map(|model| model.repo.as_str());
        let paths = self.weight_paths(model_repo)?;
        let weights_repo = paths.repo.filter(|repo| Some(*repo) != model_repo);
        let weights_repo = weights_repo.map(|repo| self.repo(repo, on_transfer));
        let mut located = Located {
            name: self.short_name().into(),
            repo: None,
            weights_repo: weights_repo.transpose()?,
            local: paths.local,
            remote: paths.remote,
        };
        let Some(model) = &model else {
            return Ok(located);
        };
        let path = Path::new(&model.repo);
        if is_file(path) {
            if self.weight_path.is_empty() {
                located.local.push(path.into());
            }
            return Ok(located);
        }
        let repo = self.repo(&model.repo, on_transfer)?;
        if self.weight_path.is_empty() {
            let encoding = self.quantization_encoding;
            located.remote = choose_files(&repo, model, encoding, on_transfer)?;
        }
        located.repo = Some(repo);
        Ok(located)
    }

    /// Sorts [`Self::weight_path`] into files of this machine and files of one repository.
    fn weight_paths<'c>(
        &'c self,
        model_repo: Option<&'c str>,
    ) -> Result<WeightPaths<'c>, RepoError> {
        let mut paths = WeightPaths::default();
        for path in &self.weight_path {
            if is_file(Path::new(path)) {
                paths.local.push(path.into());
                continue;
            }
            let not_found = || RepoError::NotFound {
                name: path.clone(),
                may_be_repo: true,
            };
            // `org/name/file` is a file of another repository.
            let split = path.match_indices('/').nth(1);
            let (repo, file) = match split.map(|(at, _)| path.split_at(at)) {
                Some((repo, file)) if is_repo_id(repo) => (repo, &file[1..]),
                _ => (model_repo.ok_or_else(not_found)?, path.as_str()),
            };
            let is_another = paths.repo.is_some_and(|first| first != repo);
            if is_another || is_file(Path::new(repo)) {
                return Err(not_found());
            }
            paths.repo = Some(repo);
            paths.remote.push(file.into());
        }
        Ok(paths)
    }
}

/// Returns whether a path is that of a file, even of one that cannot be opened as a model, such as a pipe.
fn is_file(path: &Path) -> bool {
    path.exists() && !path.is_dir()
}

/// The files of [`PipelineConfig::weight_path`].
#[derive(Default)]
struct WeightPaths<'c> {
    /// Files of this machine.
    local: Vec<PathBuf>,
    /// The repository that has all other files.
    repo: Option<&'c str>,
    /// Files of the repository.
    remote: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use wisp_hub::ignore_progress;

    #[test]
    fn weights_of_an_unknown_format_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.dat");
        std::fs::write(&path, b"anything").unwrap();
        let path = path.display().to_string();
        let config = PipelineConfig {
            weight_path: vec![path.clone()],
            ..PipelineConfig::default()
        };
        let error = config.weights_format(&ignore_progress).unwrap_err();
        assert!(error.to_string().contains(&path), "{error}");
    }

    #[test]
    fn configuration_may_have_infinite_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let config = r#"{"time_step_limit": [0.0, Infinity], "max_position_embeddings": 8}"#;
        std::fs::write(folder.path().join("config.json"), config).unwrap();
        let weights = b"\x02\0\0\0\0\0\0\0{}";
        std::fs::write(folder.path().join("model.safetensors"), weights).unwrap();
        let config = PipelineConfig {
            huggingface_repo_id: Some(folder.path().display().to_string()),
            ..PipelineConfig::default()
        };
        let json = config.huggingface_config(&ignore_progress).unwrap();
        assert_eq!(json.unwrap()["max_seq_len"], 8);
    }
}
