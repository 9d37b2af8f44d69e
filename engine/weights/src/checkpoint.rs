//! A checkpoint: mapped files, a model in memory, or files that are read from elsewhere in pieces.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::encodings::swap_byte_order;
use super::gguf::Gguf;
use super::pytorch;
use super::remote::Remote;
use super::safetensors::Safetensors;
use super::{FormatError, StoredEncoding, TensorInfo, WeightError};
use wisp_types::BoxFuture;

/// Where weights come from: files, memory, or a network.
pub trait WeightSource: Send + Sync {
    /// All tensors.
    fn tensors(&self) -> &[TensorInfo];

    /// The tensor of a name.
    fn find(&self, name: &str) -> Option<&TensorInfo>;

    /// Bytes `range` of a tensor, little-endian, as its file has them otherwise.
    ///
    /// # Errors
    ///
    /// If there is no such tensor, the range is not inside it, or its source fails.
    fn read<'a>(
        &'a self,
        name: &'a str,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>>;

    /// Says that bytes `range` of a tensor were used and will hardly be needed again, so that the
    /// memory that they take can be freed. They can still be read.
    fn release(&self, _name: &str, _range: Range<u64>) {}
}

/// The bytes of one file.
pub enum FileBytes {
    /// Part of the program.
    Static(&'static [u8]),
    /// Read, fetched or made.
    Shared(Arc<[u8]>),
    /// A mapped file.
    #[cfg(not(target_arch = "wasm32"))]
    Mapped(memmap2::Mmap),
    /// Elsewhere: as a slice it is empty.
    Remote(Remote),
}

impl FileBytes {
    /// The file's length in bytes.
    fn file_len(&self) -> u64 {
        match self {
            FileBytes::Remote(remote) => remote.byte_len(),
            at_hand => at_hand.len() as u64,
        }
    }
}

impl std::ops::Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Static(bytes) => bytes,
            FileBytes::Shared(bytes) => bytes,
            #[cfg(not(target_arch = "wasm32"))]
            FileBytes::Mapped(map) => map,
            FileBytes::Remote(_) => &[],
        }
    }
}

impl From<&'static [u8]> for FileBytes {
    fn from(bytes: &'static [u8]) -> FileBytes {
        FileBytes::Static(bytes)
    }
}

impl From<Arc<[u8]>> for FileBytes {
    fn from(bytes: Arc<[u8]>) -> FileBytes {
        FileBytes::Shared(bytes)
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> FileBytes {
        FileBytes::Shared(bytes.into())
    }
}

/// One file of a checkpoint.
pub(super) struct File {
    /// Its name, for messages.
    pub name: String,
    pub bytes: FileBytes,
}

/// What describes a checkpoint besides its tensors.
#[derive(Clone, Debug)]
pub enum Header {
    /// A GGUF file's header; that of the first part if there are several. Its list of tensors is
    /// empty: the checkpoint has it.
    Gguf(Gguf),
    /// The texts in the safetensors files' `__metadata__`.
    Safetensors(HashMap<String, String>),
    /// PyTorch's files say nothing else.
    PyTorch,
}

/// A checkpoint: mapped files, a model in memory, or files that are read from elsewhere in pieces.
///
/// Of what is at hand nothing is copied: reading a tensor borrows the file's bytes, except from
/// big-endian files.
pub struct Checkpoint {
    header: Header,
    files: Vec<File>,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
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
    /// A checkpoint of one GGUF, safetensors or PyTorch file in memory; `name` stands in messages.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the bytes.
    pub fn from_bytes(
        name: impl Into<String>,
        bytes: impl Into<FileBytes>,
    ) -> Result<Checkpoint, WeightError> {
        let (name, bytes) = (name.into(), bytes.into());
        let file = File { name, bytes };
        if let Some(format) = plain_format(&file) {
            return Checkpoint::from_files(format, vec![file], None);
        }
        let gguf = parse_gguf(&file)?;
        let parts = super::split::part_count(&gguf, &file.name)?;
        if parts > 1 {
            return Err(WeightError::Parts {
                file: file.name,
                reason: format!("it is one of {parts} parts; open the checkpoint from its folder"),
            });
        }
        Checkpoint::from_gguf(vec![(file, gguf)], None)
    }

    /// Joins the parts of a GGUF checkpoint; the first has the metadata.
    pub(super) fn from_gguf(
        parts: Vec<(File, Gguf)>,
        directory: Option<PathBuf>,
    ) -> Result<Checkpoint, WeightError> {
        let mut header = None;
        let mut files = Vec::new();
        let mut tensors = Vec::new();
        for (index, (file, mut gguf)) in parts.into_iter().enumerate() {
            for mut tensor in std::mem::take(&mut gguf.tensors) {
                tensor.file = index;
                tensors.push(tensor);
            }
            header.get_or_insert(gguf);
            files.push(file);
        }
        let Some(header) = header else {
            return Err(no_files(directory));
        };
        Checkpoint::new(Header::Gguf(header), files, tensors, directory)
    }

    /// Joins the files of a checkpoint that has nothing but tensors.
    pub(super) fn from_files(
        format: PlainFormat,
        files: Vec<File>,
        directory: Option<PathBuf>,
    ) -> Result<Checkpoint, WeightError> {
        if files.is_empty() {
            return Err(no_files(directory));
        }
        let mut metadata = HashMap::new();
        let mut tensors = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let parsed = match format {
                PlainFormat::PyTorch => pytorch::parse(&file.bytes),
                PlainFormat::Safetensors => {
                    let len = Some(file.bytes.len() as u64);
                    Safetensors::parse(&file.bytes, len).map(|parsed| {
                        metadata.extend(parsed.metadata);
                        parsed.tensors
                    })
                }
            };
            for mut tensor in parsed.map_err(|error| error.in_file(&file.name))? {
                tensor.file = index;
                tensors.push(tensor);
            }
        }
        let header = match format {
            PlainFormat::PyTorch => Header::PyTorch,
            PlainFormat::Safetensors => Header::Safetensors(metadata),
        };
        Checkpoint::new(header, files, tensors, directory)
    }

    /// Joins safetensors files whose headers are read.
    pub(super) fn from_safetensors(
        parts: Vec<(File, Safetensors)>,
    ) -> Result<Checkpoint, WeightError> {
        let (mut metadata, mut files, mut tensors) = (HashMap::new(), Vec::new(), Vec::new());
        for (index, (file, header)) in parts.into_iter().enumerate() {
            metadata.extend(header.metadata);
            tensors.extend(header.tensors.into_iter().map(|mut tensor| {
                tensor.file = index;
                tensor
            }));
            files.push(file);
        }
        Checkpoint::new(Header::Safetensors(metadata), files, tensors, None)
    }

    fn new(
        header: Header,
        files: Vec<File>,
        tensors: Vec<TensorInfo>,
        directory: Option<PathBuf>,
    ) -> Result<Checkpoint, WeightError> {
        let mut by_name = HashMap::with_capacity(tensors.len());
        for (index, tensor) in tensors.iter().enumerate() {
            if by_name.insert(tensor.name.clone(), index).is_some() {
                return Err(FormatError::Duplicate {
                    what: "tensor",
                    name: tensor.name.clone(),
                }
                .in_file(&files[tensor.file].name));
            }
        }
        Ok(Checkpoint {
            header,
            files,
            tensors,
            by_name,
            directory,
        })
    }

    /// What describes the checkpoint besides its tensors.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The GGUF header, if the checkpoint is in GGUF.
    pub fn gguf(&self) -> Option<&Gguf> {
        match &self.header {
            Header::Gguf(gguf) => Some(gguf),
            Header::Safetensors(_) | Header::PyTorch => None,
        }
    }

    /// The folder that the checkpoint was opened from, or that its file is in: `config.json` and
    /// `tokenizer.json` stand there. `None` for a model in memory.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The names of the files, in the order in which [`TensorInfo::file`] counts them.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// Bytes of all files together.
    pub fn byte_len(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.file_len()).sum()
    }

    /// The tensor of a name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn require(&self, name: &str) -> Result<&TensorInfo, WeightError> {
        self.find(name)
            .ok_or_else(|| WeightError::MissingTensor { name: name.into() })
    }

    /// Bytes `range` of a tensor, like [`WeightSource::read`] but at once.
    ///
    /// # Errors
    ///
    /// If there is no such tensor, the range is not inside it, or it is in a remote file.
    pub fn bytes(&self, name: &str, range: Range<u64>) -> Result<Cow<'_, [u8]>, WeightError> {
        let tensor = self.require(name)?;
        let whole = tensor.whole_blocks(&range)?;
        let bytes = self
            .raw(tensor, &whole)
            .ok_or_else(|| tensor.outside(&range))?;
        Ok(tensor.in_order(Cow::Borrowed(bytes), whole.start, &range))
    }

    /// A tensor's bytes as they stand in its file; `None` if they are not in it, which the
    /// parsers rule out, or not at hand.
    fn raw(&self, tensor: &TensorInfo, range: &Range<u64>) -> Option<&[u8]> {
        let bytes = &self.files.get(tensor.file)?.bytes;
        if let FileBytes::Remote(remote) = bytes {
            let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
            return remote.kept(tensor, range);
        }
        let start = usize::try_from(tensor.offset.checked_add(range.start)?).ok()?;
        let end = usize::try_from(tensor.offset.checked_add(range.end)?).ok()?;
        bytes.get(start..end)
    }

    /// A remote file of the checkpoint.
    pub(super) fn remote_mut(&mut self, file: usize) -> Option<&mut Remote> {
        match &mut self.files.get_mut(file)?.bytes {
            FileBytes::Remote(remote) => Some(remote),
            _ => None,
        }
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
        if let Some(tensor) = self.find(name)
            && let Some(file) = self.files.get(tensor.file)
            && let FileBytes::Remote(remote) = &file.bytes
        {
            return Box::pin(async move {
                let whole = tensor.whole_blocks(&range)?;
                let bytes = remote.read(tensor, whole.clone()).await?;
                Ok(tensor.in_order(bytes, whole.start, &range))
            });
        }
        Box::pin(std::future::ready(self.bytes(name, range)))
    }

    #[cfg(unix)]
    fn release(&self, name: &str, range: Range<u64>) {
        if let Some(tensor) = self.find(name)
            && range.start <= range.end
            && range.end <= tensor.len
            && let Some(file) = self.files.get(tensor.file)
            && let FileBytes::Mapped(map) = &file.bytes
        {
            // Inside the file, because the tensor is.
            super::open::release(map, tensor.offset + range.start, range.end - range.start);
        }
    }
}

impl TensorInfo {
    /// The encoding by which bytes must be swapped when they are read, if they must.
    fn swapped_encoding(&self) -> Option<super::Encoding> {
        match self.stored {
            StoredEncoding::Supported(encoding) if self.big_endian => Some(encoding),
            _ => None,
        }
    }

    fn outside(&self, range: &Range<u64>) -> WeightError {
        WeightError::Range {
            tensor: self.name.clone(),
            start: range.start,
            end: range.end,
            len: self.len,
        }
    }

    /// What must be read for a range: numbers can only be swapped whole, so whole blocks are read
    /// and cut afterwards.
    fn whole_blocks(&self, range: &Range<u64>) -> Result<Range<u64>, WeightError> {
        if range.start > range.end || range.end > self.len {
            return Err(self.outside(range));
        }
        let Some(encoding) = self.swapped_encoding() else {
            return Ok(range.clone());
        };
        let block = encoding.file_block_bytes() as u64;
        Ok(range.start / block * block..range.end.div_ceil(block) * block)
    }

    /// The range of what was read from `start` on, little-endian.
    fn in_order<'a>(&self, bytes: Cow<'a, [u8]>, start: u64, range: &Range<u64>) -> Cow<'a, [u8]> {
        let Some(encoding) = self.swapped_encoding() else {
            return bytes;
        };
        let mut bytes = bytes.into_owned();
        swap_byte_order(encoding, &mut bytes);
        bytes.drain(..(range.start - start) as usize);
        bytes.truncate((range.end - range.start) as usize);
        Cow::Owned(bytes)
    }
}

/// A format of files that hold nothing but tensors; `config.json` stands beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainFormat {
    Safetensors,
    PyTorch,
}

/// Tells the formats apart by their first bytes, which are clear, and for the sake of good messages
/// by their names. `None` is GGUF.
pub(super) fn plain_format(file: &File) -> Option<PlainFormat> {
    let head = &file.bytes;
    let named = |endings: &[&str]| endings.iter().any(|ending| file.name.ends_with(ending));
    if head.starts_with(b"GGUF") {
        return None;
    }
    if named(&[".safetensors"]) {
        return Some(PlainFormat::Safetensors);
    }
    if pytorch::is_pytorch(head) || named(&[".bin", ".pt", ".pth"]) {
        return Some(PlainFormat::PyTorch);
    }
    let is_safetensors = Safetensors::header_bytes(head, None).is_ok();
    is_safetensors.then_some(PlainFormat::Safetensors)
}

pub(super) fn parse_gguf(file: &File) -> Result<Gguf, WeightError> {
    Gguf::parse(&file.bytes).map_err(|error| error.in_file(&file.name))
}

fn no_files(directory: Option<PathBuf>) -> WeightError {
    WeightError::NoCheckpoint {
        path: directory.unwrap_or_default().display().to_string(),
        found: "no files".into(),
    }
}
