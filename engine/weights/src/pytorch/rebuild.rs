//! The functions that a pickle may call: they rebuild storages and tensors from their descriptions.

use super::{
    globals::Global,
    values::{Id, Storage, Tensor, Unpickled, Value},
};

/// The most dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;
/// The longest key of a storage in bytes. Keys are numbers in practice.
const MAX_KEY_BYTES: usize = 256;

/// The result of a call: a new value, or one of the arguments.
pub(super) enum Returned {
    New(Value),
    Argument(Id),
}

/// Calls a function with a tuple of arguments. The error is the end of a sentence that begins with "the
/// pickle".
pub(super) fn call(
    unpickled: &mut Unpickled,
    function: Id,
    arguments: Id,
) -> Result<Returned, &'static str> {
    let Value::Tuple(arguments) = unpickled.get(arguments) else {
        return Err("calls something without a tuple of arguments");
    };
    let &Value::Global(function) = unpickled.get(function) else {
        return Err("calls something that is not a function");
    };
    match (function, &arguments[..]) {
        (Global::OrderedDict, []) => Ok(Returned::New(Value::Dict(Vec::new()))),
        (Global::Size, &[sizes]) => Ok(Returned::Argument(sizes)),
        (Global::RebuildParameter, &[tensor, ..]) => Ok(Returned::Argument(tensor)),
        (Global::RebuildTensor, &[storage, offset, shape, strides, ..]) => {
            rebuild_tensor(unpickled, storage, [offset, shape, strides], None)
        }
        (
            Global::RebuildTypedTensor,
            &[
                storage,
                offset,
                shape,
                strides,
                _requires_grad,
                _hooks,
                dtype,
                ..,
            ],
        ) => rebuild_tensor(unpickled, storage, [offset, shape, strides], Some(dtype)),
        _ => Err("calls a function with the wrong arguments"),
    }
}

/// Creates a tensor of a storage's type, or of the given one.
fn rebuild_tensor(
    unpickled: &mut Unpickled,
    storage: Id,
    [offset, shape, strides]: [Id; 3],
    dtype: Option<Id>,
) -> Result<Returned, &'static str> {
    let &Value::Storage(storage) = unpickled.get(storage) else {
        return Err("creates a tensor from something that is not a storage");
    };
    let dtype = match dtype.map(|dtype| unpickled.get(dtype)) {
        Some(&Value::Global(Global::Dtype(dtype))) => Some(dtype),
        Some(_) => None,
        None => unpickled.storages[storage as usize].dtype,
    };
    let sizes = |id| unpickled.sizes(id, MAX_DIMENSIONS);
    let layout = (sizes(shape), sizes(strides), unpickled.size(offset));
    let (Some(dtype), (Some(shape), Some(strides), Some(offset))) = (dtype, layout) else {
        return Err("creates a tensor without a type, shape or offset");
    };
    let index = unpickled.tensors.len() as u32;
    unpickled.tensors.push(Tensor {
        storage,
        dtype,
        offset,
        shape,
        strides,
    });
    Ok(Returned::New(Value::Tensor(index)))
}

/// Reads the description of a storage: `("storage", type, key, device, elements)`. In older files a sixth
/// item may follow: the description of a view, or `None`.
pub(super) fn storage(unpickled: &Unpickled, id: Id, none: Id) -> Result<Storage, &'static str> {
    let not_a_storage = "refers to something outside that is not a storage";
    let Value::Tuple(items) = unpickled.get(id) else {
        return Err(not_a_storage);
    };
    let Some((&[tag, kind, key, _device, len], rest)) = items.split_first_chunk() else {
        return Err(not_a_storage);
    };
    let is_view = rest.iter().any(|&view| view != none);
    let key = unpickled.text(key).filter(|key| key.len() <= MAX_KEY_BYTES);
    let items = (unpickled.text(tag), unpickled.get(kind), key);
    let (Some("storage"), &Value::Global(Global::Storage(dtype)), Some(key)) = items else {
        return Err(not_a_storage);
    };
    match unpickled.size(len).filter(|_| !is_view) {
        Some(len) => Ok(Storage {
            key: key.into(),
            dtype,
            len,
        }),
        None => Err("has a storage that is a view, or that has no size"),
    }
}
