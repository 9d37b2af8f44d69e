//! Opening checkpoints from disk by mapping their files.

use std::path::{Path, PathBuf};

use wisp_files::{FileKind, read_small};

use super::{
    Checkpoint,
    assemble::{assemble, assemble_gguf, detect_format, parse_all, parse_gguf},
    auxiliary::is_auxiliary_file,
    gguf_parts::{self, PartName, is_later_part},
};
use crate::{
    error::WeightError,
    files::{File, map_file},
    gguf::Gguf,
    safetensors::SafetensorsIndex,
    source::WeightSource,
    weights_format::WeightsFormat,
};

/// The file names of one format in Hugging Face's layout.
struct Layout {
    format: WeightsFormat,
    /// A model in a single file.
    model: &'static str,
    /// The index of a model in several files.
    index: &'static str,
}

const SAFETENSORS: Layout = Layout {
    format: WeightsFormat::Safetensors,
    model: "model.safetensors",
    index: "model.safetensors.index.json",
};

const PYTORCH: Layout = Layout {
    format: WeightsFormat::PyTorch,
    model: "pytorch_model.bin",
    index: "pytorch_model.bin.index.json",
};

impl Checkpoint {
    /// Opens a checkpoint from disk: a `.gguf` file (any part of one in several), a `.safetensors` file, a
    /// PyTorch file, or a folder.
    ///
    /// In a folder the first of these is opened: `model.safetensors` or its index, the only GGUF
    /// checkpoint, `pytorch_model.bin` or its index, the only safetensors file, the only PyTorch file.
    ///
    /// Files are mapped, so nobody may change them while the checkpoint exists. A file that was cut is noticed when a
    /// tensor is read, but the system ends a process whose file is cut during the reading itself. Replacing a file, as
    /// downloads and conversions do, is safe: the old one stays as long as it is mapped.
    ///
    /// # Errors
    ///
    /// If the path holds no checkpoint or several, or a file cannot be read or is unsound.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, WeightError> {
        let path = path.as_ref();
        let metadata = std::fs::metadata(path).map_err(|source| io("open", path, source))?;
        if metadata.is_dir() {
            return open_directory(path);
        }
        let file = map_file(path)?;
        match detect_format(&file) {
            WeightsFormat::Gguf => open_gguf(path, file),
            format => parse_all(format, vec![file], &parent_folder(path)),
        }
    }

    /// Opens a checkpoint from the list of its files: one that [`Self::open`] takes, all parts of a GGUF
    /// checkpoint, or several safetensors or PyTorch files with different tensors.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_files(paths: &[impl AsRef<Path>]) -> Result<Checkpoint, WeightError> {
        let Some(first) = paths.first().map(AsRef::as_ref) else {
            return assemble(Vec::new(), None);
        };
        // The first part of a GGUF checkpoint finds the others.
        let is_gguf = first
            .extension()
            .is_some_and(|extension| extension == "gguf");
        if paths.len() == 1 || is_gguf {
            return Checkpoint::open(first);
        }
        let files = paths.iter().map(|path| map_file(path.as_ref()));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let format = match detect_format(&files[0]) {
            WeightsFormat::PyTorch => WeightsFormat::PyTorch,
            WeightsFormat::Gguf | WeightsFormat::Safetensors => WeightsFormat::Safetensors,
        };
        parse_all(format, files, &parent_folder(first))
    }
}

/// The folder that a file is in. The parent of a bare file name is the empty path, which stands for the
/// working folder.
fn parent_folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => PathBuf::from("."),
    }
}

fn open_directory(directory: &Path) -> Result<Checkpoint, WeightError> {
    if let Some(checkpoint) = open_layout(directory, &SAFETENSORS)? {
        return Ok(checkpoint);
    }
    let names = list(directory)?;
    // A `.gguf` file is a whole model, whereas other safetensors and PyTorch files may be adapters.
    if let Some(checkpoint) = open_only(directory, &names, WeightsFormat::Gguf)? {
        return Ok(checkpoint);
    }
    if let Some(checkpoint) = open_layout(directory, &PYTORCH)? {
        return Ok(checkpoint);
    }
    for format in [WeightsFormat::Safetensors, WeightsFormat::PyTorch] {
        if let Some(checkpoint) = open_only(directory, &names, format)? {
            return Ok(checkpoint);
        }
    }
    Err(WeightError::NoCheckpoint {
        path: directory.display().to_string(),
        found: "no checkpoint in this folder".into(),
    })
}

/// Opens a folder's model in a single file, or in those that its index names; `None` if it has neither.
fn open_layout(directory: &Path, layout: &Layout) -> Result<Option<Checkpoint>, WeightError> {
    let (model, index) = (directory.join(layout.model), directory.join(layout.index));
    if model.exists() {
        let file = map_file(&model)?;
        return parse_all(layout.format, vec![file], directory).map(Some);
    }
    if index.exists() {
        return open_index(layout.format, directory, &index).map(Some);
    }
    Ok(None)
}

/// Opens the only checkpoint of a format in a folder with these files; `None` if there is none.
fn open_only(
    directory: &Path,
    names: &[String],
    format: WeightsFormat,
) -> Result<Option<Checkpoint>, WeightError> {
    let candidates = names.iter().filter(|name| is_candidate(name, format));
    let mut candidates: Vec<&String> = candidates.collect();
    if candidates.len() > 1 {
        candidates.retain(|name| !is_auxiliary_file(&directory.join(name)));
    }
    match candidates.as_slice() {
        [] => Ok(None),
        [name] => Checkpoint::open(directory.join(name)).map(Some),
        several => Err(WeightError::Ambiguous {
            path: directory.display().to_string(),
            files: several.iter().map(|name| name.to_string()).collect(),
        }),
    }
}

/// Returns true for the files of a format that may be checkpoints: the first part of one in several parts, but
/// not the settings that trainers save beside the model.
fn is_candidate(name: &str, format: WeightsFormat) -> bool {
    WeightsFormat::of(name) == Some(format) && !is_later_part(name) && name != "training_args.bin"
}

/// Returns the names of the files in a folder, sorted.
fn list(directory: &Path) -> Result<Vec<String>, WeightError> {
    let mut names = Vec::new();
    let entries = std::fs::read_dir(directory).map_err(|source| io("list", directory, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| io("list", directory, source))?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// Opens the files that an index names, and checks that each has the tensors that the index says.
fn open_index(
    format: WeightsFormat,
    directory: &Path,
    path: &Path,
) -> Result<Checkpoint, WeightError> {
    let name = path.display().to_string();
    let json = read_small(path, FileKind::Index).map_err(|source| io("read", path, source))?;
    let index = SafetensorsIndex::parse(&name, &json)?;
    let files = index.files.iter();
    let files = files.map(|file| map_file(&directory.join(file)));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let checkpoint = parse_all(format, files, directory)?;
    for (tensor, &file) in &index.weight_map {
        if checkpoint.find(tensor).map(|info| info.file) != Some(file) {
            return Err(WeightError::Index {
                file: name,
                // Every position in the map is that of a file in the list.
                reason: format!(
                    "tensor `{}` is not in `{}`, as the index says; download the model again",
                    tensor.escape_debug(),
                    index.files[file].escape_debug()
                ),
            });
        }
    }
    Ok(checkpoint)
}

/// Opens a GGUF file, with the other parts if it is one of several.
fn open_gguf(path: &Path, file: File) -> Result<Checkpoint, WeightError> {
    let directory = Some(parent_folder(path));
    let gguf = parse_gguf(&file)?;
    let count = gguf_parts::part_count(&gguf, &file.name)?;
    if count == 1 {
        return assemble_gguf(vec![(file, gguf)], directory);
    }
    let file_name = path.file_name().and_then(|name| name.to_str());
    let name = gguf_parts::require_part_name(file_name, &file.name, count)?;
    gguf_parts::check_part(&gguf, &file.name, &name)?;
    let mut opened = Some((file, gguf));
    let mut parts = Vec::new();
    for number in 1..=name.count {
        parts.push(match opened.take_if(|_| number == name.number) {
            Some(part) => part,
            None => open_part(path, &name.part(number))?,
        });
    }
    assemble_gguf(parts, directory)
}

/// Opens another part of the checkpoint that the part at `path` belongs to.
fn open_part(path: &Path, name: &PartName) -> Result<(File, Gguf), WeightError> {
    let file = map_file(&path.with_file_name(name.file_name()))?;
    let gguf = parse_gguf(&file)?;
    gguf_parts::check_part(&gguf, &file.name, name)?;
    Ok((file, gguf))
}

fn io(doing: &'static str, path: &Path, source: std::io::Error) -> WeightError {
    WeightError::Io {
        doing,
        path: path.display().to_string(),
        source,
    }
}
