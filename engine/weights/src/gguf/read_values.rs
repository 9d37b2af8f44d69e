//! The part of the reader that takes metadata values.

use super::reader::{Frame, GgufReader, Result, State};
use super::value::ValueType;
use super::{Array, FromValue, Value};
use crate::error::FormatError;

/// Larger alignments are no use to anybody and mean a damaged file.
pub(super) const MAX_ALIGNMENT: u64 = 1 << 20;

impl GgufReader {
    pub(super) fn value_type(&self, bytes: &[u8]) -> Result<ValueType> {
        let found = self.order.u32(bytes);
        ValueType::from_id(found).ok_or_else(|| FormatError::ValueType {
            key: self.name.clone(),
            found,
        })
    }

    fn bool(&self, byte: u8) -> Result<bool> {
        match byte {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(FormatError::Bool {
                key: self.name.clone(),
                found,
            }),
        }
    }

    pub(super) fn scalar(&self, of: ValueType, bytes: &[u8]) -> Result<Value> {
        let order = self.order;
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
            // Strings and arrays never get here.
            ValueType::Bool | ValueType::String | ValueType::Array => {
                Value::Bool(self.bool(order.u8(bytes))?)
            }
        })
    }

    /// Takes a string's bytes; they need not be UTF-8, because vocabularies hold what they hold.
    pub(super) fn string(&mut self, bytes: &[u8]) -> Result<State> {
        let text = String::from_utf8_lossy(bytes);
        match self.frames.last_mut() {
            Some(Frame {
                array: Array::String(strings),
                left,
                ..
            }) => {
                strings.push(&text);
                *left -= 1;
                self.next_element()
            }
            _ => self.complete(Value::String(text.into_owned())),
        }
    }

    pub(super) fn array_head(&mut self, bytes: &[u8]) -> Result<State> {
        let (of, count) = bytes.split_at(4);
        let of = self.value_type(of)?;
        let left = self.order.count(count);
        let length = self.count_bytes();
        let least = match of {
            ValueType::String => length,
            ValueType::Array => 4 + length,
            scalar => scalar.fixed_bytes().unwrap_or(1),
        };
        self.check_count(left, least as u64, || "the length of an array".into())?;
        if self.frames.len() >= self.limits.depth {
            return Err(FormatError::Depth {
                key: self.name.clone(),
                limit: self.limits.depth,
            });
        }
        let array = Array::empty(of);
        self.frames.push(Frame { of, left, array });
        self.next_element()
    }

    /// Takes the bytes of the next scalars of the innermost array.
    pub(super) fn scalars(&mut self, of: ValueType, bytes: &[u8]) -> Result<State> {
        let order = self.order;
        if of == ValueType::Bool {
            for &byte in bytes {
                self.bool(byte)?;
            }
        }
        let Some(frame) = self.frames.last_mut() else {
            return Ok(self.next_entry());
        };
        let items = bytes.chunks_exact(of.fixed_bytes().unwrap_or(1));
        frame.left -= items.len() as u64;
        match &mut frame.array {
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
            // These are read one at a time, by `string` and `array_head`.
            Array::String(_) | Array::Array(_) => {}
        }
        self.next_element()
    }

    /// What follows inside the innermost array, closing those that are full.
    fn next_element(&mut self) -> Result<State> {
        while let Some(frame) = self.frames.last() {
            if frame.left > 0 {
                return Ok(match frame.of {
                    ValueType::String => State::StringLength,
                    ValueType::Array => State::ArrayHead,
                    of => State::Scalars(of),
                });
            }
            let Some(Frame { array, .. }) = self.frames.pop() else {
                break;
            };
            match self.frames.last_mut() {
                Some(Frame {
                    array: Array::Array(outer),
                    left,
                    ..
                }) => {
                    outer.push(array);
                    *left -= 1;
                }
                _ => return self.complete(Value::Array(array)),
            }
        }
        Ok(self.next_entry())
    }

    /// Files a complete value under its key.
    pub(super) fn complete(&mut self, value: Value) -> Result<State> {
        if self.name == "general.alignment" {
            self.alignment = alignment(&value)?;
        }
        let key = std::mem::take(&mut self.name);
        if self.metadata.contains_key(&key) {
            return Err(FormatError::Duplicate {
                what: "key",
                name: key,
            });
        }
        self.metadata.insert(key, value);
        self.keys_left -= 1;
        Ok(self.next_entry())
    }
}

fn alignment(value: &Value) -> Result<u64> {
    match FromValue::from_value(value) {
        Some(alignment) if u64::is_power_of_two(alignment) && alignment <= MAX_ALIGNMENT => {
            Ok(alignment)
        }
        _ => Err(FormatError::Alignment {
            found: value.summary().into_owned(),
            max: MAX_ALIGNMENT,
        }),
    }
}
