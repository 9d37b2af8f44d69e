//! Metadata values.

use std::borrow::Cow;

use super::{strings::Strings, value_type::ValueType};

/// A metadata value, of one of GGUF's thirteen types.
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

/// A metadata array, whose elements have one type.
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

/// Evaluates an expression with `$items` bound to the vector that an [`Array`] holds.
macro_rules! with_items {
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
    /// Creates an empty array of elements of a type.
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

    /// Returns the type of the elements.
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

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        with_items!(self, items => items.len())
    }

    /// Returns true if the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all elements, widened; `None` if they are not numbers.
    pub(super) fn numbers(&self) -> Option<Vec<Number>> {
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
    /// Returns the type of the value.
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

    /// Returns the value as a number, widened; `None` if it is not a number.
    pub(super) fn number(&self) -> Option<Number> {
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

    /// Describes the value in a few words for error messages. A string is cut after 40 characters.
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
                None => "not a number".into(),
            },
        }
    }
}

/// A number of any type, widened without loss.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

/// `f64` represents every integer up to two to this power.
const EXACT_INT_BITS: u32 = 53;

impl Number {
    /// Returns the number as an integer if it is a whole one. Floats convert up to 2^53.
    pub fn int(self) -> Option<i128> {
        match self {
            Number::Int(int) => Some(int),
            Number::Float(float) => {
                let exact = float.fract() == 0.0 && float.abs() <= (1u64 << EXACT_INT_BITS) as f64;
                exact.then_some(float as i128)
            }
        }
    }

    /// Returns the number as a float. Integers convert up to 2^53.
    pub fn float(self) -> Option<f64> {
        match self {
            Number::Float(float) => Some(float),
            Number::Int(int) => {
                let exact = int.unsigned_abs() <= 1 << EXACT_INT_BITS;
                exact.then_some(int as f64)
            }
        }
    }
}
