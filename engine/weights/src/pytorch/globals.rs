//! The functions and types that the pickle of a state dict may name.

/// The element type of storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    /// The name in safetensors.
    pub name: &'static str,
    /// The size of an element in bytes.
    pub bytes: u64,
}

/// A function or type of a Python module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`, called without arguments.
    OrderedDict,
    /// `torch.Size`, called with a tuple.
    Size,
    /// `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`.
    RebuildTensor,
    /// `torch._utils._rebuild_tensor_v3`, which has the type of an untyped storage as an argument.
    RebuildTypedTensor,
    /// `torch._utils._rebuild_parameter`, whose first argument is a tensor.
    RebuildParameter,
    /// The type of a storage; `None` if it is untyped.
    Storage(Option<Dtype>),
    /// `torch.float32` and its kin.
    Dtype(Dtype),
}

const fn dtype(name: &'static str, bytes: u64) -> Dtype {
    Dtype { name, bytes }
}

/// Element types with the names of their storage and of their `dtype` in PyTorch.
#[rustfmt::skip]
const DTYPES: [(&str, &str, Dtype); 12] = [
    ("FloatStorage",    "float32",       dtype("F32", 4)),
    ("HalfStorage",     "float16",       dtype("F16", 2)),
    ("BFloat16Storage", "bfloat16",      dtype("BF16", 2)),
    ("DoubleStorage",   "float64",       dtype("F64", 8)),
    ("LongStorage",     "int64",         dtype("I64", 8)),
    ("IntStorage",      "int32",         dtype("I32", 4)),
    ("ShortStorage",    "int16",         dtype("I16", 2)),
    ("CharStorage",     "int8",          dtype("I8", 1)),
    ("ByteStorage",     "uint8",         dtype("U8", 1)),
    ("BoolStorage",     "bool",          dtype("BOOL", 1)),
    ("",                "float8_e4m3fn", dtype("F8_E4M3", 1)),
    ("",                "float8_e5m2",   dtype("F8_E5M2", 1)),
];

impl Global {
    /// Returns the function or type with this name; `None` if a state dict does not need it.
    pub fn named(module: &str, name: &str) -> Option<Global> {
        let dtype_of = |name_in: fn(&(&'static str, &'static str, Dtype)) -> &'static str| {
            let row = DTYPES.iter().find(|row| name_in(row) == name);
            row.map(|row| row.2)
        };
        match (module, name) {
            ("collections", "OrderedDict") => Some(Global::OrderedDict),
            ("torch", "Size") => Some(Global::Size),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => {
                Some(Global::RebuildTensor)
            }
            ("torch._utils", "_rebuild_tensor_v3") => Some(Global::RebuildTypedTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Global::RebuildParameter),
            ("torch" | "torch.storage", "UntypedStorage") => Some(Global::Storage(None)),
            ("torch", _) if name.ends_with("Storage") && name != "Storage" => {
                dtype_of(|row| row.0).map(|dtype| Global::Storage(Some(dtype)))
            }
            ("torch", _) => dtype_of(|row| row.1).map(Global::Dtype),
            _ => None,
        }
    }
}
