//! Files since PyTorch 1.6: a zip archive with `data.pkl`, the storages as `data/KEY`, and `byteorder`.

use super::{interpreter, state_dict::Storages, values::Unpickled, zip};
use crate::error::PytorchError;

/// The longest pickle read, in bytes: that of a hundred thousand tensors. Published shards have far fewer.
pub(super) const MAX_PICKLE_BYTES: u64 = 32 << 20;

/// Reads the pickle of an archive and locates the storages.
pub(super) fn read(file: &[u8]) -> Result<(Storages, Unpickled), PytorchError> {
    let directory = zip::Directory::parse(file)?;
    let pickle = directory
        .names()
        .find(|name| *name == "data.pkl" || name.ends_with("/data.pkl"))
        .ok_or(PytorchError::NoPickle)?;
    let root = pickle.trim_end_matches("data.pkl").to_string();
    let entry = |name: &str| -> Result<Option<&[u8]>, PytorchError> {
        match directory.find(file, name)? {
            // `find` has checked that the entry is inside the file.
            Some(range) => Ok(file.get(range.start as usize..range.end as usize)),
            None => Ok(None),
        }
    };
    let big_endian = match entry(&format!("{root}byteorder"))? {
        None | Some(b"little") => false,
        Some(b"big") => true,
        Some(other) => {
            return Err(PytorchError::ByteOrder {
                found: String::from_utf8_lossy(other).chars().take(16).collect(),
            });
        }
    };
    let pickle = entry(&format!("{root}data.pkl"))?.ok_or(PytorchError::NoPickle)?;
    if pickle.len() as u64 > MAX_PICKLE_BYTES {
        return Err(PytorchError::TooLarge {
            what: "the pickle",
            found: pickle.len() as u64,
            most: MAX_PICKLE_BYTES,
        });
    }
    let (unpickled, _) = interpreter::load(pickle)?;
    let mut storages = Storages::new(big_endian);
    for storage in &unpickled.storages {
        if storages.contains(&storage.key) {
            continue;
        }
        let name = format!("{root}data/{}", storage.key);
        if let Some(range) = directory.find(file, &name)? {
            storages.insert(&storage.key, range);
        }
    }
    Ok((storages, unpickled))
}
