//! Writes a GGUF file's header; the tensors' bytes follow it in their order, each padded.
//!
//! The crate `gguf-rs` has a writer too, but it takes wrong sizes for BF16 tensors, so that all
//! behind them is lost, and writes neither big-endian files nor nested arrays;
//! `tests/weights/oracle.rs` shows this.

use super::value::{Array, Value, ValueType};

/// A tensor of a file that is being written.
#[derive(Clone, Debug)]
struct Head {
    name: String,
    ggml_type: u32,
    shape: Vec<u64>,
    len: u64,
}

/// The header of a GGUF file that is being written.
#[derive(Clone, Debug)]
pub struct GgufHeaderBuilder {
    version: u32,
    big_endian: bool,
    alignment: u64,
    keys: Vec<(String, Value)>,
    tensors: Vec<Head>,
}

impl Default for GgufHeaderBuilder {
    fn default() -> GgufHeaderBuilder {
        GgufHeaderBuilder::new(3, false)
    }
}

impl GgufHeaderBuilder {
    /// An empty header of a version (1 to 3) and byte order; new files have version 3 and are
    /// little-endian.
    pub fn new(version: u32, big_endian: bool) -> GgufHeaderBuilder {
        GgufHeaderBuilder {
            version,
            big_endian,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Aligns tensors to so many bytes, a power of two, and says so in `general.alignment`.
    pub fn set_alignment(&mut self, alignment: u32) {
        self.alignment = alignment.max(1).into();
        self.key("general.alignment", Value::U32(alignment));
    }

    /// Adds a key; nothing checks that it is new.
    pub fn key(&mut self, key: &str, value: Value) {
        self.keys.push((key.into(), value));
    }

    /// Adds a tensor of a `ggml_type` and a shape, outermost first, that takes `len` bytes.
    pub fn tensor(&mut self, name: &str, ggml_type: u32, shape: &[u64], len: u64) {
        self.tensors.push(Head {
            name: name.into(),
            ggml_type,
            shape: shape.to_vec(),
            len,
        });
    }

    /// How many zeros follow `len` bytes of a tensor, or of the header.
    pub fn padding(&self, len: u64) -> u64 {
        len.next_multiple_of(self.alignment) - len
    }

    /// The header's bytes, padded, if a tensor follows.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Bytes {
            bytes: b"GGUF".to_vec(),
            version: self.version,
            big_endian: self.big_endian,
        };
        out.number(self.version.to_le_bytes());
        out.count(self.tensors.len() as u64);
        out.count(self.keys.len() as u64);
        for (key, value) in &self.keys {
            out.string(key);
            out.value_type(value.value_type());
            out.value(value);
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            out.string(&tensor.name);
            out.number((tensor.shape.len() as u32).to_le_bytes());
            for &size in tensor.shape.iter().rev() {
                out.count(size);
            }
            out.number(tensor.ggml_type.to_le_bytes());
            out.number(offset.to_le_bytes());
            offset += tensor.len + self.padding(tensor.len);
        }
        let mut bytes = out.bytes;
        if !self.tensors.is_empty() {
            let padding = self.padding(bytes.len() as u64);
            bytes.resize(bytes.len() + padding as usize, 0);
        }
        bytes
    }
}

/// Bytes in a file's byte order.
struct Bytes {
    bytes: Vec<u8>,
    version: u32,
    big_endian: bool,
}

/// Writes the elements of an array, or the number in a value, by their own type.
macro_rules! numbers {
    ($self:ident, $type:ident, $value:expr, $each:ident, {$($name:ident),*}, $($rest:tt)*) => {
        match $value {
            $($type::$name(numbers) => $self.$each(numbers, |number| number.to_le_bytes()),)*
            $($rest)*
        }
    };
}

impl Bytes {
    fn number<const N: usize>(&mut self, mut little: [u8; N]) {
        if self.big_endian {
            little.reverse();
        }
        self.bytes.extend_from_slice(&little);
    }

    fn one<T: Copy, const N: usize>(&mut self, number: &T, bytes: impl Fn(T) -> [u8; N]) {
        self.number(bytes(*number));
    }

    fn many<T: Copy, const N: usize>(&mut self, numbers: &[T], bytes: impl Fn(T) -> [u8; N]) {
        numbers
            .iter()
            .for_each(|number| self.number(bytes(*number)));
    }

    fn count(&mut self, count: u64) {
        match self.version {
            1 => self.number((count as u32).to_le_bytes()),
            _ => self.number(count.to_le_bytes()),
        }
    }

    fn string(&mut self, string: &str) {
        self.count(string.len() as u64);
        self.bytes.extend_from_slice(string.as_bytes());
    }

    /// The types are numbered in the order of their declaration.
    fn value_type(&mut self, of: ValueType) {
        self.number((of as u32).to_le_bytes());
    }

    fn value(&mut self, value: &Value) {
        numbers!(self, Value, value, one, {U8, I8, U16, I16, U32, I32, F32, U64, I64, F64},
            Value::Bool(truth) => self.bytes.push((*truth).into()),
            Value::String(text) => self.string(text),
            Value::Array(array) => self.array(array),
        );
    }

    fn array(&mut self, array: &Array) {
        self.value_type(array.element_type());
        self.count(array.len() as u64);
        numbers!(self, Array, array, many, {U8, I8, U16, I16, U32, I32, F32, U64, I64, F64},
            Array::Bool(truths) => self.bytes.extend(truths.iter().map(|&truth| u8::from(truth))),
            Array::String(texts) => texts.iter().for_each(|text| self.string(text)),
            Array::Array(arrays) => arrays.iter().for_each(|array| self.array(array)),
        );
    }
}
