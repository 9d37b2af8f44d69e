//! Checkpoints whose bytes are not at hand: on a network, or in a browser's storage.

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::Arc};

use super::{
    TensorInfo, WeightError, WeightSource,
    checkpoint::{Checkpoint, File, FileBytes, Header},
    gguf::{Gguf, GgufReader, Limits, Progress},
    safetensors::Safetensors,
    split,
};
use wisp_types::BoxFuture;

/// Bytes of a file that are fetched at a time while its header is read.
const HEAD_BYTES: u64 = 1 << 20;

/// A file that is read in pieces, each when it is needed.
pub trait RemoteFile: Send + Sync {
    /// What it is called, also for messages.
    fn name(&self) -> String;

    /// Its length in bytes.
    fn byte_len(&self) -> u64;

    /// Bytes `range` of it, exactly as many.
    ///
    /// # Errors
    ///
    /// If they cannot be had.
    fn read(&self, range: Range<u64>) -> BoxFuture<'_, Result<Vec<u8>, WeightError>>;
}

/// A remote file, and the tensors of it that say how the model computes: they are at hand.
pub struct Remote {
    file: Arc<dyn RemoteFile>,
    kept: BTreeMap<u64, Vec<u8>>,
}

impl Remote {
    /// Bytes of the file.
    pub(super) fn byte_len(&self) -> u64 {
        self.file.byte_len()
    }

    /// Bytes of a tensor that was kept.
    pub(super) fn kept(&self, tensor: &TensorInfo, range: Range<usize>) -> Option<&[u8]> {
        self.kept.get(&tensor.offset)?.get(range)
    }

    /// Bytes of a tensor as they stand in the file.
    pub(super) async fn read(
        &self,
        tensor: &TensorInfo,
        range: Range<u64>,
    ) -> Result<Cow<'_, [u8]>, WeightError> {
        let outside = || WeightError::Range {
            tensor: tensor.name.clone(),
            start: range.start,
            end: range.end,
            len: tensor.len,
        };
        let start = tensor.offset.checked_add(range.start).ok_or_else(outside)?;
        let end = tensor.offset.checked_add(range.end).ok_or_else(outside)?;
        Ok(Cow::Owned(read(&*self.file, start..end).await?))
    }
}

impl Checkpoint {
    /// Opens a checkpoint of remote files: one in GGUF or all parts of one, or safetensors files whose
    /// tensors belong together. Only the headers are read, and what else describes the model.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is unsound, or the files do not belong together.
    pub async fn open_remote(files: Vec<Arc<dyn RemoteFile>>) -> Result<Checkpoint, WeightError> {
        let is_safetensors = |file: &Arc<dyn RemoteFile>| file.name().ends_with(".safetensors");
        let mut checkpoint = if !files.is_empty() && files.iter().all(is_safetensors) {
            open_safetensors(files).await?
        } else {
            open_gguf(files).await?
        };
        keep(&mut checkpoint).await?;
        Ok(checkpoint)
    }
}

/// Reads a range, and checks that all of it came.
async fn read(file: &dyn RemoteFile, range: Range<u64>) -> Result<Vec<u8>, WeightError> {
    let wanted = range.end.saturating_sub(range.start);
    let bytes = file.read(range).await?;
    if bytes.len() as u64 != wanted {
        return Err(WeightError::Io {
            doing: "read",
            path: file.name(),
            source: std::io::ErrorKind::UnexpectedEof.into(),
        });
    }
    Ok(bytes)
}

fn remote(file: Arc<dyn RemoteFile>) -> File {
    File {
        name: file.name(),
        bytes: FileBytes::Remote(Remote {
            file,
            kept: BTreeMap::new(),
        }),
    }
}

async fn gguf_header(file: &dyn RemoteFile) -> Result<Gguf, WeightError> {
    let len = file.byte_len();
    let mut reader = GgufReader::new(Limits {
        file_len: Some(len),
        ..Limits::default()
    });
    let mut at = 0;
    while at < len {
        let end = at.saturating_add(HEAD_BYTES).min(len);
        let bytes = read(file, at..end).await?;
        let progress = reader.push(&bytes);
        if let Progress::Done(gguf) = progress.map_err(|error| error.in_file(file.name()))? {
            return Ok(*gguf);
        }
        at = end;
    }
    Err(reader.truncated().in_file(file.name()))
}

async fn open_gguf(files: Vec<Arc<dyn RemoteFile>>) -> Result<Checkpoint, WeightError> {
    let mut parts = Vec::new();
    for file in files {
        let gguf = gguf_header(&*file).await?;
        parts.push((remote(file), gguf));
    }
    if let Some((first, gguf)) = parts.first() {
        let count = split::part_count(gguf, &first.name)?;
        if count as usize != parts.len() {
            return Err(WeightError::Parts {
                file: first.name.clone(),
                reason: format!("it is one of {count} parts, {} are given", parts.len()),
            });
        }
    }
    if parts.len() > 1 {
        for (file, gguf) in &parts {
            split::check_named_part(gguf, &file.name)?;
        }
        parts.sort_by_key(|(_, gguf)| gguf.get::<u32>("split.no").ok().flatten());
        let tensors = parts.iter().map(|(_, gguf)| gguf.tensors.len()).sum();
        if let Some((file, gguf)) = parts.first() {
            split::check_total(gguf, &file.name, tensors)?;
        }
    }
    Checkpoint::from_gguf(parts, None)
}

async fn open_safetensors(files: Vec<Arc<dyn RemoteFile>>) -> Result<Checkpoint, WeightError> {
    let mut parsed = Vec::new();
    for file in files {
        let len = file.byte_len();
        let head = read(&*file, 0..len.min(HEAD_BYTES)).await?;
        let in_file = |error: super::FormatError| error.in_file(file.name());
        let end = Safetensors::header_bytes(&head, Some(len)).map_err(in_file)?;
        let head = match end > head.len() as u64 {
            true => read(&*file, 0..end).await?,
            false => head,
        };
        let header = Safetensors::parse(&head, Some(len)).map_err(in_file)?;
        parsed.push((remote(file), header));
    }
    Checkpoint::from_safetensors(parsed)
}

/// Fetches the tensors that are read before there is a device: GGUF's rotary factors.
async fn keep(checkpoint: &mut Checkpoint) -> Result<(), WeightError> {
    if !matches!(checkpoint.header(), Header::Gguf(_)) {
        return Ok(());
    }
    let wanted: Vec<TensorInfo> = checkpoint
        .tensors()
        .iter()
        .filter(|tensor| tensor.name.starts_with("rope_") && tensor.shape.len() == 1)
        .cloned()
        .collect();
    for tensor in wanted {
        if let Some(remote) = checkpoint.remote_mut(tensor.file) {
            let bytes = remote.read(&tensor, 0..tensor.len).await?.into_owned();
            remote.kept.insert(tensor.offset, bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct InMemory(&'static str, &'static [u8]);

    impl RemoteFile for InMemory {
        fn name(&self) -> String {
            self.0.into()
        }

        fn byte_len(&self) -> u64 {
            self.1.len() as u64
        }

        fn read(&self, range: Range<u64>) -> BoxFuture<'_, Result<Vec<u8>, WeightError>> {
            // A file that ends early gives what it has.
            let end = (range.end as usize).min(self.1.len());
            let bytes = self.1.get(range.start as usize..end).unwrap_or_default();
            Box::pin(std::future::ready(Ok(bytes.to_vec())))
        }
    }

    fn open(files: Vec<InMemory>) -> Result<Checkpoint, WeightError> {
        let remote = |file| Arc::new(file) as Arc<dyn RemoteFile>;
        pollster::block_on(Checkpoint::open_remote(
            files.into_iter().map(remote).collect(),
        ))
    }

    const TINY: &[u8] = include_bytes!("../../../native-demo/model/wisp-tiny.gguf");
    const FILES: [(&str, &[u8]); 4] = [
        ("wisp-tiny.gguf", TINY),
        (
            "v3.gguf",
            include_bytes!("../../../tests/fuzz/corpus/gguf/v3.gguf"),
        ),
        (
            "big-endian.gguf",
            include_bytes!("../../../tests/fuzz/corpus/gguf/big-endian.gguf"),
        ),
        (
            "tiny.safetensors",
            include_bytes!("../../../tests/fuzz/corpus/safetensors/tiny.safetensors"),
        ),
    ];

    #[test]
    fn the_same_as_in_memory() {
        for (name, bytes) in FILES {
            let remote = open(vec![InMemory(name, bytes)]).unwrap();
            let local = Checkpoint::from_bytes(name, bytes).unwrap();
            assert_eq!(remote.tensors(), local.tensors(), "{name}");
            assert_eq!(remote.byte_len(), local.byte_len());
            for tensor in local.tensors() {
                for range in [0..tensor.len, tensor.len / 3..tensor.len / 2] {
                    let read = pollster::block_on(remote.read(&tensor.name, range.clone()));
                    let expected = local.bytes(&tensor.name, range).unwrap();
                    assert_eq!(read.unwrap(), expected, "{name}: {}", tensor.name);
                }
                let beyond = remote.read(&tensor.name, 0..tensor.len + 1);
                assert!(pollster::block_on(beyond).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_checkpoint_is_refused() {
        let cases: [(&str, &[u8], &str); 4] = [
            ("x.gguf", b"<!doctype html><html>", "web page"),
            ("x.gguf", b"", "empty"),
            ("x.gguf", &TINY[..5000], "ends"),
            ("x.safetensors", b"<html>", "web page"),
        ];
        for (name, bytes, word) in cases {
            let error = open(vec![InMemory(name, bytes)]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let twice = vec![InMemory("a.gguf", TINY), InMemory("b.gguf", TINY)];
        let error = open(twice).unwrap_err().to_string();
        assert!(error.contains("2 are given"), "{error}");
    }
}
