//! Opening checkpoints whose files are remote: only their headers are read.

use std::sync::Arc;

use super::{
    Checkpoint,
    assemble::{FileHeader, assemble, assemble_gguf},
    gguf_parts,
};
use crate::{
    error::{FormatError, WeightError},
    files::{File, FileBytes, RemoteBytes, RemoteFile, read_exact},
    gguf::{Gguf, GgufReader, Limits, Progress},
    quantized,
    safetensors::Safetensors,
    tensor::TensorInfo,
};

/// The number of bytes that are requested at a time while a header is read.
const CHUNK_BYTES: u64 = 1 << 20;

impl Checkpoint {
    /// Opens a checkpoint of remote files: one GGUF file, all parts of a GGUF checkpoint in any order, or
    /// safetensors files with different tensors.
    ///
    /// Only the headers are read, and the tensors that are needed before a session reads the weights.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is unsound, or the files do not belong together.
    pub async fn open_remote(files: Vec<Arc<dyn RemoteFile>>) -> Result<Checkpoint, WeightError> {
        let is_safetensors = |file: &Arc<dyn RemoteFile>| file.name().ends_with(".safetensors");
        let mut checkpoint = match !files.is_empty() && files.iter().all(is_safetensors) {
            true => open_safetensors(files).await?,
            false => open_gguf(files).await?,
        };
        prefetch(&mut checkpoint).await?;
        Ok(checkpoint)
    }
}

fn remote(file: Arc<dyn RemoteFile>) -> File {
    File {
        name: file.name(),
        bytes: FileBytes::remote(RemoteBytes::new(file)),
    }
}

async fn gguf_header(file: &dyn RemoteFile) -> Result<Gguf, WeightError> {
    let len = file.byte_len();
    let mut reader = GgufReader::new(Limits {
        file_len: Some(len),
        ..Limits::default()
    });
    let mut start = 0;
    while start < len {
        let end = start.saturating_add(CHUNK_BYTES).min(len);
        let bytes = read_exact(file, start..end).await?;
        let progress = reader.push(&bytes);
        if let Progress::Done(gguf) = progress.map_err(|error| error.in_file(file.name()))? {
            return Ok(*gguf);
        }
        start = end;
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
        let count = gguf_parts::part_count(gguf, &first.name)?;
        if count as usize != parts.len() {
            return Err(WeightError::Parts {
                file: first.name.clone(),
                reason: format!("it is one of {count} parts, but {} are given", parts.len()),
            });
        }
    }
    if parts.len() > 1 {
        for (file, gguf) in &parts {
            let count = gguf_parts::part_count(gguf, &file.name)?;
            let name = gguf_parts::require_part_name(Some(&file.name), &file.name, count)?;
            gguf_parts::check_part(gguf, &file.name, &name)?;
        }
        parts.sort_by_key(|(_, gguf)| gguf.get::<u32>("split.no").ok().flatten());
    }
    assemble_gguf(parts, None)
}

async fn open_safetensors(files: Vec<Arc<dyn RemoteFile>>) -> Result<Checkpoint, WeightError> {
    let mut parts = Vec::new();
    for file in files {
        let len = file.byte_len();
        let head = read_exact(&*file, 0..len.min(CHUNK_BYTES)).await?;
        let in_file = |error: FormatError| error.in_file(file.name());
        let end = Safetensors::header_bytes(&head, Some(len)).map_err(in_file)?;
        let head = match end > head.len() as u64 {
            true => read_exact(&*file, 0..end).await?,
            false => head,
        };
        let header = Safetensors::parse(&head, Some(len)).map_err(in_file)?;
        parts.push((remote(file), FileHeader::Safetensors(header)));
    }
    assemble(parts, None)
}

/// Reads the tensors ahead that are needed to describe the model: GGUF's factors of the rotary embedding, and what
/// describes quantised matrices.
async fn prefetch(checkpoint: &mut Checkpoint) -> Result<(), WeightError> {
    let is_needed = |tensor: &&TensorInfo| {
        let is_rope_factor = tensor.name.starts_with("rope_");
        tensor.shape.len() == 1 && (is_rope_factor || quantized::is_read_ahead(&tensor.name))
    };
    for tensor in checkpoint.tensors.iter().filter(is_needed) {
        let file = checkpoint.files.get_mut(tensor.file);
        if let Some(remote) = file.and_then(|file| file.bytes.as_remote_mut()) {
            remote.prefetch(tensor).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use wisp_types::BoxFuture;

    use super::*;
    use crate::source::WeightSource;

    struct InMemory(&'static str, &'static [u8]);

    impl RemoteFile for InMemory {
        fn name(&self) -> String {
            self.0.into()
        }

        fn byte_len(&self) -> u64 {
            self.1.len() as u64
        }

        fn read(&self, range: Range<u64>) -> BoxFuture<'_, Result<Vec<u8>, WeightError>> {
            // Reading beyond the end returns the bytes before it.
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

    const TINY: &[u8] = include_bytes!("../../../../native-demo/model/wisp-tiny.gguf");
    const FILES: [(&str, &[u8]); 4] = [
        ("wisp-tiny.gguf", TINY),
        (
            "v3.gguf",
            include_bytes!("../../../../tests/fuzz/corpus/gguf/v3.gguf"),
        ),
        (
            "big-endian.gguf",
            include_bytes!("../../../../tests/fuzz/corpus/gguf/big-endian.gguf"),
        ),
        (
            "tiny.safetensors",
            include_bytes!("../../../../tests/fuzz/corpus/safetensors/tiny.safetensors"),
        ),
    ];

    #[test]
    fn remote_checkpoints_equal_those_in_memory() {
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
    fn files_that_are_not_checkpoints_are_refused() {
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
