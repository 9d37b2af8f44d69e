//! Files from before PyTorch 1.6: a sequence of pickles (a magic number, the format's version, the
//! machine's properties, the state dict, the keys of the storages) and the storages behind them, each
//! preceded by the number of its elements.

use std::collections::HashMap;

use super::{
    archive::MAX_PICKLE_BYTES,
    interpreter,
    state_dict::Storages,
    values::{Unpickled, Value},
};
use crate::error::PytorchError;

/// The pickle of the magic number.
pub(super) const MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// Reads the pickles of a file that begins with [`MAGIC`] and locates the storages.
pub(super) fn read(file: &[u8]) -> Result<(Storages, Unpickled), PytorchError> {
    let mut at = MAGIC.len();
    let mut next = || -> Result<(Unpickled, usize), PytorchError> {
        let rest = file.get(at..).unwrap_or_default();
        let most = rest.len().min(MAX_PICKLE_BYTES as usize);
        let (unpickled, len) = interpreter::load(&rest[..most])?;
        at += len;
        Ok((unpickled, at))
    };
    let (_version, _) = next()?;
    // The machine's properties have its byte order, but storages are always little-endian.
    let (_machine, _) = next()?;
    let (dict, _) = next()?;
    let (keys, data) = next()?;
    let storages = locate_storages(file, data, &keys, &dict)?;
    Ok((storages, dict))
}

/// Locates the storages, which begin at `at` in the order of `keys`.
fn locate_storages(
    file: &[u8],
    mut at: usize,
    keys: &Unpickled,
    dict: &Unpickled,
) -> Result<Storages, PytorchError> {
    let Value::List(order) = keys.get(keys.root) else {
        return Err(PytorchError::NoStateDict {
            found: "no list of storages",
        });
    };
    let known = dict.storages.iter();
    let known: HashMap<_, _> = known
        .map(|storage| (storage.key.as_str(), storage))
        .collect();
    let mut storages = Storages::new(false);
    for &key in order {
        let Some(storage) = keys.text(key).and_then(|key| known.get(key)) else {
            return Err(PytorchError::Forbidden {
                at: at as u64,
                problem: "has a storage that no tensor uses",
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
            .filter(|&end| end <= file.len())
            .ok_or(PytorchError::Truncated {
                at: file.len() as u64,
                inside: "the storages",
            })?;
        storages.insert(&storage.key, start as u64..end as u64);
        at = end;
    }
    Ok(storages)
}
