//! A repository and its files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use wisp_weights::WeightsFormat;

#[cfg(feature = "hub")]
use crate::online::OnlineRepo;
use crate::{
    error::RepoError,
    folder,
    info::{RepoFile, RepoInfo},
    repo_type::RepoType,
    transfer::OnTransfer,
};

/// A model repository: a folder of this machine, or a repository of a hub at one revision. Named
/// after MAX's class `HuggingFaceRepo`.
#[derive(Debug)]
pub struct HuggingFaceRepo {
    repo_id: String,
    trust_remote_code: bool,
    info: RepoInfo,
    source: Source,
}

/// Where the files of a repository come from.
#[derive(Debug)]
pub(crate) enum Source {
    Folder(PathBuf),
    #[cfg(feature = "hub")]
    Online(Box<OnlineRepo>),
}

impl HuggingFaceRepo {
    /// Opens the folder `repo_id` if it exists, else the repository of that name on the hub.
    ///
    /// `revision` is a branch, tag or commit of a hub's repository. `trust_remote_code` is only
    /// recorded, for compatibility with MAX: Wisp never runs code of a repository.
    ///
    /// # Errors
    ///
    /// If neither exists, or the files cannot be listed.
    pub fn open(
        repo_id: &str,
        revision: &str,
        trust_remote_code: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<HuggingFaceRepo, RepoError> {
        let path = Path::new(repo_id);
        let (info, source) = if path.is_dir() {
            let info = RepoInfo {
                files: folder::list(path, folder::FOLDER_DEPTH)?,
                ..RepoInfo::default()
            };
            (info, Source::Folder(path.into()))
        } else {
            open_online(repo_id, revision, on_transfer)?
        };
        Ok(HuggingFaceRepo {
            repo_id: repo_id.into(),
            trust_remote_code,
            info,
            source,
        })
    }

    /// Returns the repository's name: `org/name`, or the path of a folder.
    pub fn repo_id(&self) -> &str {
        &self.repo_id
    }

    /// Returns whether the files are on a hub or in a folder.
    pub fn repo_type(&self) -> RepoType {
        match self.source {
            Source::Folder(_) => RepoType::Local,
            #[cfg(feature = "hub")]
            Source::Online(_) => RepoType::Online,
        }
    }

    /// Returns the value given to [`HuggingFaceRepo::open`]. It changes nothing: Wisp never runs code
    /// of a repository.
    pub fn trust_remote_code(&self) -> bool {
        self.trust_remote_code
    }

    /// Returns the commit and the list of files.
    pub fn info(&self) -> &RepoInfo {
        &self.info
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    fn find(&self, file: &str) -> Option<&RepoFile> {
        self.info.files.iter().find(|known| known.path == file)
    }

    /// Returns whether the repository has a file of this path.
    pub fn file_exists(&self, file: &str) -> bool {
        self.find(file).is_some()
    }

    /// Returns a file's size in bytes, or `None` if the repository has no such file.
    pub fn size_of(&self, file: &str) -> Option<u64> {
        Some(self.find(file)?.size)
    }

    /// Returns the paths of the files with weights, by format.
    pub fn weight_files(&self) -> BTreeMap<WeightsFormat, Vec<String>> {
        let mut files: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for RepoFile { path, .. } in &self.info.files {
            if let Some(format) = WeightsFormat::of(path) {
                files.entry(format).or_default().push(path.clone());
            }
        }
        files
    }

    /// Returns the formats in which the repository has weights.
    pub fn formats_available(&self) -> Vec<WeightsFormat> {
        self.weight_files().into_keys().collect()
    }

    /// Returns the error that the repository lacks something. If only the cache is known, because the hub was not reached,
    /// the error says instead that the cache lacks it. `wanted` names it in that message, such as `the model`.
    pub fn lacks(&self, wanted: &str, error: RepoError) -> RepoError {
        #[cfg(feature = "hub")]
        if let (Source::Online(hub), Some(reason)) = (&self.source, &self.info.cache_reason) {
            let available = self.weight_files().into_values().flatten();
            return hub.not_cached(wanted, reason, available.collect());
        }
        // Only a hub's repository is in the cache.
        let _ = wanted;
        error
    }

    /// Returns a file's path on this machine. A file of a hub is downloaded first if the cache does
    /// not have it, or in any case with `force`.
    ///
    /// # Errors
    ///
    /// If the repository has no such file, or the download fails or is cancelled.
    pub fn download(
        &self,
        file: &str,
        force: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<PathBuf, RepoError> {
        let Some(known) = self.find(file) else {
            let error = RepoError::FileNotFound {
                repo: self.repo_id.clone(),
                file: file.into(),
                available: self.weight_files().into_values().flatten().collect(),
            };
            return Err(self.lacks(&format!("the file {file:?}"), error));
        };
        match &self.source {
            Source::Folder(folder) => {
                // A folder's files are always complete and nothing is transferred.
                let _ = (known, force, on_transfer);
                Ok(folder.join(file))
            }
            #[cfg(feature = "hub")]
            Source::Online(hub) => hub.download(&self.info, known, force, on_transfer),
        }
    }
}

#[cfg(feature = "hub")]
fn open_online(
    repo_id: &str,
    revision: &str,
    on_transfer: OnTransfer<'_>,
) -> Result<(RepoInfo, Source), RepoError> {
    let (hub, info) = OnlineRepo::open(repo_id, revision, on_transfer)?;
    Ok((info, Source::Online(Box::new(hub))))
}

#[cfg(not(feature = "hub"))]
fn open_online(repo_id: &str, _: &str, _: OnTransfer<'_>) -> Result<(RepoInfo, Source), RepoError> {
    Err(RepoError::HubDisabled {
        repo: repo_id.into(),
    })
}
