//! The encodings in which a repository has weights, and the files of each.
//!
//! These methods belong to MAX's `HuggingFaceRepo` and need what only the repository knows: the
//! names of its files, what the hub says about them, and `config.json`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wisp_files::{FileKind, read_small_text};
use wisp_weights::{Checkpoint, SupportedEncoding, WeightsFormat, is_later_part};

use crate::{
    error::RepoError,
    repository::{HuggingFaceRepo, Source},
    transfer::OnTransfer,
};

impl HuggingFaceRepo {
    /// Returns the encodings in which the repository has weights.
    ///
    /// # Errors
    ///
    /// If a checkpoint or `config.json` that names an encoding cannot be read.
    pub fn supported_encodings(
        &self,
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<SupportedEncoding>, RepoError> {
        let mut encodings = BTreeSet::new();
        for (format, files) in self.weight_files() {
            match format {
                WeightsFormat::Gguf => {
                    let models = files.iter().filter(|file| !is_later_part(file));
                    encodings.extend(models.filter_map(|file| self.gguf_encoding(file)));
                }
                WeightsFormat::Safetensors | WeightsFormat::PyTorch => {
                    encodings.extend(self.float_encodings(format, &files, on_transfer)?);
                }
            }
        }
        Ok(encodings.into_iter().collect())
    }

    /// Returns a file's encoding.
    ///
    /// # Errors
    ///
    /// If neither the file's name nor the repository says which encoding it has.
    pub fn encoding_for_file(
        &self,
        file: &str,
        on_transfer: OnTransfer<'_>,
    ) -> Result<SupportedEncoding, RepoError> {
        let found = match WeightsFormat::of(file) {
            Some(WeightsFormat::Gguf) => self.gguf_encoding(file),
            Some(format) => {
                let encodings = self.float_encodings(format, &[file.to_string()], on_transfer)?;
                encodings.first().copied()
            }
            None => None,
        };
        found.ok_or_else(|| RepoError::UnknownEncoding {
            repo: self.repo_id().into(),
            file: file.into(),
        })
    }

    /// Returns the files with weights in `encoding`, by format; if there are none, those in
    /// `alternate`. `format` leaves out all other formats.
    ///
    /// # Errors
    ///
    /// If a checkpoint or `config.json` that names an encoding cannot be read.
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
            } else {
                let encodings = self.float_encodings(of, &files, on_transfer)?;
                if !encodings.contains(&encoding) {
                    files.clear();
                }
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

    /// Returns a GGUF file's encoding from its name, or from its tensors if it is in a folder.
    fn gguf_encoding(&self, file: &str) -> Option<SupportedEncoding> {
        SupportedEncoding::parse_from_file_name(file).or_else(|| match self.source() {
            Source::Folder(folder) => {
                SupportedEncoding::of(&Checkpoint::open(folder.join(file)).ok()?)
            }
            #[cfg(feature = "hub")]
            Source::Online(_) => None,
        })
    }

    /// Returns the encodings of files whose names do not tell them: from the hub, from the first
    /// file's header or from `config.json`.
    fn float_encodings(
        &self,
        format: WeightsFormat,
        files: &[String],
        on_transfer: OnTransfer<'_>,
    ) -> Result<Vec<SupportedEncoding>, RepoError> {
        let by_name = |name: &String| SupportedEncoding::parse_from_file_name(name);
        if format == WeightsFormat::Safetensors {
            let dtypes = &self.info().dtypes;
            if !dtypes.is_empty() {
                return Ok(dtypes.iter().filter_map(by_name).collect());
            }
            if let (Source::Folder(folder), Some(first)) = (self.source(), files.first()) {
                let checkpoint = Checkpoint::open(folder.join(first))?;
                return Ok(SupportedEncoding::of(&checkpoint).into_iter().collect());
            }
        }
        if !self.file_exists("config.json") {
            return Ok(Vec::new());
        }
        let path = self.download("config.json", false, on_transfer)?;
        let text = read_small_text(&path, FileKind::Config);
        let text = text.map_err(|error| RepoError::io(&path, error))?;
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        let dtype = config.get("torch_dtype").or_else(|| config.get("dtype"));
        let name = dtype.and_then(Value::as_str).map(str::to_string);
        Ok(name.as_ref().and_then(by_name).into_iter().collect())
    }
}
