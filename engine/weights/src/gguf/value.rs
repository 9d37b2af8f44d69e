//! Metadata values of a GGUF file.

use std::borrow::Cow;

/// The thirteen types of metadata values.
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
    /// The type of a number in a file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        use ValueType::*;
        const TYPES: [ValueType; 13] = [
            U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64,
        ];
        TYPES.get(usize::try_from(id).ok()?).copied()
    }

    /// Bytes of a value; `None` for strings and arrays.
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

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// A metadata array: its elements have one type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Strings),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// An array of strings in one piece of memory: vocabularies have hundreds of thousands.
///
/// Bytes that are not UTF-8 were replaced by U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// Where each string ends in `text`.
    ends: Vec<usize>,
}

impl Strings {
    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = match index {
            0 => 0,
            _ => *self.ends.get(index - 1)?,
        };
        self.text.get(start..end)
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        // `get` knows every index below `len`, so the default is never used.
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// Adds a string at the end.
    pub fn push(&mut self, string: &str) {
        self.text.push_str(string);
        self.ends.push(self.text.len());
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(strings: I) -> Strings {
        let mut all = Strings::default();
        for string in strings {
            all.push(string);
        }
        all
    }
}

/// Runs an expression on whatever vector an [`Array`] holds.
macro_rules! each_array {
    ($array:expr, $items:ident => $body:expr) => {
        match $array {
            Array::U8($items) => $body,
            Array::I8($items) => $body,
            Array::U16($items) => $body,
            Array::I16($items) => $body,
            Array::U32($items) => $body,
            Array::I32($items) => $body,
            Array::F32($items) => $body,
            Array::Bool($items) => $body,
            Array::String($items) => $body,
            Array::Array($items) => $body,
            Array::U64($items) => $body,
            Array::I64($items) => $body,
            Array::F64($items) => $body,
        }
    };
}

impl Array {
    /// An empty array of elements of a type.
    pub(super) fn empty(of: ValueType) -> Array {
        match of {
            ValueType::U8 => Array::U8(Vec::new()),
            ValueType::I8 => Array::I8(Vec::new()),
            ValueType::U16 => Array::U16(Vec::new()),
            ValueType::I16 => Array::I16(Vec::new()),
            ValueType::U32 => Array::U32(Vec::new()),
            ValueType::I32 => Array::I32(Vec::new()),
            ValueType::F32 => Array::F32(Vec::new()),
            ValueType::Bool => Array::Bool(Vec::new()),
            ValueType::String => Array::String(Strings::default()),
            ValueType::Array => Array::Array(Vec::new()),
            ValueType::U64 => Array::U64(Vec::new()),
            ValueType::I64 => Array::I64(Vec::new()),
            ValueType::F64 => Array::F64(Vec::new()),
        }
    }

    /// The elements' type.
    pub(super) fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::F32(_) => ValueType::F32,
            Array::Bool(_) => ValueType::Bool,
            Array::String(_) => ValueType::String,
            Array::Array(_) => ValueType::Array,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F64(_) => ValueType::F64,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        each_array!(self, items => items.len())
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every number, widened; `None` if the elements are no numbers.
    fn numbers(&self) -> Option<Vec<Number>> {
        Some(match self {
            Array::U8(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::I8(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::U16(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::I16(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::U32(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::I32(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::U64(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::I64(v) => v.iter().map(|&x| Number::Int(x.into())).collect(),
            Array::F32(v) => v.iter().map(|&x| Number::Float(x.into())).collect(),
            Array::F64(v) => v.iter().map(|&x| Number::Float(x)).collect(),
            Array::Bool(_) | Array::String(_) | Array::Array(_) => return None,
        })
    }
}

impl Value {
    /// The value's type.
    pub(super) fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// The value as a number; `None` if it is none.
    fn number(&self) -> Option<Number> {
        Some(match *self {
            Value::U8(x) => Number::Int(x.into()),
            Value::I8(x) => Number::Int(x.into()),
            Value::U16(x) => Number::Int(x.into()),
            Value::I16(x) => Number::Int(x.into()),
            Value::U32(x) => Number::Int(x.into()),
            Value::I32(x) => Number::Int(x.into()),
            Value::U64(x) => Number::Int(x.into()),
            Value::I64(x) => Number::Int(x.into()),
            Value::F32(x) => Number::Float(x.into()),
            Value::F64(x) => Number::Float(x),
            Value::Bool(_) | Value::String(_) | Value::Array(_) => return None,
        })
    }

    /// The value in a few words, for error messages: a string is cut after 40 characters.
    pub fn summary(&self) -> Cow<'static, str> {
        match self {
            Value::String(text) => {
                let short: String = text.chars().take(40).collect();
                format!("the string {short:?}").into()
            }
            Value::Bool(value) => format!("the boolean {value}").into(),
            Value::Array(array) => {
                let of = match array {
                    Array::String(_) => "strings",
                    Array::Bool(_) => "booleans",
                    Array::Array(_) => "arrays",
                    Array::F32(_) | Array::F64(_) => "floats",
                    _ => "integers",
                };
                format!("an array of {} {of}", array.len()).into()
            }
            number => match number.number() {
                Some(Number::Int(int)) => format!("the integer {int}").into(),
                Some(Number::Float(float)) => format!("the number {float}").into(),
                None => "no number".into(),
            },
        }
    }
}

/// A number of any type, widened without loss.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// The number as an integer, if it is a whole one. Floats count up to 2^53, where they are
    /// still exact.
    fn int(self) -> Option<i128> {
        match self {
            Number::Int(int) => Some(int),
            Number::Float(float)
                if float.fract() == 0.0 && float.abs() <= 9.007_199_254_740_992e15 =>
            {
                Some(float as i128)
            }
            Number::Float(_) => None,
        }
    }

    /// The number as a float; integers only up to 2^53, where floats are still exact.
    fn float(self) -> Option<f64> {
        match self {
            Number::Float(float) => Some(float),
            Number::Int(int) if int.unsigned_abs() <= 1 << 53 => Some(int as f64),
            Number::Int(_) => None,
        }
    }
}

/// A Rust type that a metadata value converts to without loss (but `f32` rounds an `f64`).
pub trait FromValue<'a>: Sized {
    /// What is expected, for error messages.
    const EXPECTED: &'static str;

    /// Converts, or yields `None` if the type or the number does not fit.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! from_integer {
    ($($ty:ty: $one:literal, $many:literal;)*) => {$(
        impl FromValue<'_> for $ty {
            const EXPECTED: &'static str = $one;

            fn from_value(value: &Value) -> Option<$ty> {
                <$ty>::try_from(value.number()?.int()?).ok()
            }
        }

        impl FromValue<'_> for Vec<$ty> {
            const EXPECTED: &'static str = $many;

            fn from_value(value: &Value) -> Option<Vec<$ty>> {
                let Value::Array(array) = value else { return None };
                let fit = |n: Number| <$ty>::try_from(n.int()?).ok();
                array.numbers()?.into_iter().map(fit).collect()
            }
        }
    )*};
}

from_integer! {
    u32: "an integer from 0 to 2^32 - 1", "an array of integers from 0 to 2^32 - 1";
    i32: "a 32-bit integer", "an array of 32-bit integers";
    u64: "an integer not below 0", "an array of integers not below 0";
    i64: "a 64-bit integer", "an array of 64-bit integers";
    usize: "an integer not below 0", "an array of integers not below 0";
}

macro_rules! from_float {
    ($($ty:ty),*) => {$(
        impl FromValue<'_> for $ty {
            const EXPECTED: &'static str = "a number";

            fn from_value(value: &Value) -> Option<$ty> {
                Some(value.number()?.float()? as $ty)
            }
        }

        impl FromValue<'_> for Vec<$ty> {
            const EXPECTED: &'static str = "an array of numbers";

            fn from_value(value: &Value) -> Option<Vec<$ty>> {
                let Value::Array(array) = value else { return None };
                array.numbers()?.into_iter().map(|n| Some(n.float()? as $ty)).collect()
            }
        }
    )*};
}

from_float!(f32, f64);

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "a boolean";

    /// Some writers store booleans as the integers 0 and 1.
    fn from_value(value: &Value) -> Option<bool> {
        match value {
            Value::Bool(value) => Some(*value),
            other => match other.number()? {
                Number::Int(0) => Some(false),
                Number::Int(1) => Some(true),
                _ => None,
            },
        }
    }
}

impl FromValue<'_> for Vec<bool> {
    const EXPECTED: &'static str = "an array of booleans";

    fn from_value(value: &Value) -> Option<Vec<bool>> {
        match value {
            Value::Array(Array::Bool(values)) => Some(values.clone()),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "a string";

    fn from_value(value: &'a Value) -> Option<&'a str> {
        match value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a Strings {
    const EXPECTED: &'static str = "an array of strings";

    fn from_value(value: &'a Value) -> Option<&'a Strings> {
        match value {
            Value::Array(Array::String(strings)) => Some(strings),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a Array {
    const EXPECTED: &'static str = "an array";

    fn from_value(value: &'a Value) -> Option<&'a Array> {
        match value {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}
