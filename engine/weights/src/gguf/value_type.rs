//! The types of metadata values.

/// The thirteen types of metadata values, in the order of their numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    /// Returns the type with this number.
    pub fn from_id(id: u32) -> Option<ValueType> {
        use ValueType::*;
        const TYPES: [ValueType; 13] = [
            U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64,
        ];
        TYPES.get(usize::try_from(id).ok()?).copied()
    }

    /// Returns the size of a value in bytes; `None` for strings and arrays.
    pub fn fixed_bytes(self) -> Option<usize> {
        use ValueType::*;
        match self {
            U8 | I8 | Bool => Some(1),
            U16 | I16 => Some(2),
            U32 | I32 | F32 => Some(4),
            U64 | I64 | F64 => Some(8),
            String | Array => None,
        }
    }
}
