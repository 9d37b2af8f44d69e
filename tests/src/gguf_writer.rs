//! Writes GGUF files in every version, byte order and encoding.

use wisp_engine::weights::Encoding;
use wisp_engine::weights::encodings::swap_byte_order;
use wisp_engine::weights::gguf::{GgufHeaderBuilder, Value};

/// Builds a GGUF file.
#[derive(Clone, Debug)]
pub struct GgufWriter {
    header: GgufHeaderBuilder,
    big_endian: bool,
    data: Vec<Vec<u8>>,
}

impl GgufWriter {
    /// Starts an empty file of a version (1 to 3) and byte order.
    pub fn new(version: u32, big_endian: bool) -> GgufWriter {
        GgufWriter {
            header: GgufHeaderBuilder::new(version, big_endian),
            big_endian,
            data: Vec::new(),
        }
    }

    /// Aligns tensors to `alignment` bytes and sets `general.alignment`.
    pub fn alignment(mut self, alignment: u32) -> GgufWriter {
        self.header.set_alignment(alignment);
        self
    }

    /// Adds a key, which may exist already.
    pub fn key(mut self, key: &str, value: Value) -> GgufWriter {
        self.header.key(key, value);
        self
    }

    /// Adds a tensor of a shape (outermost first) with its little-endian bytes.
    pub fn tensor(self, name: &str, encoding: Encoding, shape: &[u64], data: &[u8]) -> GgufWriter {
        let mut data = data.to_vec();
        if self.big_endian {
            swap_byte_order(encoding, &mut data);
        }
        let ggml_type = encoding.ggml_type().expect("an encoding of files");
        self.raw_tensor(name, ggml_type, shape, &data)
    }

    /// Adds a tensor with any `ggml_type`, which need not match its bytes.
    pub fn raw_tensor(
        mut self,
        name: &str,
        ggml_type: u32,
        shape: &[u64],
        data: &[u8],
    ) -> GgufWriter {
        let len = data.len() as u64;
        self.header.tensor(name, ggml_type, shape, len);
        self.data.push(data.to_vec());
        self
    }

    /// Returns the bytes of the file, which ends with the last tensor.
    pub fn write(&self) -> Vec<u8> {
        let mut file = self.header.bytes();
        for (i, data) in self.data.iter().enumerate() {
            if i > 0 {
                let before = self.data[i - 1].len() as u64;
                let padding = self.header.padding(before) as usize;
                file.resize(file.len() + padding, 0);
            }
            file.extend_from_slice(data);
        }
        file
    }
}
