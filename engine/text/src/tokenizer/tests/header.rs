//! GGUF metadata for tests: built by hand, or read from a little-endian file of version 3.

use std::collections::HashMap;

use super::GgufMetadata;

/// A value of a GGUF header.
#[derive(Debug, Clone)]
pub(crate) enum Meta {
    Int(i64),
    Float(f32),
    Bool(bool),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
}

/// GGUF metadata, enough for tests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header(pub(crate) HashMap<String, Meta>);

impl Header {
    /// Reads the metadata of a little-endian GGUF v3 file.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut reader = Reader(bytes);
        assert_eq!(reader.take(4), b"GGUF");
        assert_eq!(reader.number(4), 3);
        let _tensors = reader.number(8);
        let count = reader.number(8);
        let entries = (0..count).map(|_| {
            let key = reader.text();
            let kind = reader.number(4);
            (key, reader.value(kind))
        });
        Self(entries.collect())
    }

    pub(crate) fn with(mut self, key: &str, value: Meta) -> Self {
        self.0.insert(format!("tokenizer.{key}"), value);
        self
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> &'b [u8] {
        let (head, tail) = self.0.split_at(length);
        self.0 = tail;
        head
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(self.take(bytes));
        u64::from_le_bytes(number)
    }

    fn text(&mut self) -> String {
        let length = self.number(8) as usize;
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    fn value(&mut self, kind: u64) -> Meta {
        match kind {
            0 | 1 => Meta::Int(self.number(1) as i64),
            2 | 3 => Meta::Int(self.number(2) as i64),
            4 | 5 => Meta::Int(i64::from(self.number(4) as i32)),
            6 => Meta::Float(f32::from_bits(self.number(4) as u32)),
            7 => Meta::Bool(self.number(1) != 0),
            8 => Meta::Text(self.text()),
            10 | 11 => Meta::Int(self.number(8) as i64),
            9 => {
                let (kind, count) = (self.number(4), self.number(8));
                let values: Vec<Meta> = (0..count).map(|_| self.value(kind)).collect();
                collect(kind, values)
            }
            other => panic!("value kind {other}"),
        }
    }
}

fn collect(kind: u64, values: Vec<Meta>) -> Meta {
    let values = values.into_iter();
    match kind {
        8 => Meta::Texts(values.map(text_of).collect()),
        6 => Meta::Floats(
            values
                .map(|v| if let Meta::Float(f) = v { f } else { 0.0 })
                .collect(),
        ),
        _ => Meta::Ints(
            values
                .map(|v| if let Meta::Int(i) = v { i } else { 0 })
                .collect(),
        ),
    }
}

fn text_of(value: Meta) -> String {
    match value {
        Meta::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

impl GgufMetadata for Header {
    fn string(&self, key: &str) -> Option<&str> {
        match self.0.get(key)? {
            Meta::Text(text) => Some(text),
            _ => None,
        }
    }

    fn strings(&self, key: &str) -> Option<&[String]> {
        match self.0.get(key)? {
            Meta::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    fn floats(&self, key: &str) -> Option<Vec<f32>> {
        match self.0.get(key)? {
            Meta::Floats(floats) => Some(floats.clone()),
            _ => None,
        }
    }

    fn ints(&self, key: &str) -> Option<Vec<i64>> {
        match self.0.get(key)? {
            Meta::Ints(ints) => Some(ints.clone()),
            _ => None,
        }
    }

    fn uint(&self, key: &str) -> Option<u64> {
        match self.0.get(key)? {
            Meta::Int(int) => u64::try_from(*int).ok(),
            _ => None,
        }
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        match self.0.get(key)? {
            Meta::Bool(boolean) => Some(*boolean),
            _ => None,
        }
    }

    fn keys_with_prefix(&self, prefix: &str) -> Vec<&str> {
        let keys = self.0.keys().map(String::as_str);
        keys.filter(|key| key.starts_with(prefix)).collect()
    }
}
