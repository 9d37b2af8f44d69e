//! Reading a GGUF header from bytes that arrive in chunks of any size.
//!
//! The reader is a state machine. In every state it knows how many bytes it needs next. It takes exactly
//! these, and only then allocates memory for what they describe. So whatever counts and lengths a file
//! claims, the reader never holds more than a small multiple of the bytes that it has received.

use std::collections::BTreeMap;

use super::{
    byte_order::ByteOrder,
    convert::FromValue,
    cursor::{Cursor, Limits},
    header::Gguf,
    state::State,
    tensor_infos::{Description, place_tensors, tensor_info},
    value::Value,
    value_type::ValueType,
    values::{self, ArrayStack, NextElement},
};
use crate::{error::FormatError, file_signature::describe, tensor::TensorInfo};

type Result<T, E = FormatError> = std::result::Result<T, E>;

/// The most dimensions of a tensor: ggml's `GGML_MAX_DIMS`.
const MAX_DIMS: u32 = 4;
/// The alignment of the tensors' data if `general.alignment` says nothing else, in bytes.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The largest alignment accepted, in bytes. Nothing needs more, so it would mean a damaged file.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// The progress of a [`GgufReader`].
#[derive(Debug)]
pub enum Progress {
    /// The header has at least this many bytes more.
    Need(u64),
    /// The header is complete.
    Done(Box<Gguf>),
}

/// Reads a GGUF header from bytes that arrive in chunks of any size.
///
/// ```
/// # use wisp_weights::gguf::{GgufReader, Limits, Progress};
/// # fn main() -> Result<(), wisp_weights::FormatError> {
/// # let chunks = [&b"GGUF\x03\0\0\0\0\0\0\0\0"[..], &b"\0\0\0\0\0\0\0\0\0\0\0"[..]];
/// let mut reader = GgufReader::new(Limits::default());
/// for chunk in chunks {
///     if let Progress::Done(gguf) = reader.push(chunk)? {
///         println!("{} tensors", gguf.tensors.len());
///         return Ok(());
///     }
/// }
/// Err(reader.truncated())
/// # }
/// ```
#[derive(Debug)]
pub struct GgufReader {
    cursor: Cursor,
    state: State,
    /// The first of the bytes that the state needs.
    pending: Vec<u8>,
    keys_left: u64,
    tensors_left: u64,
    /// The key, or the name of the tensor, that is being read.
    name: String,
    /// The shape of the tensor that is being read.
    shape: Vec<u64>,
    arrays: ArrayStack,
    metadata: BTreeMap<String, Value>,
    tensors: Vec<TensorInfo>,
    alignment: u64,
}

impl Gguf {
    /// Parses the header of a file that is in memory, and checks that its tensors are inside the file.
    ///
    /// # Errors
    ///
    /// If the file is not a sound GGUF file.
    pub fn parse(file: &[u8]) -> Result<Gguf> {
        let mut reader = GgufReader::new(Limits {
            file_len: Some(file.len() as u64),
            ..Limits::default()
        });
        match reader.push(file)? {
            Progress::Done(gguf) => Ok(*gguf),
            Progress::Need(_) => Err(reader.truncated()),
        }
    }
}

impl GgufReader {
    /// Creates a reader at the start of a file.
    pub fn new(limits: Limits) -> GgufReader {
        GgufReader {
            cursor: Cursor {
                limits,
                offset: 0,
                version: 0,
                order: ByteOrder::Little,
            },
            state: State::Preamble,
            pending: Vec::new(),
            keys_left: 0,
            tensors_left: 0,
            name: String::new(),
            shape: Vec::new(),
            arrays: ArrayStack::default(),
            metadata: BTreeMap::new(),
            tensors: Vec::new(),
            alignment: DEFAULT_ALIGNMENT,
        }
    }

    /// Takes the next bytes of the file. Those after the end of the header are ignored.
    ///
    /// # Errors
    ///
    /// If the bytes so far are not the start of a sound GGUF file. After an error, or after
    /// [`Progress::Done`], every call returns [`FormatError::Finished`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress> {
        let result = self.take(bytes);
        if !matches!(result, Ok(Progress::Need(_))) {
            self.state = State::Finished;
        }
        result
    }

    /// Returns the error for a file that ends after the bytes pushed so far.
    pub fn truncated(&self) -> FormatError {
        let head = self.pending.as_slice();
        let gguf = head.starts_with(b"GGUF") || b"GGUF".starts_with(head);
        if self.state == State::Preamble && (head.is_empty() || !gguf) {
            return not_gguf(head);
        }
        FormatError::Truncated {
            len: self.cursor.offset + head.len() as u64,
            inside: self.state.place(&self.name),
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<Progress> {
        if self.state == State::Finished {
            return Err(FormatError::Finished);
        }
        loop {
            let need = self
                .state
                .need(self.cursor.count_bytes(), self.arrays.remaining());
            let have = self.pending.len();
            if have == 0
                && let Some((needed, rest)) = bytes.split_at_checked(need)
            {
                bytes = rest;
                self.step(needed)?;
            } else {
                let (chunk, rest) = bytes.split_at((need - have).min(bytes.len()));
                bytes = rest;
                self.pending.extend_from_slice(chunk);
                if self.pending.len() < need {
                    // A first chunk that is not GGUF is reported by `truncated`, which knows more of it.
                    if self.state != State::Preamble {
                        self.check_count(need as u64, 1, "the length")?;
                    }
                    return Ok(Progress::Need((need - self.pending.len()) as u64));
                }
                let needed = std::mem::take(&mut self.pending);
                self.step(&needed)?;
            }
            if self.keys_left == 0 && self.tensors_left == 0 && self.state == State::NameLength {
                return Ok(Progress::Done(Box::new(self.finish()?)));
            }
        }
    }

    fn check_count(&self, count: u64, min_bytes: u64, what: &str) -> Result<()> {
        let place = || self.state.place(&self.name);
        self.cursor.check_count(count, min_bytes, what, place)
    }

    /// Takes exactly the bytes that the current state needs.
    fn step(&mut self, bytes: &[u8]) -> Result<()> {
        self.cursor.offset += bytes.len() as u64;
        let order = self.cursor.order;
        self.state = match self.state {
            State::Preamble => self.preamble(bytes)?,
            State::Counts => self.counts(bytes)?,
            State::KeyLength => State::Key(self.name_length(bytes, "the length of a key")?),
            State::Key(_) => {
                self.name = text(bytes, "a key")?;
                State::ValueType
            }
            State::ValueType => match values::value_type(order, &self.name, bytes)? {
                ValueType::String => State::StringLength,
                ValueType::Array => State::ArrayHead,
                of => State::Scalar(of),
            },
            State::Scalar(of) => {
                let value = values::scalar(order, &self.name, of, bytes)?;
                self.insert_value(value)?
            }
            State::StringLength => {
                let len = order.count(bytes);
                self.check_count(len, 1, "the length of a string")?;
                // It is below `header_bytes` now. A platform that cannot address it cannot read it.
                State::String(usize::try_from(len).unwrap_or(usize::MAX))
            }
            State::String(_) => self.string(bytes)?,
            State::ArrayHead => self.array_head(bytes)?,
            State::Scalars(_) => {
                let next = self.arrays.push_scalars(order, &self.name, bytes)?;
                self.next_element(next)?
            }
            State::NameLength => {
                State::Name(self.name_length(bytes, "the length of a tensor's name")?)
            }
            State::Name(_) => {
                self.name = text(bytes, "a tensor's name")?;
                State::DimensionCount
            }
            State::DimensionCount => self.dimension_count(bytes)?,
            State::Dimensions(_) => {
                // ggml lists the innermost dimension first.
                let sizes = bytes.chunks_exact(self.cursor.count_bytes()).rev();
                self.shape = sizes.map(|size| order.count(size)).collect();
                State::Placement
            }
            State::Placement => self.placement(bytes)?,
            State::Finished => State::Finished,
        };
        Ok(())
    }

    fn preamble(&mut self, bytes: &[u8]) -> Result<State> {
        let Some(version) = bytes.strip_prefix(b"GGUF") else {
            return Err(not_gguf(bytes));
        };
        let little = ByteOrder::Little.u32(version);
        self.cursor.order = match little {
            1..=3 => ByteOrder::Little,
            _ if (1..=3).contains(&little.swap_bytes()) => ByteOrder::Big,
            found => return Err(FormatError::Version { found }),
        };
        self.cursor.version = self.cursor.order.u32(version);
        Ok(State::Counts)
    }

    fn counts(&mut self, bytes: &[u8]) -> Result<State> {
        let (tensors, keys) = bytes.split_at(self.cursor.count_bytes());
        self.tensors_left = self.cursor.order.count(tensors);
        self.keys_left = self.cursor.order.count(keys);
        let length = self.cursor.count_bytes() as u64;
        // A key has at least a length, a type and a byte; a tensor a length, a number of dimensions, a
        // type and an offset.
        self.check_count(self.keys_left, length + 5, "the number of keys")?;
        self.check_count(self.tensors_left, length + 16, "the number of tensors")?;
        Ok(self.next_entry())
    }

    /// The state after a complete key and value, or a complete tensor.
    fn next_entry(&self) -> State {
        if self.keys_left > 0 {
            State::KeyLength
        } else {
            State::NameLength
        }
    }

    fn name_length(&self, bytes: &[u8], what: &str) -> Result<usize> {
        let len = self.cursor.order.count(bytes);
        if len > self.cursor.limits.name_bytes {
            return Err(FormatError::TooMany {
                what: what.into(),
                claimed: len,
                most: self.cursor.limits.name_bytes,
            });
        }
        self.check_count(len, 1, what)?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Takes the bytes of a string, which need not be UTF-8, because vocabularies may hold parts of
    /// characters.
    fn string(&mut self, bytes: &[u8]) -> Result<State> {
        let text = String::from_utf8_lossy(bytes);
        match self.arrays.depth() {
            0 => self.insert_value(Value::String(text.into_owned())),
            _ => {
                let next = self.arrays.push_string(&text);
                self.next_element(next)
            }
        }
    }

    fn array_head(&mut self, bytes: &[u8]) -> Result<State> {
        let (of, count) = bytes.split_at(4);
        let of = values::value_type(self.cursor.order, &self.name, of)?;
        let count = self.cursor.order.count(count);
        let length = self.cursor.count_bytes();
        let min_bytes = match of {
            ValueType::String => length,
            ValueType::Array => 4 + length,
            scalar => scalar.fixed_bytes().unwrap_or(1),
        };
        self.check_count(count, min_bytes as u64, "the length of an array")?;
        if self.arrays.depth() >= self.cursor.limits.depth {
            return Err(FormatError::Depth {
                key: self.name.clone(),
                limit: self.cursor.limits.depth,
            });
        }
        let next = self.arrays.open(of, count);
        self.next_element(next)
    }

    /// The state after an element of an array.
    fn next_element(&mut self, next: Option<NextElement>) -> Result<State> {
        Ok(match next {
            Some(NextElement::String) => State::StringLength,
            Some(NextElement::Array) => State::ArrayHead,
            Some(NextElement::Scalars(of)) => State::Scalars(of),
            Some(NextElement::Complete(array)) => self.insert_value(Value::Array(array))?,
            None => self.next_entry(),
        })
    }

    /// Stores a complete value under its key.
    fn insert_value(&mut self, value: Value) -> Result<State> {
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

    fn dimension_count(&mut self, bytes: &[u8]) -> Result<State> {
        match self.cursor.order.u32(bytes) {
            found if found > MAX_DIMS => Err(FormatError::Dimensions {
                tensor: self.name.clone(),
                found,
                max: MAX_DIMS,
            }),
            count => Ok(State::Dimensions(count)),
        }
    }

    fn placement(&mut self, bytes: &[u8]) -> Result<State> {
        let (ggml_type, offset) = bytes.split_at(4);
        let description = Description {
            name: std::mem::take(&mut self.name),
            shape: std::mem::take(&mut self.shape),
            ggml_type: self.cursor.order.u32(ggml_type),
            offset: self.cursor.order.u64(offset),
            big_endian: self.cursor.order == ByteOrder::Big,
        };
        self.tensors.push(tensor_info(description, self.alignment)?);
        self.tensors_left -= 1;
        Ok(State::NameLength)
    }

    /// Checks the tensors against each other and the file, and returns the header.
    fn finish(&mut self) -> Result<Gguf> {
        let mut tensors = std::mem::take(&mut self.tensors);
        // The header is at most `header_bytes` long and the alignment at most `MAX_ALIGNMENT`, so this
        // only overflows if the limit itself is absurd.
        let offset = self.cursor.offset;
        let data_offset = offset.checked_next_multiple_of(self.alignment);
        let data_offset = data_offset.unwrap_or(u64::MAX);
        place_tensors(&mut tensors, data_offset, self.cursor.limits.file_len)?;
        Ok(Gguf {
            version: self.cursor.version,
            big_endian: self.cursor.order == ByteOrder::Big,
            metadata: std::mem::take(&mut self.metadata),
            tensors,
            alignment: self.alignment,
            data_offset,
        })
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

fn not_gguf(head: &[u8]) -> FormatError {
    FormatError::NotThisFormat {
        expected: "GGUF",
        found: describe(head),
    }
}

fn text(bytes: &[u8], what: &'static str) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(FormatError::NotUtf8 { what }),
    }
}
