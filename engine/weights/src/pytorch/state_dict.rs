//! From an unpickled dict to tensors, every one checked against the file.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::PytorchError;
use super::objects::{Id, Object, Pickled, Tensor};
use crate::{StoredEncoding, TensorInfo};
use wisp_types::Encoding;

/// Under which names training programs put the state dict beside other things.
const WRAPPERS: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];

/// Where a file has its storages.
#[derive(Debug)]
pub(super) struct Archive {
    big_endian: bool,
    storages: HashMap<String, Range<u64>>,
}

impl Archive {
    pub fn new(big_endian: bool) -> Archive {
        Archive {
            big_endian,
            storages: HashMap::new(),
        }
    }

    /// True if the storage's place is known.
    pub fn has(&self, key: &str) -> bool {
        self.storages.contains_key(key)
    }

    /// Says where a storage's bytes stand; they must be inside the file.
    pub fn insert(&mut self, key: &str, bytes: Range<u64>) {
        self.storages.insert(key.into(), bytes);
    }
}

/// The tensors of a state dict, which may stand under a name of its own in another dict.
///
/// # Errors
///
/// If there is no such dict, or a tensor is not in the file as a plain array.
pub(super) fn tensors(
    archive: &Archive,
    pickled: Pickled,
) -> Result<Vec<TensorInfo>, PytorchError> {
    let named = |id: Id| -> Vec<(&str, &Tensor)> {
        let Object::Dict(items) = pickled.get(id) else {
            return Vec::new();
        };
        let tensors = items.iter().filter_map(|&(key, value)| {
            let &Object::Tensor(place) = pickled.get(value) else {
                return None;
            };
            Some((pickled.text(key)?, pickled.tensors.get(place as usize)?))
        });
        tensors.collect()
    };
    let mut found = named(pickled.root);
    if let (true, Object::Dict(items)) = (found.is_empty(), pickled.get(pickled.root)) {
        let inner = |wrapper: &&str| {
            let is_it = |&&(key, _): &&(Id, Id)| pickled.text(key) == Some(wrapper);
            let &(_, value) = items.iter().find(is_it)?;
            Some(named(value)).filter(|tensors| !tensors.is_empty())
        };
        found = WRAPPERS.iter().find_map(inner).unwrap_or_default();
    }
    if found.is_empty() {
        return Err(PytorchError::NoStateDict {
            found: pickled.get(pickled.root).kind(),
        });
    }
    let mut seen = HashSet::new();
    let mut all = Vec::with_capacity(found.len());
    for (name, tensor) in found {
        if !seen.insert(name) {
            return Err(PytorchError::Twice {
                tensor: name.into(),
            });
        }
        let problem = |problem: String| PytorchError::Tensor {
            tensor: name.into(),
            problem,
        };
        all.push(place(archive, &pickled, name, tensor).map_err(problem)?);
    }
    Ok(all)
}

/// Finds a tensor's bytes.
fn place(
    archive: &Archive,
    pickled: &Pickled,
    name: &str,
    tensor: &Tensor,
) -> Result<TensorInfo, String> {
    let too_large = || format!("the shape {:?} is too large", tensor.shape);
    let storage = pickled.storages.get(tensor.storage as usize);
    let storage = storage.ok_or("it has no storage")?;
    let bytes = archive
        .storages
        .get(&storage.key)
        .ok_or_else(|| format!("its storage {:?} is not in the file", storage.key))?;
    check_strides(tensor)?;
    let elements = tensor
        .shape
        .iter()
        .try_fold(1u64, |n, &size| n.checked_mul(size));
    let len = elements.and_then(|n| n.checked_mul(tensor.dtype.bytes));
    let len = len.ok_or_else(too_large)?;
    let skipped = tensor.offset.checked_mul(tensor.dtype.bytes);
    let end = skipped.and_then(|skipped| skipped.checked_add(len));
    let (skipped, end) = skipped.zip(end).ok_or_else(too_large)?;
    let unit = storage.dtype.map_or(1, |dtype| dtype.bytes);
    let available = bytes.end - bytes.start;
    if storage.len.checked_mul(unit) != Some(available) {
        return Err(format!(
            "its storage {:?} has {available} bytes; expected {} of {unit}",
            storage.key, storage.len
        ));
    }
    if end > available {
        return Err(format!(
            "it ends at byte {end} of its storage {:?}, which has {available}",
            storage.key
        ));
    }
    Ok(TensorInfo {
        name: name.into(),
        stored: stored(tensor.dtype.name),
        shape: tensor.shape.clone(),
        file: 0,
        offset: bytes.start + skipped,
        len,
        big_endian: archive.big_endian,
    })
}

/// Checks that the elements stand one after the other. How far apart the parts of a dimension with
/// one part are means nothing, nor does anything where there are no elements.
fn check_strides(tensor: &Tensor) -> Result<(), String> {
    let mut expected = 1u64;
    let mut contiguous = tensor.shape.len() == tensor.strides.len();
    for (&size, &stride) in tensor.shape.iter().zip(&tensor.strides).rev() {
        contiguous &= size == 1 || stride == expected;
        expected = expected.saturating_mul(size);
    }
    if contiguous || expected == 0 {
        return Ok(());
    }
    Err(format!(
        "its elements, of shape {:?}, stand {:?} apart, as after a transposition; save it again after .contiguous()",
        tensor.shape, tensor.strides
    ))
}

fn stored(name: &'static str) -> StoredEncoding {
    match name {
        "F32" => StoredEncoding::Supported(Encoding::F32),
        "F16" => StoredEncoding::Supported(Encoding::F16),
        "BF16" => StoredEncoding::Supported(Encoding::BF16),
        other => StoredEncoding::Unsupported(other),
    }
}
