//! The guard of files that commands write: no input is replaced, and no file that is something else than what the
//! command writes.

use std::{
    fs::{self, File, Metadata},
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use wisp_engine::{OpenModel, pipelines::PipelineConfig};

use crate::commands::STDIN;

/// The contents of a file that a command writes.
#[derive(Clone, Copy)]
pub enum Contents {
    /// A safetensors file with only the tensor `logits`.
    Logits,
    /// A trace for Perfetto.
    Trace,
    /// A page of the manual.
    ManPage,
    /// The results of `wisp tune` as JSON.
    Tuning,
    /// A model, which replaces another file only with `--force`.
    Model,
    /// The answers of `wisp batch`, to which it appends.
    Answers,
    /// Compiled programs. The engine replaces no other file with them.
    Compiled,
}

/// The number of bytes at the start of a file that tell what it holds.
const HEAD_BYTES: u64 = 4096;

/// The start of an answer of `wisp batch`.
const ANSWER: &[u8] = b"{\"id\":\"batch_req_";

/// The depth of the folders of a model that are searched for its files.
const DEPTH: usize = 3;

impl Contents {
    /// Returns whether a file with this start may be replaced.
    fn may_replace(self, head: &[u8]) -> bool {
        match self {
            Contents::Logits => is_logits(head),
            Contents::Trace => head.starts_with(b"{\"traceEvents\""),
            Contents::Tuning => head.starts_with(b"{\"format\":") && contains(head, "\"tuning\":"),
            Contents::ManPage => contains(head, ".TH wisp"),
            // The first line may have been cut off.
            Contents::Answers => head.starts_with(ANSWER) || ANSWER.starts_with(head),
            Contents::Model | Contents::Compiled => true,
        }
    }
}

/// Returns whether the start of a file has this text.
fn contains(head: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(head).contains(text)
}

/// Returns whether a file is in safetensors and holds only the tensor `logits`.
fn is_logits(head: &[u8]) -> bool {
    let Some((length, header)) = head.split_first_chunk() else {
        return false;
    };
    let header = usize::try_from(u64::from_le_bytes(*length))
        .ok()
        .and_then(|length| header.get(..length));
    let header = header.and_then(|header| serde_json::from_slice(header).ok());
    let tensors: Option<serde_json::Map<_, serde_json::Value>> = header;
    tensors.is_some_and(|tensors| tensors.keys().eq(["logits"]))
}

/// The files that a command reads or writes besides the one to check.
pub struct Inputs {
    paths: Vec<PathBuf>,
}

impl Inputs {
    /// Returns none, for a command that reads no file.
    pub fn none() -> Inputs {
        Inputs { paths: Vec::new() }
    }

    /// Returns the files of a model, of its adapters and of its compiled programs.
    pub fn of(config: &PipelineConfig, open: &OpenModel) -> Inputs {
        let mut inputs = Inputs::none();
        let named = config.huggingface_repo_id.iter().chain(&config.weight_path);
        let adapters = config.adapters().map(|(_, path)| path);
        let texts = named.chain(&config.serialized_model_path);
        for path in texts.map(String::as_str).chain(adapters) {
            inputs.add(Path::new(path), DEPTH);
        }
        if let Some(files) = open.files() {
            // The names of files on disk are whole paths.
            for name in files.checkpoint.file_names() {
                inputs.add(Path::new(name), 0);
            }
            if let Some(folder) = &files.directory {
                inputs.add(folder, DEPTH);
            }
        }
        inputs
    }

    /// Adds another file that the command reads or writes, if there is one.
    pub fn with(mut self, path: Option<impl AsRef<Path>>) -> Inputs {
        self.paths
            .extend(path.map(|path| path.as_ref().to_path_buf()));
        self
    }

    /// Adds a file, or the files of a folder.
    fn add(&mut self, path: &Path, depth: usize) {
        if path.is_dir() && depth > 0 {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.for_each(|entry| self.add(&entry.path(), depth - 1));
        } else {
            self.paths.push(path.to_path_buf());
        }
    }

    /// Returns the input that is the same file, under whatever name.
    fn same(&self, path: &Path) -> Option<&Path> {
        let mut paths = self.paths.iter();
        let found = paths.find(|input| is_same(input, path));
        found.map(PathBuf::as_path)
    }
}

/// Checks that an output is not `-`, which stands for standard input and output elsewhere.
///
/// # Errors
///
/// If it is.
pub fn check_name(path: &Path) -> Result<()> {
    if path == Path::new(STDIN) {
        bail!("the output goes to a file and not to standard output: name a file instead of -");
    }
    Ok(())
}

/// Checks, before anything is computed, that a command may write a file.
///
/// # Errors
///
/// If it is `-`, an input, a folder, write-protected, a pipe that answers cannot be appended to, or a file that is something
/// else than the command writes.
pub fn check(path: &Path, contents: Contents, inputs: &Inputs) -> Result<()> {
    check_name(path)?;
    let shown = path.display();
    if let Some(input) = inputs.same(path) {
        match input == path {
            true => bail!(
                "{shown} is a file of the model or of this command: name another one to write"
            ),
            false => bail!(
                "{shown} is the same file as {}: name another one to write",
                input.display()
            ),
        }
    }
    let Ok(data) = fs::metadata(path) else {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        return match folder.filter(|folder| !folder.is_dir()) {
            Some(folder) => bail!(
                "cannot write {shown}: there is no folder {}",
                folder.display()
            ),
            None => Ok(()),
        };
    };
    if data.is_dir() {
        bail!("cannot write {shown}: it is a folder; name a file");
    }
    if !data.is_file() {
        if let Contents::Answers = contents {
            bail!("cannot write {shown}: answers are appended to a file, so name a file");
        }
        // A pipe or a device has no contents to lose.
        return Ok(());
    }
    if data.permissions().readonly() {
        bail!("cannot write {shown}: the file is write-protected");
    }
    let mut head = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let read = file.take(HEAD_BYTES).read_to_end(&mut head);
    read.with_context(|| format!("cannot read {shown}"))?;
    if !head.is_empty() && !contents.may_replace(&head) {
        bail!(
            "{shown} exists and was not written by this command: name another file, or delete it first"
        );
    }
    Ok(())
}

/// Returns whether two paths lead to the same file, through links too.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(data), Ok(others)) => is_same_file(one, &data, other, &others),
        // One that does not exist yet.
        _ => std::path::absolute(one).ok() == std::path::absolute(other).ok(),
    }
}

#[cfg(unix)]
fn is_same_file(_: &Path, data: &Metadata, _: &Path, others: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (data.dev(), data.ino()) == (others.dev(), others.ino())
}

#[cfg(not(unix))]
fn is_same_file(one: &Path, _: &Metadata, other: &Path, _: &Metadata) -> bool {
    fs::canonicalize(one).ok() == fs::canonicalize(other).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safetensors_with_nothing_but_logits_are_logits() {
        let file =
            |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        assert!(is_logits(&file(r#"{"logits":{"dtype":"F32"}}"#)));
        for other in [
            file(r#"{"logits":{},"weight":{}}"#),
            file(r#"{"weight":{}}"#),
            file("{}"),
            file("not JSON"),
            u64::MAX.to_le_bytes().to_vec(),
            b"GGUF".to_vec(),
            Vec::new(),
        ] {
            assert!(!is_logits(&other));
        }
    }
}
