//! PyTorch's checkpoints: what `torch.save` writes of a state dict.
//!
//! Such a file is a zip archive with a pickle and the storages' bytes beside it, or, from before
//! PyTorch 1.6, a row of pickles with the bytes behind them. A pickle is a program for a machine that
//! may call whatever it names. The one here knows the few instructions and names that a state dict
//! needs, none of which does anything but put values together; all else is an error that says what
//! was asked for. Nothing is copied: tensors are read where they stand in the file.

mod error;
mod legacy;
mod objects;
mod opcodes;
mod state_dict;
mod unpickle;
mod zip;

pub use error::PytorchError;

use super::TensorInfo;
use super::error::FormatError;
use state_dict::{Archive, tensors};

/// The longest pickle read: a hundred thousand tensors, which published shards are far from.
const MAX_PICKLE_BYTES: u64 = 32 << 20;

/// True if the first bytes are those of a file of `torch.save`.
pub fn is_pytorch(head: &[u8]) -> bool {
    head.starts_with(zip::MAGIC) || head.starts_with(legacy::MAGIC)
}

/// The tensors of the state dict that a file holds, in the order of the dict.
///
/// # Errors
///
/// Whatever is wrong with the file, and whatever it holds that is no state dict.
pub fn parse(file: &[u8]) -> Result<Vec<TensorInfo>, FormatError> {
    let (archive, dict) = if file.starts_with(legacy::MAGIC) {
        legacy::read(file)?
    } else if file.starts_with(zip::MAGIC) {
        read_zip(file)?
    } else {
        return Err(FormatError::NotThisFormat {
            expected: "PyTorch",
            found: super::sniff::looks_like(file),
        });
    };
    Ok(tensors(&archive, dict)?)
}

/// A little-endian number; its low 64 bits, if it has more.
fn little_endian(bytes: &[u8]) -> u64 {
    let low = bytes.iter().take(8).rev();
    low.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Reads the pickle of a zip archive.
fn read_zip(file: &[u8]) -> Result<(Archive, objects::Pickled), PytorchError> {
    let directory = zip::Directory::parse(file)?;
    let pickle = directory
        .names()
        .find(|name| *name == "data.pkl" || name.ends_with("/data.pkl"))
        .ok_or(PytorchError::NoPickle)?;
    let root = pickle.trim_end_matches("data.pkl").to_string();
    let bytes = |name: &str| -> Result<Option<&[u8]>, PytorchError> {
        match directory.find(file, name)? {
            // `find` has checked that the entry lies inside the file.
            Some(range) => Ok(file.get(range.start as usize..range.end as usize)),
            None => Ok(None),
        }
    };
    let big_endian = match bytes(&format!("{root}byteorder"))? {
        None | Some(b"little") => false,
        Some(b"big") => true,
        Some(other) => {
            return Err(PytorchError::ByteOrder {
                found: String::from_utf8_lossy(other).chars().take(16).collect(),
            });
        }
    };
    let pickle = bytes(&format!("{root}data.pkl"))?.ok_or(PytorchError::NoPickle)?;
    if pickle.len() as u64 > MAX_PICKLE_BYTES {
        return Err(PytorchError::TooLarge {
            what: "the pickle",
            found: pickle.len() as u64,
            most: MAX_PICKLE_BYTES,
        });
    }
    let (dict, _) = unpickle::load(pickle)?;
    let mut archive = Archive::new(big_endian);
    for storage in &dict.storages {
        if archive.has(&storage.key) {
            continue;
        }
        let name = format!("{root}data/{}", storage.key);
        if let Some(range) = directory.find(file, &name)? {
            archive.insert(&storage.key, range);
        }
    }
    Ok((archive, dict))
}
