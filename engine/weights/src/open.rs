//! Opens checkpoints from disk by mapping their files.

use std::path::{Path, PathBuf};

use super::checkpoint::{Checkpoint, File, FileBytes, PlainFormat, parse_gguf, plain_format};
use super::safetensors::SafetensorsIndex;
use super::split::{self, PartName};
use super::{WeightError, WeightSource};

/// The longest index read: a hundred bytes a tensor, a million tensors.
const MAX_INDEX_BYTES: u64 = 100 << 20;

/// What the whole model and the index of its parts are called in Hugging Face's layout.
const LAYOUTS: [(PlainFormat, &str, &str); 2] = [
    (
        PlainFormat::Safetensors,
        "model.safetensors",
        "model.safetensors.index.json",
    ),
    (
        PlainFormat::PyTorch,
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
    ),
];

impl Checkpoint {
    /// Opens a `.gguf` file (any part of one in several), a `.safetensors` file, a PyTorch file, or a
    /// folder with `model.safetensors`, its index, one GGUF checkpoint, or `pytorch_model.bin` or its
    /// index, in this order.
    ///
    /// The files are mapped, so they must not be changed while the checkpoint lives.
    ///
    /// # Errors
    ///
    /// If the path holds no checkpoint or several, or a file cannot be read or is unsound.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, WeightError> {
        let path = path.as_ref();
        let kind = std::fs::metadata(path).map_err(|source| io("open", path, source))?;
        if kind.is_dir() {
            return open_directory(path);
        }
        let file = map(path)?;
        // The parent of a bare file name is the empty path, which means the working folder.
        let directory = path.parent().map(|parent| match parent.as_os_str().len() {
            0 => PathBuf::from("."),
            _ => parent.into(),
        });
        if let Some(format) = plain_format(&file) {
            return Checkpoint::from_files(format, vec![file], directory);
        }
        open_gguf(path, file, directory)
    }
}

impl Checkpoint {
    /// Opens a checkpoint by all of its files: any one that [`Self::open`] takes, all parts of one in
    /// GGUF, or several safetensors or PyTorch files whose tensors belong together.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_files(paths: &[impl AsRef<Path>]) -> Result<Checkpoint, WeightError> {
        let Some(first) = paths.first().map(AsRef::as_ref) else {
            return Checkpoint::from_files(PlainFormat::Safetensors, Vec::new(), None);
        };
        // The first part of a GGUF checkpoint finds the others.
        let is_gguf = first
            .extension()
            .is_some_and(|extension| extension == "gguf");
        if paths.len() == 1 || is_gguf {
            return Checkpoint::open(first);
        }
        let files = paths.iter().map(|path| map(path.as_ref()));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let format = files.first().and_then(plain_format);
        let format = format.unwrap_or(PlainFormat::Safetensors);
        Checkpoint::from_files(format, files, first.parent().map(Into::into))
    }
}

fn open_directory(directory: &Path) -> Result<Checkpoint, WeightError> {
    let [safetensors, pytorch] = LAYOUTS;
    if let Some(checkpoint) = open_layout(directory, safetensors) {
        return checkpoint;
    }
    let names = list(directory)?;
    // A `.gguf` is a whole model; other safetensors and PyTorch files may be adapters or parts.
    for endings in [&[".gguf"][..], &[".safetensors"], &[".bin", ".pt", ".pth"]] {
        if endings != [".gguf"]
            && let Some(checkpoint) = open_layout(directory, pytorch)
        {
            return checkpoint;
        }
        let candidates: Vec<&String> = names
            .iter()
            .filter(|name| is_candidate(name, endings))
            .collect();
        match candidates.as_slice() {
            [] => {}
            [one] => return Checkpoint::open(directory.join(one)),
            several => {
                return Err(WeightError::Ambiguous {
                    path: directory.display().to_string(),
                    files: several.iter().map(|name| name.to_string()).collect(),
                });
            }
        }
    }
    Err(WeightError::NoCheckpoint {
        path: directory.display().to_string(),
        found: "no checkpoint in this folder".into(),
    })
}

/// Opens a folder's whole model or the parts that its index names; `None` if it has neither.
fn open_layout(
    directory: &Path,
    (format, whole, index): (PlainFormat, &str, &str),
) -> Option<Result<Checkpoint, WeightError>> {
    let (whole, index) = (directory.join(whole), directory.join(index));
    if whole.is_file() {
        let file = map(&whole);
        return Some(
            file.and_then(|file| {
                Checkpoint::from_files(format, vec![file], Some(directory.into()))
            }),
        );
    }
    let is_there = index.is_file();
    is_there.then(|| open_index(format, directory, &index))
}

/// True for the files with such an ending that make a checkpoint; of one in several files, for the
/// first. A trainer's arguments are no weights.
fn is_candidate(name: &str, endings: &[&str]) -> bool {
    let later = PartName::parse(name).is_some_and(|part| part.number > 1);
    endings.iter().any(|ending| name.ends_with(ending)) && !later && name != "training_args.bin"
}

/// The file names in a folder, sorted.
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

fn open_index(
    format: PlainFormat,
    directory: &Path,
    path: &Path,
) -> Result<Checkpoint, WeightError> {
    let name = path.display().to_string();
    let len = std::fs::metadata(path)
        .map_err(|source| io("open", path, source))?
        .len();
    if len > MAX_INDEX_BYTES {
        return Err(WeightError::Index {
            file: name,
            reason: format!("it is {len} bytes long; expected at most {MAX_INDEX_BYTES}"),
        });
    }
    let json = std::fs::read(path).map_err(|source| io("open", path, source))?;
    let index = SafetensorsIndex::parse(&name, &json)?;
    let files = index.files.iter().map(|file| map(&directory.join(file)));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let checkpoint = Checkpoint::from_files(format, files, Some(directory.into()))?;
    for (tensor, &file) in &index.weight_map {
        if checkpoint.find(tensor).map(|info| info.file) != Some(file) {
            return Err(WeightError::Index {
                file: name,
                // Every position in the map is one of a file in the list.
                reason: format!(
                    "tensor `{}` is not in `{}`, where the index has it; download it again",
                    tensor.escape_debug(),
                    index.files[file].escape_debug()
                ),
            });
        }
    }
    Ok(checkpoint)
}

fn open_gguf(
    path: &Path,
    file: File,
    directory: Option<PathBuf>,
) -> Result<Checkpoint, WeightError> {
    let gguf = parse_gguf(&file)?;
    let count = split::part_count(&gguf, &file.name)?;
    if count == 1 {
        return Checkpoint::from_gguf(vec![(file, gguf)], directory);
    }
    let file_name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = file_name.and_then(PartName::parse) else {
        return Err(WeightError::Parts {
            file: file.name,
            reason: format!(
                "it is one of {count} parts; expected a name like NAME-00001-of-{count:05}.gguf"
            ),
        });
    };
    split::check_part(&gguf, &file.name, &name)?;
    let mut own = Some((file, gguf));
    let mut parts = Vec::new();
    for number in 1..=name.count {
        let part = match own.take_if(|_| number == name.number) {
            Some(part) => part,
            None => {
                let file = map(&path.with_file_name(name.part(number)))?;
                let gguf = parse_gguf(&file)?;
                let name = PartName {
                    number,
                    ..name.clone()
                };
                split::check_part(&gguf, &file.name, &name)?;
                (file, gguf)
            }
        };
        parts.push(part);
    }
    let tensors = parts.iter().map(|(_, gguf)| gguf.tensors.len()).sum();
    if let Some((file, gguf)) = parts.first() {
        split::check_total(gguf, &file.name, tensors)?;
    }
    Checkpoint::from_gguf(parts, directory)
}

/// Maps a file into memory.
fn map(path: &Path) -> Result<File, WeightError> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|source| io("open", path, source))?;
    let metadata = file.metadata().map_err(|source| io("open", path, source))?;
    if !metadata.is_file() {
        return Err(WeightError::NoCheckpoint {
            path: name,
            found: "not a regular file".into(),
        });
    }
    // An empty file cannot be mapped everywhere; the parsers say what is wrong with it.
    if metadata.len() == 0 {
        let bytes = FileBytes::Static(&[]);
        return Ok(File { name, bytes });
    }
    // SAFETY: the map is only read. Another process that changes the file meanwhile would break
    // the promise that shared slices do not change; `open`'s documentation forbids this, as every
    // program that maps its files must.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|source| io("map", path, source))?;
    let bytes = FileBytes::Mapped(map);
    Ok(File { name, bytes })
}

/// Lets the system take back the pages of a part of a map.
///
/// Failure only means that the memory stays in use, so it is no error.
#[cfg(unix)]
pub(super) fn release(map: &memmap2::Mmap, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) else {
        return;
    };
    if offset.checked_add(len).is_none_or(|end| end > map.len()) {
        return;
    }
    // SAFETY: the map is a shared, read-only one of a file. Pages that are given back are filled
    // from the file again when they are next read, with the same bytes, so whoever still borrows
    // them sees no change.
    let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, len) };
}

fn io(doing: &'static str, path: &Path, source: std::io::Error) -> WeightError {
    WeightError::Io {
        doing,
        path: path.display().to_string(),
        source,
    }
}
