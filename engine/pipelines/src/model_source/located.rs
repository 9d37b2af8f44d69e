//! Where the weights of a configuration are.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use wisp_hub::{HuggingFaceRepo, OnTransfer, RepoError};
use wisp_weights::WeightsFormat;

use crate::model_files::COMPANIONS;

/// Where the weights of a configuration are.
#[derive(Debug)]
pub(super) struct Located {
    /// What the user calls the model.
    pub name: String,
    /// The repository or folder of the model; `None` if the weights are files without one.
    pub repo: Option<HuggingFaceRepo>,
    /// The repository of the weights, if it is another.
    pub weights_repo: Option<HuggingFaceRepo>,
    /// Weights on this machine.
    pub local: Vec<PathBuf>,
    /// Weights in the repository, by their paths in it.
    pub remote: Vec<String>,
}

impl Located {
    /// Returns the repository of the weights.
    pub fn weights_repo(&self) -> Option<&HuggingFaceRepo> {
        self.weights_repo.as_ref().or(self.repo.as_ref())
    }

    /// Returns the path of the first file of weights.
    pub fn first_file(&self) -> Option<Cow<'_, str>> {
        let local = self.local.first().map(|path| path.to_string_lossy());
        local.or_else(|| self.remote.first().map(|file| file.as_str().into()))
    }

    /// Returns the format of the weights, by the name of the first file.
    pub fn format(&self) -> Option<WeightsFormat> {
        WeightsFormat::of(&self.first_file()?)
    }

    /// Downloads the weights that are not on this machine. Returns all paths.
    pub fn download(
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

    /// Downloads the files beside the weights. Returns their folder, if there are any.
    pub fn download_companions(
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
            let root = path.ancestors().nth(1 + file.matches('/').count());
            folder = root.map(Path::to_path_buf);
        }
        Ok(folder)
    }
}
