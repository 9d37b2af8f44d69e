//! Joining the parsed files of a checkpoint.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::{collections::HashMap, path::PathBuf};

use super::{Checkpoint, Header, gguf_parts};
use crate::{
    error::{FormatError, WeightError},
    files::{File, FileBytes},
    gguf::Gguf,
    pytorch,
    safetensors::Safetensors,
    tensor::TensorInfo,
    weights_format::WeightsFormat,
};

/// The parsed header of one file.
pub(super) enum FileHeader {
    Gguf(Gguf),
    Safetensors(Safetensors),
    PyTorch(Vec<TensorInfo>),
}

impl FileHeader {
    fn take_tensors(&mut self) -> Vec<TensorInfo> {
        std::mem::take(match self {
            FileHeader::Gguf(gguf) => &mut gguf.tensors,
            FileHeader::Safetensors(header) => &mut header.tensors,
            FileHeader::PyTorch(tensors) => tensors,
        })
    }
}

impl Checkpoint {
    /// Parses one GGUF, safetensors or PyTorch file in memory. `name` is the file's name, whose extension
    /// helps to tell its format and which messages use.
    ///
    /// # Errors
    ///
    /// If the file is unsound, or one of several parts of a checkpoint.
    pub fn from_bytes(
        name: impl Into<String>,
        bytes: impl Into<FileBytes>,
    ) -> Result<Checkpoint, WeightError> {
        let (name, bytes) = (name.into(), bytes.into());
        let file = File { name, bytes };
        let format = detect_format(&file);
        let header = parse(format, &file)?;
        if let FileHeader::Gguf(gguf) = &header {
            let parts = gguf_parts::part_count(gguf, &file.name)?;
            if parts > 1 {
                return Err(WeightError::Parts {
                    file: file.name,
                    reason: format!(
                        "it is one of {parts} parts; open the checkpoint from its folder"
                    ),
                });
            }
        }
        assemble(vec![(file, header)], None)
    }
}

/// Tells the format of a file by its first bytes, and where they do not say, by its name, so that messages
/// speak of the format that the user expects.
pub(super) fn detect_format(file: &File) -> WeightsFormat {
    let head = file.bytes.as_slice();
    if head.starts_with(b"GGUF") {
        return WeightsFormat::Gguf;
    }
    let named = WeightsFormat::of(&file.name);
    if named == Some(WeightsFormat::Safetensors) {
        return WeightsFormat::Safetensors;
    }
    if pytorch::is_pytorch(head) || named == Some(WeightsFormat::PyTorch) {
        return WeightsFormat::PyTorch;
    }
    match Safetensors::header_bytes(head, None) {
        Ok(_) => WeightsFormat::Safetensors,
        Err(_) => WeightsFormat::Gguf,
    }
}

/// Parses the header of a file that is in memory.
fn parse(format: WeightsFormat, file: &File) -> Result<FileHeader, WeightError> {
    let bytes = file.bytes.as_slice();
    let header = match format {
        WeightsFormat::Gguf => return parse_gguf(file).map(FileHeader::Gguf),
        WeightsFormat::Safetensors => {
            Safetensors::parse(bytes, Some(bytes.len() as u64)).map(FileHeader::Safetensors)
        }
        WeightsFormat::PyTorch => pytorch::parse(bytes).map(FileHeader::PyTorch),
    };
    header.map_err(|error| error.in_file(&file.name))
}

/// Parses the header of a GGUF file that is in memory.
pub(super) fn parse_gguf(file: &File) -> Result<Gguf, WeightError> {
    Gguf::parse(file.bytes.as_slice()).map_err(|error| error.in_file(&file.name))
}

/// Parses files of one format and joins them.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn parse_all(
    format: WeightsFormat,
    files: Vec<File>,
    directory: &Path,
) -> Result<Checkpoint, WeightError> {
    let parts = files.into_iter().map(|file| {
        let header = parse(format, &file)?;
        Ok((file, header))
    });
    let parts = parts.collect::<Result<_, WeightError>>()?;
    assemble(parts, Some(directory.into()))
}

/// Joins the parts of a GGUF checkpoint, in their order.
///
/// # Errors
///
/// As [`assemble`], and if the first of several parts says another number of tensors than they have.
pub(super) fn assemble_gguf(
    parts: Vec<(File, Gguf)>,
    directory: Option<PathBuf>,
) -> Result<Checkpoint, WeightError> {
    if let [(file, first), _, ..] = parts.as_slice() {
        let tensors = parts.iter().map(|(_, gguf)| gguf.tensors.len()).sum();
        gguf_parts::check_tensor_count(first, &file.name, tensors)?;
    }
    let parts = parts.into_iter();
    let parts = parts.map(|(file, gguf)| (file, FileHeader::Gguf(gguf)));
    assemble(parts.collect(), directory)
}

/// Joins the parts of a checkpoint, which are in one format. In GGUF the first part has the metadata.
///
/// # Errors
///
/// If there are no parts, two have tensors of the same name, or a scale does not fit its tensor.
pub(super) fn assemble(
    parts: Vec<(File, FileHeader)>,
    directory: Option<PathBuf>,
) -> Result<Checkpoint, WeightError> {
    let mut joined = None;
    let (mut files, mut tensors) = (Vec::new(), Vec::new());
    for (index, (file, mut header)) in parts.into_iter().enumerate() {
        tensors.extend(header.take_tensors().into_iter().map(|mut tensor| {
            tensor.file = index;
            tensor
        }));
        files.push(file);
        match (&mut joined, header) {
            (None, FileHeader::Gguf(gguf)) => joined = Some(Header::Gguf(gguf)),
            (None, FileHeader::Safetensors(header)) => {
                joined = Some(Header::Safetensors(header.metadata));
            }
            (None, FileHeader::PyTorch(_)) => joined = Some(Header::PyTorch),
            (Some(Header::Safetensors(metadata)), FileHeader::Safetensors(header)) => {
                metadata.extend(header.metadata);
            }
            (Some(_), _) => {}
        }
    }
    let Some(header) = joined else {
        return Err(WeightError::NoCheckpoint {
            path: directory.unwrap_or_default().display().to_string(),
            found: "no files".into(),
        });
    };
    let mut checkpoint = Checkpoint {
        by_name: index_by_name(&files, &tensors)?,
        header,
        files,
        tensors,
        joined: HashMap::new(),
        directory,
    };
    if checkpoint.gguf().is_some() {
        checkpoint.join_ggml_nvfp4()?;
    }
    Ok(checkpoint)
}

pub(super) fn index_by_name(
    files: &[File],
    tensors: &[TensorInfo],
) -> Result<HashMap<String, usize>, WeightError> {
    let mut by_name = HashMap::with_capacity(tensors.len());
    for (index, tensor) in tensors.iter().enumerate() {
        if by_name.insert(tensor.name.clone(), index).is_some() {
            let duplicate = FormatError::Duplicate {
                what: "tensor",
                name: tensor.name.clone(),
            };
            return Err(duplicate.in_file(&files[tensor.file].name));
        }
    }
    Ok(by_name)
}
