//! The tensors of a state dict, each checked against the file.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use wisp_types::Encoding;

use super::values::{Id, Tensor, Unpickled, Value};
use crate::{
    error::PytorchError,
    tensor::{StoredEncoding, TensorInfo},
};

/// The keys under which training programs save the state dict beside other things.
const WRAPPERS: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];

/// The locations of storages in a file.
#[derive(Debug)]
pub(super) struct Storages {
    big_endian: bool,
    /// The bytes of each storage in the file, by key.
    bytes: HashMap<String, Range<u64>>,
}

impl Storages {
    pub fn new(big_endian: bool) -> Storages {
        Storages {
            big_endian,
            bytes: HashMap::new(),
        }
    }

    pub fn contains(&self, key: &str) -> bool {
        self.bytes.contains_key(key)
    }

    /// Adds the location of a storage, which must be inside the file.
    pub fn insert(&mut self, key: &str, bytes: Range<u64>) {
        self.bytes.insert(key.into(), bytes);
    }
}

/// Returns the tensors of a state dict, which may be the item of another dict.
///
/// # Errors
///
/// If there is no such dict, or a tensor is not a contiguous array inside the file.
pub(super) fn tensors(
    storages: &Storages,
    unpickled: Unpickled,
) -> Result<Vec<TensorInfo>, PytorchError> {
    let mut found = named_tensors(&unpickled, unpickled.root);
    if let (true, Value::Dict(items)) = (found.is_empty(), unpickled.get(unpickled.root)) {
        let unwrap = |wrapper: &&str| {
            let is_wrapper = |&&(key, _): &&(Id, Id)| unpickled.text(key) == Some(wrapper);
            let &(_, value) = items.iter().find(is_wrapper)?;
            Some(named_tensors(&unpickled, value)).filter(|tensors| !tensors.is_empty())
        };
        found = WRAPPERS.iter().find_map(unwrap).unwrap_or_default();
    }
    if found.is_empty() {
        return Err(PytorchError::NoStateDict {
            found: unpickled.get(unpickled.root).kind(),
        });
    }
    let mut names = HashSet::new();
    let mut all = Vec::with_capacity(found.len());
    for (name, tensor) in found {
        if !names.insert(name) {
            return Err(PytorchError::Duplicate {
                tensor: name.into(),
            });
        }
        let unusable = |problem: String| PytorchError::Tensor {
            tensor: name.into(),
            problem,
        };
        all.push(locate(storages, &unpickled, name, tensor).map_err(unusable)?);
    }
    Ok(all)
}

/// Returns those items of a dict that are tensors with names.
fn named_tensors(unpickled: &Unpickled, dict: Id) -> Vec<(&str, &Tensor)> {
    let Value::Dict(items) = unpickled.get(dict) else {
        return Vec::new();
    };
    let tensors = items.iter().filter_map(|&(key, value)| {
        let &Value::Tensor(index) = unpickled.get(value) else {
            return None;
        };
        Some((unpickled.text(key)?, unpickled.tensors.get(index as usize)?))
    });
    tensors.collect()
}

/// Computes the location of a tensor in the file.
fn locate(
    storages: &Storages,
    unpickled: &Unpickled,
    name: &str,
    tensor: &Tensor,
) -> Result<TensorInfo, String> {
    let too_large = || format!("the shape {:?} is too large", tensor.shape);
    let storage = unpickled.storages.get(tensor.storage as usize);
    let storage = storage.ok_or("it has no storage")?;
    let bytes = storages
        .bytes
        .get(&storage.key)
        .ok_or_else(|| format!("its storage {:?} is not in the file", storage.key))?;
    check_strides(tensor)?;
    let elements = tensor
        .shape
        .iter()
        .try_fold(1u64, |n, &size| n.checked_mul(size));
    let len = elements.and_then(|n| n.checked_mul(tensor.dtype.bytes));
    let len = len.ok_or_else(too_large)?;
    let offset = tensor.offset.checked_mul(tensor.dtype.bytes);
    let end = offset.and_then(|offset| offset.checked_add(len));
    let (offset, end) = offset.zip(end).ok_or_else(too_large)?;
    let unit = storage.dtype.map_or(1, |dtype| dtype.bytes);
    let available = bytes.end - bytes.start;
    if storage.len.checked_mul(unit) != Some(available) {
        return Err(format!(
            "its storage {:?} has {available} bytes; expected {} elements of {unit} bytes",
            storage.key, storage.len
        ));
    }
    if end > available {
        return Err(format!(
            "it ends at byte {end} of its storage {:?}, which has {available} bytes",
            storage.key
        ));
    }
    Ok(TensorInfo {
        name: name.into(),
        stored: stored_encoding(tensor.dtype.name),
        shape: tensor.shape.clone(),
        file: 0,
        offset: bytes.start + offset,
        len,
        big_endian: storages.big_endian,
    })
}

/// Checks that the elements are contiguous. The stride of a dimension of size 1 is meaningless, and so are
/// all strides of an empty tensor.
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
        "its elements, of shape {:?}, have the strides {:?} and so are not contiguous, as after a \
         transposition; save it again after .contiguous()",
        tensor.shape, tensor.strides
    ))
}

fn stored_encoding(name: &'static str) -> StoredEncoding {
    match name {
        "F32" => StoredEncoding::Supported(Encoding::F32),
        "F16" => StoredEncoding::Supported(Encoding::F16),
        "BF16" => StoredEncoding::Supported(Encoding::BF16),
        other => StoredEncoding::Unsupported(other),
    }
}
