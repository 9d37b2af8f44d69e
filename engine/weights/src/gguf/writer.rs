//! Writing the header of a GGUF file. The data of the tensors follows it, in their order, each padded.
//!
//! The crate `gguf-rs` has a writer too, but it computes wrong sizes for BF16 tensors, so that all tensors
//! behind them are lost, and writes neither big-endian files nor nested arrays. The tests that compare
//! this crate with it (`tests/tests/engine/weights/oracle.rs`) show that.

use super::{
    byte_order::ByteOrder,
    value::{Array, Value},
    value_type::ValueType,
};

/// The header of a GGUF file that is being written.
///
/// The caller writes [`bytes`](Self::bytes), then the data of each tensor in the order in which they were
/// added, with [`padding`](Self::padding) between two tensors.
#[derive(Clone, Debug)]
pub struct GgufHeaderBuilder {
    version: u32,
    order: ByteOrder,
    alignment: u64,
    keys: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    ggml_type: u32,
    /// Outermost dimension first.
    shape: Vec<u64>,
    /// In bytes, without padding.
    len: u64,
}

/// The header of a little-endian file of version 3.
impl Default for GgufHeaderBuilder {
    fn default() -> GgufHeaderBuilder {
        GgufHeaderBuilder::new(3, false)
    }
}

impl GgufHeaderBuilder {
    /// Creates an empty header of a version (1 to 3) and byte order. New files should use the default.
    pub fn new(version: u32, big_endian: bool) -> GgufHeaderBuilder {
        GgufHeaderBuilder {
            version,
            order: match big_endian {
                true => ByteOrder::Big,
                false => ByteOrder::Little,
            },
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Sets the alignment of tensors in bytes, a power of two, and adds it as `general.alignment`.
    pub fn set_alignment(&mut self, alignment: u32) {
        self.alignment = alignment.max(1).into();
        self.key("general.alignment", Value::U32(alignment));
    }

    /// Adds a key and its value. The keys of a file must differ, which is not checked here.
    pub fn key(&mut self, key: &str, value: Value) {
        self.keys.push((key.into(), value));
    }

    /// Adds a tensor of a `ggml_type` ([`Encoding::ggml_type`](wisp_types::Encoding::ggml_type)) and a
    /// shape (outermost dimension first) whose data takes `len` bytes.
    pub fn tensor(&mut self, name: &str, ggml_type: u32, shape: &[u64], len: u64) {
        self.tensors.push(Tensor {
            name: name.into(),
            ggml_type,
            shape: shape.to_vec(),
            len,
        });
    }

    /// Returns the number of zeros that follow `len` bytes so that the next tensor is aligned.
    pub fn padding(&self, len: u64) -> u64 {
        len.next_multiple_of(self.alignment) - len
    }

    /// Returns the bytes of the header, padded if a tensor follows.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Encoder {
            bytes: b"GGUF".to_vec(),
            version: self.version,
            order: self.order,
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

/// Appends values in a file's byte order.
struct Encoder {
    bytes: Vec<u8>,
    version: u32,
    order: ByteOrder,
}

/// Writes a number in a [`Value`] or the numbers in an [`Array`] with the method `$write`; `$rest` are the
/// arms for everything else.
macro_rules! write_numbers {
    ($self:ident, $type:ident, $value:expr, $write:ident, {$($name:ident),*}, $($rest:tt)*) => {
        match $value {
            $($type::$name(numbers) => $self.$write(numbers, |number| number.to_le_bytes()),)*
            $($rest)*
        }
    };
}

impl Encoder {
    fn number<const N: usize>(&mut self, mut little_endian: [u8; N]) {
        if self.order == ByteOrder::Big {
            little_endian.reverse();
        }
        self.bytes.extend_from_slice(&little_endian);
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

    fn value_type(&mut self, of: ValueType) {
        // The types are declared in the order of their numbers.
        self.number((of as u32).to_le_bytes());
    }

    fn value(&mut self, value: &Value) {
        write_numbers!(self, Value, value, one, {U8, I8, U16, I16, U32, I32, F32, U64, I64, F64},
            Value::Bool(truth) => self.bytes.push((*truth).into()),
            Value::String(text) => self.string(text),
            Value::Array(array) => self.array(array),
        );
    }

    fn array(&mut self, array: &Array) {
        self.value_type(array.element_type());
        self.count(array.len() as u64);
        write_numbers!(self, Array, array, many, {U8, I8, U16, I16, U32, I32, F32, U64, I64, F64},
            Array::Bool(truths) => self.bytes.extend(truths.iter().map(|&truth| u8::from(truth))),
            Array::String(texts) => texts.iter().for_each(|text| self.string(text)),
            Array::Array(arrays) => arrays.iter().for_each(|array| self.array(array)),
        );
    }
}
