//! Repositories of models: on a hub, or folders of this machine, behind one interface.
//!
//! [`HuggingFaceRepo`] follows MAX's class of that name. Hubs are reached through Hugging Face's own
//! client, `hf-hub`, with the feature `hub`; its variables count (`HF_TOKEN`, `HF_ENDPOINT`,
//! `HF_HOME`, …), and its cache is shared with Hugging Face's other tools.
//!
//! Everything here blocks, and must not be called from a task of an async runtime.

#![cfg(not(target_arch = "wasm32"))]

mod error;
#[cfg(feature = "hub")]
mod hub;
mod local;
mod repo_type;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde_json::Value;

use wisp_weights::Checkpoint;
use wisp_weights::{SupportedEncoding, WeightsFormat};

pub use error::RepoError;
#[cfg(feature = "hub")]
pub use hub::{CachedModel, CachedRevision, cache_directory, cached_models};
pub use repo_type::RepoType;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The file.
    pub file: &'a str,
    /// Bytes that are here.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Hears of transfers several times a second, and ends them by breaking off. What was transferred
/// so far is kept and continued next time.
pub type OnTransfer<'a> = &'a dyn Fn(Transfer<'_>) -> ControlFlow<()>;

/// For whoever does not care how far transfers are.
pub fn quietly(_: Transfer<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoFile {
    /// Its path in the repository, with `/`.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// What git calls it on the hub; empty in a folder.
    id: String,
    /// It is kept beside git (LFS), so that `id` is not its content's.
    large: bool,
}

/// What is known of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepoInfo {
    /// The commit; `None` for a folder.
    pub commit: Option<String>,
    /// True if the hub could not be asked, and this is what the cache has.
    pub cached: bool,
    /// Its files, by path.
    pub files: Vec<RepoFile>,
    /// The types of its safetensors, where the hub tells.
    dtypes: BTreeSet<String>,
}

/// A repository of a hub, or a folder with the same files.
#[derive(Debug)]
pub struct HuggingFaceRepo {
    repo_id: String,
    trust_remote_code: bool,
    info: RepoInfo,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Folder(PathBuf),
    #[cfg(feature = "hub")]
    Hub(hub::Hub),
}

impl HuggingFaceRepo {
    /// A folder of this machine, if there is one of that name, else a repository of the hub.
    ///
    /// # Errors
    ///
    /// If there is neither, or it cannot be read.
    pub fn open(
        repo_id: &str,
        revision: &str,
        trust_remote_code: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<HuggingFaceRepo, RepoError> {
        let folder = Path::new(repo_id);
        let (info, place) = if folder.is_dir() {
            let files = local::list(folder, local::FOLDER_DEPTH)?;
            let info = RepoInfo {
                files,
                ..RepoInfo::default()
            };
            (info, Place::Folder(folder.into()))
        } else {
            online(repo_id, revision, on_transfer)?
        };
        Ok(HuggingFaceRepo {
            repo_id: repo_id.into(),
            trust_remote_code,
            info,
            place,
        })
    }

    /// What it is called: `org/name`, or a path.
    pub fn repo_id(&self) -> &str {
        &self.repo_id
    }

    /// Where its files are.
    pub fn repo_type(&self) -> RepoType {
        match self.place {
            Place::Folder(_) => RepoType::Local,
            #[cfg(feature = "hub")]
            Place::Hub(_) => RepoType::Online,
        }
    }

    /// What the caller said about code in it; Wisp runs none in any case.
    pub fn trust_remote_code(&self) -> bool {
        self.trust_remote_code
    }

    /// What is known of it.
    pub fn info(&self) -> &RepoInfo {
        &self.info
    }

    fn find(&self, file: &str) -> Option<&RepoFile> {
        self.info.files.iter().find(|known| known.path == file)
    }

    /// True if it has the file.
    pub fn file_exists(&self, file: &str) -> bool {
        self.find(file).is_some()
    }

    /// A file's size in bytes, if it has the file.
    pub fn size_of(&self, file: &str) -> Option<u64> {
        Some(self.find(file)?.size)
    }

    /// The files with weights, by format.
    pub fn weight_files(&self) -> BTreeMap<WeightsFormat, Vec<String>> {
        let mut files: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for RepoFile { path, .. } in &self.info.files {
            if let Some(format) = WeightsFormat::of(path) {
                files.entry(format).or_default().push(path.clone());
            }
        }
        files
    }

    /// The formats that it has weights in.
    pub fn formats_available(&self) -> Vec<WeightsFormat> {
        self.weight_files().into_keys().collect()
    }

    /// A file's path on this machine, after it was downloaded if it was not there yet (or if
    /// `force` asks for it).
    ///
    /// # Errors
    ///
    /// If there is no such file, or it cannot be had whole.
    #[cfg_attr(
        not(feature = "hub"),
        allow(unused_variables, reason = "a folder's files are there")
    )]
    pub fn download(
        &self,
        file: &str,
        force: bool,
        on_transfer: OnTransfer<'_>,
    ) -> Result<PathBuf, RepoError> {
        let Some(known) = self.find(file) else {
            return Err(RepoError::NoFile {
                repo: self.repo_id.clone(),
                file: file.into(),
                there_are: self.weight_files().into_values().flatten().collect(),
            });
        };
        match &self.place {
            Place::Folder(folder) => Ok(folder.join(file)),
            #[cfg(feature = "hub")]
            Place::Hub(hub) => hub.download(&self.info, known, force, on_transfer),
        }
    }

    /// The encodings that it has weights in.
    ///
    /// # Errors
    ///
    /// If a file that tells them cannot be read.
    pub fn supported_encodings(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<SupportedEncoding>, RepoError> {
        let mut encodings = BTreeSet::new();
        for (format, files) in self.weight_files() {
            match format {
                WeightsFormat::Gguf => {
                    let told = files.iter().filter(|file| !is_later_part(file));
                    encodings.extend(told.filter_map(|file| self.gguf_encoding(file)));
                }
                WeightsFormat::Safetensors | WeightsFormat::PyTorch => {
                    encodings.extend(self.float_encodings(format, &files, on_transfer)?);
                }
            }
        }
        Ok(encodings.into_iter().collect())
    }

    /// A GGUF file's encoding, by its name, or by its tensors if it is on this machine.
    fn gguf_encoding(&self, file: &str) -> Option<SupportedEncoding> {
        SupportedEncoding::parse_from_file_name(file).or_else(|| match &self.place {
            Place::Folder(folder) => {
                SupportedEncoding::of(&Checkpoint::open(folder.join(file)).ok()?)
            }
            #[cfg(feature = "hub")]
            Place::Hub(_) => None,
        })
    }

    /// The encodings of files whose names tell none: as the hub says, as the first file's header
    /// says, or as `config.json` says.
    fn float_encodings(
        &self,
        format: WeightsFormat,
        files: &[String],
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<SupportedEncoding>, RepoError> {
        let known = |name: &String| SupportedEncoding::parse_from_file_name(name);
        if format == WeightsFormat::Safetensors {
            if !self.info.dtypes.is_empty() {
                return Ok(self.info.dtypes.iter().filter_map(known).collect());
            }
            if let (Place::Folder(folder), Some(first)) = (&self.place, files.first()) {
                let checkpoint = Checkpoint::open(folder.join(first))?;
                return Ok(SupportedEncoding::of(&checkpoint).into_iter().collect());
            }
        }
        if !self.file_exists("config.json") {
            return Ok(Vec::new());
        }
        let path = self.download("config.json", false, on_transfer)?;
        let text = std::fs::read_to_string(&path).map_err(|error| RepoError::io(&path, error))?;
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        let dtype = config.get("torch_dtype").or_else(|| config.get("dtype"));
        let name = dtype.and_then(Value::as_str).map(str::to_string);
        Ok(name.as_ref().and_then(known).into_iter().collect())
    }

    /// A file's encoding.
    ///
    /// # Errors
    ///
    /// If neither its name nor its repository tells it.
    pub fn encoding_for_file(
        &self,
        file: &str,
        on_transfer: OnTransfer<'_>,
    ) -> Result<SupportedEncoding, RepoError> {
        let found = match WeightsFormat::of(file) {
            Some(WeightsFormat::Gguf) => self.gguf_encoding(file),
            Some(format) => self
                .float_encodings(format, &[file.to_string()], on_transfer)?
                .first()
                .copied(),
            None => None,
        };
        found.ok_or_else(|| RepoError::UnknownEncoding {
            repo: self.repo_id.clone(),
            file: file.into(),
        })
    }

    /// The files with weights in an encoding, by format; if there are none, those in the alternate one.
    ///
    /// # Errors
    ///
    /// If a file that tells an encoding cannot be read.
    pub fn files_for_encoding(
        &self,
        encoding: SupportedEncoding,
        format: Option<WeightsFormat>,
        alternate: Option<SupportedEncoding>,
        on_transfer: OnTransfer<'_>,
    ) -> Result<BTreeMap<WeightsFormat, Vec<String>>, RepoError> {
        let mut found = BTreeMap::new();
        for (of, mut files) in self.weight_files() {
            if format.is_some_and(|format| format != of) {
                continue;
            }
            if of == WeightsFormat::Gguf {
                files.retain(|file| self.gguf_encoding(file) == Some(encoding));
            } else if !self
                .float_encodings(of, &files, on_transfer)?
                .contains(&encoding)
            {
                files.clear();
            }
            if !files.is_empty() {
                found.insert(of, files);
            }
        }
        match alternate {
            Some(alternate) if found.is_empty() => {
                self.files_for_encoding(alternate, format, None, on_transfer)
            }
            _ => Ok(found),
        }
    }
}

#[cfg(feature = "hub")]
fn online(
    repo_id: &str,
    revision: &str,
    on_transfer: OnTransfer<'_>,
) -> Result<(RepoInfo, Place), RepoError> {
    let (hub, info) = hub::Hub::open(repo_id, revision, on_transfer)?;
    Ok((info, Place::Hub(hub)))
}

#[cfg(not(feature = "hub"))]
fn online(repo_id: &str, _: &str, _: OnTransfer<'_>) -> Result<(RepoInfo, Place), RepoError> {
    Err(RepoError::NoHub {
        repo: repo_id.into(),
    })
}

/// True for the second and later parts of a model in several files.
pub fn is_later_part(file: &str) -> bool {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let Some((rest, count)) = stem.rsplit_once("-of-") else {
        return false;
    };
    let number = rest.rsplit('-').next().unwrap_or_default();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(count) && digits(number) && number.trim_start_matches('0') != "1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_their_numbers() {
        for (file, later) in [
            ("m-00001-of-00002.gguf", false),
            ("m-00002-of-00002.gguf", true),
            ("m.gguf", false),
            ("one-of-a-kind.gguf", false),
            ("a/model-00010-of-00012.safetensors", true),
        ] {
            assert_eq!(is_later_part(file), later, "{file}");
        }
    }
}
