//! The values that a pickle creates.

use super::globals::{Dtype, Global};

/// The index of a value in [`Unpickled::values`].
pub(super) type Id = u32;

/// A value. Collections have the indices of their items, so that nesting them takes no call stack.
#[derive(Clone, Debug)]
pub(super) enum Value {
    None,
    Bool,
    Int(i64),
    /// An integer of more than 64 bits, or a float: nothing needs its value.
    Number,
    Text(Box<str>),
    Bytes,
    Tuple(Box<[Id]>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    /// The index in [`Unpickled::storages`].
    Storage(u32),
    /// The index in [`Unpickled::tensors`].
    Tensor(u32),
}

impl Value {
    /// Describes the value for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool => "a boolean",
            Value::Int(_) | Value::Number => "a number",
            Value::Text(_) => "a text",
            Value::Bytes => "bytes",
            Value::Tuple(_) => "a tuple",
            Value::List(_) => "a list",
            Value::Dict(_) => "a dict without tensors",
            Value::Global(_) => "a function",
            Value::Storage(_) => "a storage",
            Value::Tensor(_) => "one tensor without a name",
        }
    }
}

/// The bytes that tensors are views of.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// The name of the bytes in the file.
    pub key: String,
    /// `None` if the storage is untyped.
    pub dtype: Option<Dtype>,
    /// The number of elements; of bytes, if the storage is untyped.
    pub len: u64,
}

/// A tensor as the pickle describes it, not checked yet.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    /// The index in [`Unpickled::storages`].
    pub storage: u32,
    pub dtype: Dtype,
    /// The index of the first element in the storage.
    pub offset: u64,
    pub shape: Vec<u64>,
    /// The distance between neighbours in each dimension, in elements.
    pub strides: Vec<u64>,
}

/// The outermost value of a pickle and everything that it consists of.
#[derive(Debug)]
pub(super) struct Unpickled {
    pub values: Vec<Value>,
    pub storages: Vec<Storage>,
    pub tensors: Vec<Tensor>,
    /// The outermost value.
    pub root: Id,
}

impl Unpickled {
    /// Returns a value. Every [`Id`] is that of an existing one.
    pub fn get(&self, id: Id) -> &Value {
        self.values.get(id as usize).unwrap_or(&Value::None)
    }

    /// Returns a text.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a whole number that is not negative.
    pub fn size(&self, id: Id) -> Option<u64> {
        match self.get(id) {
            Value::Int(int) => u64::try_from(*int).ok(),
            _ => None,
        }
    }

    /// Returns the sizes in a tuple or list of at most `max` items. The limit matters because many tensors
    /// may have the same long tuple as their shape.
    pub fn sizes(&self, id: Id, max: usize) -> Option<Vec<u64>> {
        let items = match self.get(id) {
            Value::Tuple(items) => items,
            Value::List(items) => items.as_slice(),
            _ => return None,
        };
        if items.len() > max {
            return None;
        }
        items.iter().map(|&item| self.size(item)).collect()
    }
}
