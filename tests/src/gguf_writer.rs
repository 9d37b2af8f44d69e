//! Writes GGUF files in every version, byte order and encoding, for tests.
//!
//! `gguf-rs` has a writer too, but it writes little-endian only, no nested arrays, and takes
//! wrong sizes for BF16, IQ4_NL, MXFP4 and integer tensors; `tests/weights/oracle.rs` shows this.

use wisp_engine::weights::Encoding;
use wisp_engine::weights::encodings::swap_byte_order;
use wisp_engine::weights::gguf::{Array, Value};

/// A GGUF file that is being put together.
#[derive(Clone, Debug)]
pub struct GgufWriter {
    version: u32,
    big_endian: bool,
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
    data: Vec<u8>,
}

/// The thirteen value types, by their numbers in a file.
fn value_type(value: &Value) -> u32 {
    match value {
        Value::U8(_) => 0,
        Value::I8(_) => 1,
        Value::U16(_) => 2,
        Value::I16(_) => 3,
        Value::U32(_) => 4,
        Value::I32(_) => 5,
        Value::F32(_) => 6,
        Value::Bool(_) => 7,
        Value::String(_) => 8,
        Value::Array(_) => 9,
        Value::U64(_) => 10,
        Value::I64(_) => 11,
        Value::F64(_) => 12,
    }
}

fn element_type(array: &Array) -> u32 {
    match array {
        Array::U8(_) => 0,
        Array::I8(_) => 1,
        Array::U16(_) => 2,
        Array::I16(_) => 3,
        Array::U32(_) => 4,
        Array::I32(_) => 5,
        Array::F32(_) => 6,
        Array::Bool(_) => 7,
        Array::String(_) => 8,
        Array::Array(_) => 9,
        Array::U64(_) => 10,
        Array::I64(_) => 11,
        Array::F64(_) => 12,
    }
}

impl GgufWriter {
    /// An empty file of a version (1 to 3) and byte order.
    pub fn new(version: u32, big_endian: bool) -> GgufWriter {
        GgufWriter {
            version,
            big_endian,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Aligns tensors to so many bytes and says so in `general.alignment`.
    pub fn alignment(mut self, alignment: u32) -> GgufWriter {
        self.alignment = alignment.into();
        self.key("general.alignment", Value::U32(alignment))
    }

    /// Adds a key; nothing checks that it is new.
    pub fn key(mut self, key: &str, value: Value) -> GgufWriter {
        self.keys.push((key.into(), value));
        self
    }

    /// Adds a tensor of a shape (outermost first) with its little-endian bytes.
    pub fn tensor(self, name: &str, encoding: Encoding, shape: &[u64], data: &[u8]) -> GgufWriter {
        let mut data = data.to_vec();
        if self.big_endian {
            swap_byte_order(encoding, &mut data);
        }
        self.raw_tensor(name, encoding.ggml(), shape, &data)
    }

    /// Adds a tensor of any `ggml_type`, true or not, with its bytes as they are.
    pub fn raw_tensor(
        mut self,
        name: &str,
        ggml_type: u32,
        shape: &[u64],
        data: &[u8],
    ) -> GgufWriter {
        self.tensors.push(Tensor {
            name: name.into(),
            ggml_type,
            shape: shape.to_vec(),
            data: data.to_vec(),
        });
        self
    }

    /// The file's bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Bytes {
            bytes: b"GGUF".to_vec(),
            version: self.version,
            big_endian: self.big_endian,
        };
        out.u32(self.version);
        out.count(self.tensors.len() as u64);
        out.count(self.keys.len() as u64);
        for (key, value) in &self.keys {
            out.string(key.as_bytes());
            out.u32(value_type(value));
            out.value(value);
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            out.string(tensor.name.as_bytes());
            out.u32(tensor.shape.len() as u32);
            for &size in tensor.shape.iter().rev() {
                out.count(size);
            }
            out.u32(tensor.ggml_type);
            out.number(offset.to_le_bytes());
            offset = (offset + tensor.data.len() as u64).next_multiple_of(self.alignment);
        }
        for tensor in &self.tensors {
            out.pad(self.alignment);
            out.bytes.extend_from_slice(&tensor.data);
        }
        out.bytes
    }
}

/// Bytes in a file's byte order.
struct Bytes {
    bytes: Vec<u8>,
    version: u32,
    big_endian: bool,
}

impl Bytes {
    fn number<const N: usize>(&mut self, mut little: [u8; N]) {
        if self.big_endian {
            little.reverse();
        }
        self.bytes.extend_from_slice(&little);
    }

    fn u32(&mut self, number: u32) {
        self.number(number.to_le_bytes());
    }

    fn count(&mut self, count: u64) {
        match self.version {
            1 => self.number((count as u32).to_le_bytes()),
            _ => self.number(count.to_le_bytes()),
        }
    }

    fn string(&mut self, string: &[u8]) {
        self.count(string.len() as u64);
        self.bytes.extend_from_slice(string);
    }

    fn pad(&mut self, alignment: u64) {
        let len = (self.bytes.len() as u64).next_multiple_of(alignment);
        self.bytes.resize(len as usize, 0);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::U8(x) => self.number(x.to_le_bytes()),
            Value::I8(x) => self.number(x.to_le_bytes()),
            Value::U16(x) => self.number(x.to_le_bytes()),
            Value::I16(x) => self.number(x.to_le_bytes()),
            Value::U32(x) => self.number(x.to_le_bytes()),
            Value::I32(x) => self.number(x.to_le_bytes()),
            Value::F32(x) => self.number(x.to_le_bytes()),
            Value::Bool(x) => self.number([*x as u8]),
            Value::String(text) => self.string(text.as_bytes()),
            Value::Array(array) => self.array(array),
            Value::U64(x) => self.number(x.to_le_bytes()),
            Value::I64(x) => self.number(x.to_le_bytes()),
            Value::F64(x) => self.number(x.to_le_bytes()),
        }
    }

    fn array(&mut self, array: &Array) {
        self.u32(element_type(array));
        self.count(array.len() as u64);
        match array {
            Array::U8(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::I8(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::U16(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::I16(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::U32(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::I32(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::F32(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::Bool(v) => v.iter().for_each(|&x| self.number([x as u8])),
            Array::String(v) => v.iter().for_each(|text| self.string(text.as_bytes())),
            Array::Array(v) => v.iter().for_each(|inner| self.array(inner)),
            Array::U64(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::I64(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
            Array::F64(v) => v.iter().for_each(|x| self.number(x.to_le_bytes())),
        }
    }
}
