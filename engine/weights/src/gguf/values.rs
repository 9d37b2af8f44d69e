//! Reading metadata values: scalars, strings, and arrays that may be nested.

use super::{
    byte_order::ByteOrder,
    value::{Array, Value},
    value_type::ValueType,
};
use crate::error::FormatError;

/// Reads the type of the value of `key`.
pub(super) fn value_type(
    order: ByteOrder,
    key: &str,
    bytes: &[u8],
) -> Result<ValueType, FormatError> {
    let found = order.u32(bytes);
    ValueType::from_id(found).ok_or_else(|| FormatError::ValueType {
        key: key.into(),
        found,
    })
}

fn bool(key: &str, byte: u8) -> Result<bool, FormatError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(FormatError::Bool {
            key: key.into(),
            found,
        }),
    }
}

/// Reads a value that is neither a string nor an array.
pub(super) fn scalar(
    order: ByteOrder,
    key: &str,
    of: ValueType,
    bytes: &[u8],
) -> Result<Value, FormatError> {
    Ok(match of {
        ValueType::U8 => Value::U8(order.u8(bytes)),
        ValueType::I8 => Value::I8(order.i8(bytes)),
        ValueType::U16 => Value::U16(order.u16(bytes)),
        ValueType::I16 => Value::I16(order.i16(bytes)),
        ValueType::U32 => Value::U32(order.u32(bytes)),
        ValueType::I32 => Value::I32(order.i32(bytes)),
        ValueType::F32 => Value::F32(order.f32(bytes)),
        ValueType::U64 => Value::U64(order.u64(bytes)),
        ValueType::I64 => Value::I64(order.i64(bytes)),
        ValueType::F64 => Value::F64(order.f64(bytes)),
        // Callers never pass strings and arrays.
        ValueType::Bool | ValueType::String | ValueType::Array => {
            Value::Bool(bool(key, order.u8(bytes))?)
        }
    })
}

/// An array whose elements are being read.
#[derive(Debug)]
struct OpenArray {
    of: ValueType,
    /// The number of elements that are still to be read.
    remaining: u64,
    items: Array,
}

/// The arrays that are being read, each an element of the one before it.
#[derive(Debug, Default)]
pub(super) struct ArrayStack(Vec<OpenArray>);

/// What follows in the file after an element of an array.
pub(super) enum NextElement {
    String,
    Array,
    /// Several scalars of a type, [`ArrayStack::remaining`] at most.
    Scalars(ValueType),
    /// Nothing: the outermost array is complete.
    Complete(Array),
}

impl ArrayStack {
    /// Returns the number of open arrays.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of elements that are still to be read into the innermost array.
    pub fn remaining(&self) -> u64 {
        self.0.last().map_or(0, |array| array.remaining)
    }

    /// Opens an array of `remaining` elements, inside the innermost array if there is one.
    pub fn open(&mut self, of: ValueType, remaining: u64) -> Option<NextElement> {
        let items = Array::empty(of);
        self.0.push(OpenArray {
            of,
            remaining,
            items,
        });
        self.next()
    }

    /// Appends a string to the innermost array; `None` if no array is open.
    pub fn push_string(&mut self, text: &str) -> Option<NextElement> {
        if let Some(OpenArray {
            items: Array::String(strings),
            remaining,
            ..
        }) = self.0.last_mut()
        {
            strings.push(text);
            *remaining -= 1;
        }
        self.next()
    }

    /// Appends scalars to the innermost array, which is part of the value of `key`; `None` if no array is
    /// open.
    pub fn push_scalars(
        &mut self,
        order: ByteOrder,
        key: &str,
        bytes: &[u8],
    ) -> Result<Option<NextElement>, FormatError> {
        let Some(array) = self.0.last_mut() else {
            return Ok(None);
        };
        if array.of == ValueType::Bool {
            for &byte in bytes {
                bool(key, byte)?;
            }
        }
        let items = bytes.chunks_exact(array.of.fixed_bytes().unwrap_or(1));
        array.remaining -= items.len() as u64;
        match &mut array.items {
            Array::U8(v) => v.extend_from_slice(bytes),
            Array::I8(v) => v.extend(items.map(|b| order.i8(b))),
            Array::U16(v) => v.extend(items.map(|b| order.u16(b))),
            Array::I16(v) => v.extend(items.map(|b| order.i16(b))),
            Array::U32(v) => v.extend(items.map(|b| order.u32(b))),
            Array::I32(v) => v.extend(items.map(|b| order.i32(b))),
            Array::F32(v) => v.extend(items.map(|b| order.f32(b))),
            Array::Bool(v) => v.extend(bytes.iter().map(|&b| b == 1)),
            Array::U64(v) => v.extend(items.map(|b| order.u64(b))),
            Array::I64(v) => v.extend(items.map(|b| order.i64(b))),
            Array::F64(v) => v.extend(items.map(|b| order.f64(b))),
            // Strings and arrays are read one at a time.
            Array::String(_) | Array::Array(_) => {}
        }
        Ok(self.next())
    }

    /// Closes the arrays that are complete, and returns what follows; `None` if no array is open.
    fn next(&mut self) -> Option<NextElement> {
        loop {
            let array = self.0.pop()?;
            if array.remaining > 0 {
                let of = array.of;
                self.0.push(array);
                return Some(match of {
                    ValueType::String => NextElement::String,
                    ValueType::Array => NextElement::Array,
                    of => NextElement::Scalars(of),
                });
            }
            match self.0.last_mut() {
                Some(OpenArray {
                    items: Array::Array(outer),
                    remaining,
                    ..
                }) => {
                    outer.push(array.items);
                    *remaining -= 1;
                }
                _ => return Some(NextElement::Complete(array.items)),
            }
        }
    }
}
