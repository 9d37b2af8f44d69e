//! What an unpickled state dict is made of.

/// A value's place in [`Pickled::values`].
pub(super) type Id = u32;

/// A number format of storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    /// As safetensors calls it.
    pub name: &'static str,
    /// Bytes of an element.
    pub bytes: u64,
}

/// What a pickle may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`, called with nothing, or with a list of pairs.
    OrderedDict,
    /// `torch.Size`, called with a tuple.
    Size,
    /// `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`.
    Tensor,
    /// `torch._utils._rebuild_tensor_v3`, which says the type of an untyped storage.
    TypedTensor,
    /// `torch._utils._rebuild_parameter`, called with a tensor first.
    Parameter,
    /// The type of a storage; `None` is untyped.
    Storage(Option<Dtype>),
    /// `torch.float32` and its kin.
    Dtype(Dtype),
}

const fn dtype(name: &'static str, bytes: u64) -> Dtype {
    Dtype { name, bytes }
}

/// Types by their names in PyTorch: of the storage, of the `dtype`.
#[rustfmt::skip]
const DTYPES: [(&str, &str, Dtype); 12] = [
    ("FloatStorage",    "float32",    dtype("F32", 4)),
    ("HalfStorage",     "float16",    dtype("F16", 2)),
    ("BFloat16Storage", "bfloat16",   dtype("BF16", 2)),
    ("DoubleStorage",   "float64",    dtype("F64", 8)),
    ("LongStorage",     "int64",      dtype("I64", 8)),
    ("IntStorage",      "int32",      dtype("I32", 4)),
    ("ShortStorage",    "int16",      dtype("I16", 2)),
    ("CharStorage",     "int8",       dtype("I8", 1)),
    ("ByteStorage",     "uint8",      dtype("U8", 1)),
    ("BoolStorage",     "bool",       dtype("BOOL", 1)),
    ("",                "float8_e4m3fn", dtype("F8_E4M3", 1)),
    ("",                "float8_e5m2",   dtype("F8_E5M2", 1)),
];

impl Global {
    /// What a module calls so, if a state dict needs it.
    pub fn named(module: &str, name: &str) -> Option<Global> {
        let dtype_of = |of: fn(&(&'static str, &'static str, Dtype)) -> &'static str| {
            DTYPES.iter().find(|row| of(row) == name).map(|row| row.2)
        };
        match (module, name) {
            ("collections", "OrderedDict") => Some(Global::OrderedDict),
            ("torch", "Size") => Some(Global::Size),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Some(Global::Tensor),
            ("torch._utils", "_rebuild_tensor_v3") => Some(Global::TypedTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Global::Parameter),
            ("torch" | "torch.storage", "UntypedStorage") => Some(Global::Storage(None)),
            ("torch", _) if name.ends_with("Storage") && name != "Storage" => {
                dtype_of(|row| row.0).map(|dtype| Global::Storage(Some(dtype)))
            }
            ("torch", _) => dtype_of(|row| row.1).map(Global::Dtype),
            _ => None,
        }
    }
}

/// A value. Those that hold others name their places, so that depth takes no stack.
#[derive(Clone, Debug)]
pub(super) enum Object {
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
    /// The place in [`Pickled::storages`].
    Storage(u32),
    /// The place in [`Pickled::tensors`].
    Tensor(u32),
}

impl Object {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Object::None => "None",
            Object::Bool => "a boolean",
            Object::Int(_) | Object::Number => "a number",
            Object::Text(_) => "a text",
            Object::Bytes => "bytes",
            Object::Tuple(_) => "a tuple",
            Object::List(_) => "a list",
            Object::Dict(_) => "a dict without tensors",
            Object::Global(_) => "a function",
            Object::Storage(_) => "a storage",
            Object::Tensor(_) => "one tensor without a name",
        }
    }
}

/// The bytes that tensors are parts of.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// The name under which the file has the bytes.
    pub key: String,
    /// `None` is untyped.
    pub dtype: Option<Dtype>,
    /// Elements; bytes, if it is untyped.
    pub len: u64,
}

/// A tensor as it was described; nothing is checked yet.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    /// The place in [`Pickled::storages`].
    pub storage: u32,
    pub dtype: Dtype,
    /// Elements before the first.
    pub offset: u64,
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
}

/// A pickle's outermost value and all that it is made of.
#[derive(Debug)]
pub(super) struct Pickled {
    pub values: Vec<Object>,
    pub storages: Vec<Storage>,
    pub tensors: Vec<Tensor>,
    pub root: Id,
}

impl Pickled {
    /// The value at a place. Every [`Id`] is one of a value that is there.
    pub fn get(&self, id: Id) -> &Object {
        self.values.get(id as usize).unwrap_or(&Object::None)
    }

    /// A text.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Object::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn size(&self, id: Id) -> Option<u64> {
        match self.get(id) {
            Object::Int(int) => u64::try_from(*int).ok(),
            _ => None,
        }
    }

    /// A tuple or list of such numbers; `None` also if there are more than `most`, because one long
    /// tuple could stand for the shapes of many tensors.
    pub fn sizes(&self, id: Id, most: usize) -> Option<Vec<u64>> {
        let items = match self.get(id) {
            Object::Tuple(items) => items,
            Object::List(items) => items.as_slice(),
            _ => return None,
        };
        if items.len() > most {
            return None;
        }
        items.iter().map(|&item| self.size(item)).collect()
    }
}
