//! Checkpoints: the tensors of one or several files, and what describes the model besides them.

mod assemble;
#[cfg(not(target_arch = "wasm32"))]
mod auxiliary;
mod big_endian;
mod file_part;
mod gguf_parts;
mod matrix_rows;
#[cfg(not(target_arch = "wasm32"))]
mod open;
mod open_remote;
mod quantized;

#[cfg(not(target_arch = "wasm32"))]
pub use auxiliary::{is_auxiliary_file, is_auxiliary_name};

pub use gguf_parts::is_later_part;
pub use matrix_rows::MatrixRows;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use wisp_types::BoxFuture;

use crate::{
    encodings,
    error::WeightError,
    files::File,
    gguf::Gguf,
    quantized::JoinedTensor,
    source::{WeightSource, require},
    tensor::TensorInfo,
    weights_format::WeightsFormat,
};

/// The metadata of a checkpoint: what its files say besides their tensors.
#[derive(Clone, Debug)]
pub enum Header {
    /// The header of a GGUF file; that of the first part if there are several. Its list of tensors is
    /// empty: the checkpoint has it.
    Gguf(Gguf),
    /// The texts under `__metadata__` in the safetensors files.
    Safetensors(HashMap<String, String>),
    /// PyTorch's files say nothing else.
    PyTorch,
}

/// A checkpoint: the tensors of GGUF, safetensors or PyTorch files.
///
/// The files are mapped, in memory, or remote, in which case they are read in pieces. Reading a tensor
/// copies nothing if its file is mapped or in memory, except from big-endian files.
pub struct Checkpoint {
    header: Header,
    files: Vec<File>,
    tensors: Vec<TensorInfo>,
    /// The index of each tensor, by name.
    by_name: HashMap<String, usize>,
    /// The tensors that consist of several of the files', by name.
    joined: HashMap<String, JoinedTensor>,
    directory: Option<PathBuf>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("files", &self.file_names().collect::<Vec<_>>())
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// Returns the metadata.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the format of the files.
    pub fn format(&self) -> WeightsFormat {
        match self.header {
            Header::Gguf(_) => WeightsFormat::Gguf,
            Header::Safetensors(_) => WeightsFormat::Safetensors,
            Header::PyTorch => WeightsFormat::PyTorch,
        }
    }

    /// Returns the GGUF header, if the checkpoint is in GGUF.
    pub fn gguf(&self) -> Option<&Gguf> {
        match &self.header {
            Header::Gguf(gguf) => Some(gguf),
            Header::Safetensors(_) | Header::PyTorch => None,
        }
    }

    /// Returns the folder that the checkpoint was opened from, or that its file is in, where `config.json`
    /// and `tokenizer.json` are expected; `None` if the checkpoint was not opened from disk.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Iterates over the names of the files, in the order of [`TensorInfo::file`].
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// Returns the total size of the files in bytes.
    pub fn byte_len(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.byte_len()).sum()
    }

    /// Returns the description of the tensor with this name.
    ///
    /// # Errors
    ///
    /// If the checkpoint does not have it.
    pub fn require(&self, name: &str) -> Result<&TensorInfo, WeightError> {
        require(self, name)
    }

    /// Gives a tensor another name. Nothing changes if there is no tensor `from`, or one is called `to` already.
    pub fn rename(&mut self, from: &str, to: &str) {
        if self.by_name.contains_key(to) {
            return;
        }
        let Some(index) = self.by_name.remove(from) else {
            return;
        };
        if let Some(tensor) = self.tensors.get_mut(index) {
            tensor.name = to.into();
            self.by_name.insert(to.into(), index);
        }
    }

    /// Reads the bytes `range` of a tensor as [`WeightSource::read`] does, but without waiting.
    ///
    /// # Errors
    ///
    /// If the checkpoint does not have the tensor, the range is not inside its data, or it is in a remote
    /// file (whose rotary factors are read ahead and so can be read here nevertheless).
    pub fn bytes(&self, name: &str, range: Range<u64>) -> Result<Cow<'_, [u8]>, WeightError> {
        let tensor = self.require(name)?;
        match self.joined.get(name) {
            Some(joined) => joined.bytes(self, range).map(Cow::Owned),
            None => self.part_bytes(tensor, &range),
        }
    }

    /// Decodes a whole tensor without waiting: its elements in their order.
    ///
    /// # Errors
    ///
    /// As [`Self::bytes`], and if Wisp does not compute with the tensor's encoding.
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>, WeightError> {
        let tensor = self.require(name)?;
        let encoding = tensor.encoding()?;
        let bytes = self.bytes(name, 0..tensor.len)?;
        let cols = tensor.shape.last().copied().unwrap_or(1);
        let elements: u64 = tensor.shape.iter().product();
        let rows = elements.checked_div(cols).unwrap_or(0);
        let values = encodings::dequantize(encoding, &bytes, rows as usize, cols as usize);
        values.map_err(|_| WeightError::Shape {
            tensor: name.into(),
            shape: tensor.shape.clone(),
            encoding,
        })
    }

    /// Reads the bytes `range` of a tensor of the files without waiting.
    fn part_bytes(
        &self,
        tensor: &TensorInfo,
        range: &Range<u64>,
    ) -> Result<Cow<'_, [u8]>, WeightError> {
        let Some(file) = self.files.get(tensor.file) else {
            return Err(tensor.out_of_range(range));
        };
        file.check_length()?;
        file.part(tensor, range)
    }
}

impl WeightSource for Checkpoint {
    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(*self.by_name.get(name)?)
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>> {
        Box::pin(async move {
            match self.joined.get(name) {
                Some(joined) => joined.read(self, range).await.map(Cow::Owned),
                None => self.read_part(self.require(name)?, range).await,
            }
        })
    }

    fn column_order(&self, name: &str) -> Option<Arc<[u32]>> {
        self.joined.get(name)?.column_order().cloned()
    }

    fn release(&self, name: &str, range: Range<u64>) {
        match (self.joined.get(name), self.find(name)) {
            (Some(joined), _) => joined.release(self, &range),
            (None, Some(tensor)) => self.release_part(tensor, range),
            (None, None) => {}
        }
    }
}
