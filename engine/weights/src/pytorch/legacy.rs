//! Files from before PyTorch 1.6: a row of pickles (a magic number, the format's version, the
//! machine's properties, the state dict, the storages' names) and the storages behind them, each
//! with the number of its elements.

use std::collections::HashMap;

use super::objects::{Object, Pickled};
use super::state_dict::Archive;
use super::{MAX_PICKLE_BYTES, PytorchError, unpickle};

/// The magic number's pickle.
pub(super) const MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// Reads a file that begins with [`MAGIC`].
pub(super) fn read(file: &[u8]) -> Result<(Archive, Pickled), PytorchError> {
    let mut at = MAGIC.len();
    let mut next = || -> Result<(Pickled, usize), PytorchError> {
        let rest = file.get(at..).unwrap_or_default();
        let most = rest.len().min(MAX_PICKLE_BYTES as usize);
        let (pickled, len) = unpickle::load(&rest[..most])?;
        at += len;
        Ok((pickled, at))
    };
    let (_version, _) = next()?;
    // The machine's byte order is told, but storages are always written little-endian.
    let (_machine, _) = next()?;
    let (dict, _) = next()?;
    let (keys, mut at) = next()?;
    let Object::List(order) = keys.get(keys.root) else {
        return Err(PytorchError::NoStateDict {
            found: "no list of storages",
        });
    };
    let known = dict
        .storages
        .iter()
        .map(|storage| (storage.key.as_str(), storage));
    let known: HashMap<_, _> = known.collect();
    let mut archive = Archive::new(false);
    for &key in order {
        let storage = keys.text(key).and_then(|key| known.get(key));
        let cut = PytorchError::Truncated {
            at: file.len() as u64,
            inside: "the storages",
        };
        let Some(storage) = storage else {
            return Err(PytorchError::Forbidden {
                at: at as u64,
                problem: "it has a storage that no tensor is part of",
            });
        };
        let count = file.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let count = count.map(|count| u64::from_le_bytes(*count));
        let unit = storage.dtype.map_or(1, |dtype| dtype.bytes);
        let len = count.and_then(|count| count.checked_mul(unit));
        let start = at + 8;
        let end = len
            .and_then(|len| usize::try_from(len).ok())
            .and_then(|len| start.checked_add(len))
            .filter(|&end| end <= file.len());
        let Some(end) = end else {
            return Err(cut);
        };
        archive.insert(&storage.key, start as u64..end as u64);
        at = end;
    }
    Ok((archive, dict))
}
