//! Reads a GGUF header from bytes that arrive in pieces of any size.
//!
//! The reader is a state machine. In every state it knows how many bytes it needs next; it takes
//! exactly these, and only then allocates for them. So whatever counts and lengths a file claims,
//! the reader never holds more than a small multiple of the bytes that it has been given.

use std::collections::BTreeMap;

use super::bytes::Order;
use super::ggml_type::GgmlType;
use super::value::ValueType;
use super::{Array, Gguf, Value};
use crate::weights::error::FormatError;
use crate::weights::sniff::looks_like;
use crate::weights::tensor::TensorInfo;

type Result<T, E = FormatError> = std::result::Result<T, E>;

/// `GGML_MAX_DIMS`.
const MAX_DIMS: u32 = 4;
/// Scalars of an array that are taken at once.
const CHUNK: u64 = 1024;
/// The alignment of tensor data where `general.alignment` says nothing else.
const DEFAULT_ALIGNMENT: u64 = 32;
/// Larger alignments are no use to anybody and mean a damaged file.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// What a [`GgufReader`] accepts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Length of the whole file in bytes, where it is known. With it, tensors are checked to lie
    /// inside the file and a file that ends early is told apart at once.
    pub file_len: Option<u64>,
    /// The longest header accepted, in bytes.
    pub header_bytes: u64,
    /// The longest key and tensor name accepted, in bytes.
    pub name_bytes: u64,
    /// How deep arrays may nest.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_len: None,
            header_bytes: 512 << 20,
            name_bytes: 65_535,
            depth: 8,
        }
    }
}

/// What came of pushing bytes to a [`GgufReader`].
#[derive(Debug)]
pub enum Progress {
    /// The header goes on for at least this many bytes.
    Need(u64),
    /// The header is complete.
    Done(Box<Gguf>),
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Preamble,
    Counts,
    KeyLength,
    Key(usize),
    ValueType,
    Scalar(ValueType),
    StringLength,
    String(usize),
    ArrayHead,
    Scalars(ValueType),
    NameLength,
    Name(usize),
    DimensionCount,
    Dimensions(u32),
    Placement,
    /// The header was handed out, or an error was.
    Finished,
}

/// An array whose elements are being read.
struct Frame {
    of: ValueType,
    left: u64,
    array: Array,
}

/// Reads a GGUF header from bytes that arrive in pieces of any size.
///
/// ```
/// # use wisp_engine::weights::gguf::{GgufReader, Limits, Progress};
/// # fn main() -> Result<(), wisp_engine::weights::FormatError> {
/// # let pieces = [&b"GGUF\x03\0\0\0\0\0\0\0\0"[..], &b"\0\0\0\0\0\0\0\0\0\0\0"[..]];
/// let mut reader = GgufReader::new(Limits::default());
/// for piece in pieces {
///     if let Progress::Done(gguf) = reader.push(piece)? {
///         println!("{} tensors", gguf.tensors.len());
///         return Ok(());
///     }
/// }
/// Err(reader.truncated())
/// # }
/// ```
pub struct GgufReader {
    limits: Limits,
    state: State,
    /// The first bytes of what the state needs.
    pending: Vec<u8>,
    /// Bytes taken so far.
    offset: u64,
    version: u32,
    order: Order,
    keys_left: u64,
    tensors_left: u64,
    /// The key, or the tensor's name, that is being read.
    name: String,
    shape: Vec<u64>,
    frames: Vec<Frame>,
    metadata: BTreeMap<String, Value>,
    tensors: Vec<TensorInfo>,
    alignment: u64,
}

impl GgufReader {
    /// A reader at the start of a file.
    pub fn new(limits: Limits) -> GgufReader {
        GgufReader {
            limits,
            state: State::Preamble,
            pending: Vec::new(),
            offset: 0,
            version: 0,
            order: Order::Little,
            keys_left: 0,
            tensors_left: 0,
            name: String::new(),
            shape: Vec::new(),
            frames: Vec::new(),
            metadata: BTreeMap::new(),
            tensors: Vec::new(),
            alignment: DEFAULT_ALIGNMENT,
        }
    }

    /// Takes the next bytes of the file; those after the header's end are ignored.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the file, as soon as the bytes so far show it. After an error, or
    /// after [`Progress::Done`], every push is [`FormatError::Finished`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress> {
        let result = self.take(bytes);
        if !matches!(result, Ok(Progress::Need(_))) {
            self.state = State::Finished;
        }
        result
    }

    /// The error of a file that ends after the bytes pushed so far.
    pub fn truncated(&self) -> FormatError {
        if self.state == State::Preamble && !b"GGUF".starts_with(&self.pending) {
            return not_gguf(&self.pending);
        }
        FormatError::Truncated {
            len: self.offset + self.pending.len() as u64,
            inside: self.place(),
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<Progress> {
        if self.state == State::Finished {
            return Err(FormatError::Finished);
        }
        loop {
            let need = self.need();
            let have = self.pending.len();
            if have == 0
                && let Some((atom, rest)) = bytes.split_at_checked(need)
            {
                bytes = rest;
                self.offset += need as u64;
                self.step(atom)?;
            } else {
                let (piece, rest) = bytes.split_at((need - have).min(bytes.len()));
                bytes = rest;
                self.pending.extend_from_slice(piece);
                if self.pending.len() < need {
                    // Of a first part that is no GGUF, `truncated` knows more.
                    if self.state != State::Preamble {
                        self.check_room(need as u64, || "the length".into())?;
                    }
                    return Ok(Progress::Need((need - self.pending.len()) as u64));
                }
                let atom = std::mem::take(&mut self.pending);
                self.offset += need as u64;
                self.step(&atom)?;
            }
            if self.keys_left == 0 && self.tensors_left == 0 && self.state == State::NameLength {
                return Ok(Progress::Done(Box::new(self.finish()?)));
            }
        }
    }

    /// Bytes of a count or a length: version 1 had 32 bits.
    fn count_bytes(&self) -> usize {
        if self.version == 1 { 4 } else { 8 }
    }

    /// How many bytes the current state takes.
    fn need(&self) -> usize {
        match self.state {
            State::Preamble => 8,
            State::Counts => 2 * self.count_bytes(),
            State::KeyLength | State::NameLength | State::StringLength => self.count_bytes(),
            State::Key(len) | State::Name(len) | State::String(len) => len,
            State::ValueType | State::DimensionCount => 4,
            State::Scalar(of) => of.fixed_bytes().unwrap_or(0),
            State::ArrayHead => 4 + self.count_bytes(),
            State::Scalars(of) => {
                let left = self.frames.last().map_or(0, |frame| frame.left);
                // At most CHUNK, so it fits.
                left.min(CHUNK) as usize * of.fixed_bytes().unwrap_or(0)
            }
            State::Dimensions(count) => count as usize * self.count_bytes(),
            State::Placement => 12,
            State::Finished => 0,
        }
    }

    /// Where the reader stands, for messages.
    fn place(&self) -> String {
        match self.state {
            State::Preamble | State::Counts | State::Finished => "the header".into(),
            State::KeyLength | State::Key(_) => "the metadata's keys".into(),
            State::ValueType
            | State::Scalar(_)
            | State::StringLength
            | State::String(_)
            | State::ArrayHead
            | State::Scalars(_) => format!("the value of key `{}`", self.name),
            State::NameLength | State::Name(_) => "the list of tensors".into(),
            State::DimensionCount | State::Dimensions(_) | State::Placement => {
                format!("the description of tensor `{}`", self.name)
            }
        }
    }

    /// Fails if the file, or the longest header, has no room for so many more bytes.
    fn check_room(&self, bytes: u64, what: impl FnOnce() -> String) -> Result<()> {
        self.check_count(bytes, 1, what)
    }

    /// Fails if the file, or the longest header, has no room for so many things of a least size.
    fn check_count(&self, count: u64, least: u64, what: impl FnOnce() -> String) -> Result<()> {
        let room = self.limits.header_bytes.saturating_sub(self.offset);
        if count > room / least {
            return Err(FormatError::TooMany {
                what: format!("{} in {}", what(), self.place()),
                claimed: count,
                most: room / least,
            });
        }
        match self.limits.file_len {
            Some(len) if count > len.saturating_sub(self.offset) / least => {
                Err(FormatError::Truncated {
                    len,
                    inside: self.place(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Takes exactly the bytes that the current state needs.
    fn step(&mut self, bytes: &[u8]) -> Result<()> {
        self.state = match self.state {
            State::Preamble => self.preamble(bytes)?,
            State::Counts => self.counts(bytes)?,
            State::KeyLength => State::Key(self.name_length(bytes, "the length of a key")?),
            State::Key(_) => {
                self.name = text(bytes, "a key")?;
                State::ValueType
            }
            State::ValueType => match self.value_type(bytes)? {
                ValueType::String => State::StringLength,
                ValueType::Array => State::ArrayHead,
                of => State::Scalar(of),
            },
            State::Scalar(of) => {
                let value = self.scalar(of, bytes)?;
                self.complete(value)?
            }
            State::StringLength => {
                let len = self.order.count(bytes);
                self.check_room(len, || "the length of a string".into())?;
                // Not above `header_bytes` now; a platform that cannot address it cannot read it.
                State::String(usize::try_from(len).unwrap_or(usize::MAX))
            }
            State::String(_) => self.string(bytes)?,
            State::ArrayHead => self.array_head(bytes)?,
            State::Scalars(of) => self.scalars(of, bytes)?,
            State::NameLength => {
                State::Name(self.name_length(bytes, "the length of a tensor's name")?)
            }
            State::Name(_) => {
                self.name = text(bytes, "a tensor's name")?;
                State::DimensionCount
            }
            State::DimensionCount => match self.order.u32(bytes) {
                found if found > MAX_DIMS => {
                    return Err(FormatError::Dimensions {
                        tensor: self.name.clone(),
                        found,
                        max: MAX_DIMS,
                    });
                }
                count => State::Dimensions(count),
            },
            State::Dimensions(_) => {
                let order = self.order;
                // ggml lists the innermost dimension first.
                let sizes = bytes.chunks_exact(self.count_bytes()).rev();
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
        let little = Order::Little.u32(version);
        self.order = match little {
            1..=3 => Order::Little,
            _ if (1..=3).contains(&little.swap_bytes()) => Order::Big,
            found => return Err(FormatError::Version { found }),
        };
        self.version = self.order.u32(version);
        Ok(State::Counts)
    }

    fn counts(&mut self, bytes: &[u8]) -> Result<State> {
        let (tensors, keys) = bytes.split_at(self.count_bytes());
        self.tensors_left = self.order.count(tensors);
        self.keys_left = self.order.count(keys);
        let length = self.count_bytes() as u64;
        // A key has at least a length, a type and a byte; a tensor a length, a count of
        // dimensions, a type and an offset.
        self.check_count(self.keys_left, length + 5, || "the number of keys".into())?;
        self.check_count(self.tensors_left, length + 16, || {
            "the number of tensors".into()
        })?;
        Ok(self.next_entry())
    }

    /// What follows a complete key and value, or a complete tensor.
    fn next_entry(&self) -> State {
        if self.keys_left > 0 {
            State::KeyLength
        } else {
            State::NameLength
        }
    }

    fn name_length(&self, bytes: &[u8], what: &str) -> Result<usize> {
        let len = self.order.count(bytes);
        if len > self.limits.name_bytes {
            return Err(FormatError::TooMany {
                what: what.into(),
                claimed: len,
                most: self.limits.name_bytes,
            });
        }
        self.check_room(len, || what.into())?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn value_type(&self, bytes: &[u8]) -> Result<ValueType> {
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

    fn scalar(&self, of: ValueType, bytes: &[u8]) -> Result<Value> {
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
    fn string(&mut self, bytes: &[u8]) -> Result<State> {
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

    fn array_head(&mut self, bytes: &[u8]) -> Result<State> {
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
    fn scalars(&mut self, of: ValueType, bytes: &[u8]) -> Result<State> {
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
    fn complete(&mut self, value: Value) -> Result<State> {
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

    /// Takes a tensor's type and offset.
    fn placement(&mut self, bytes: &[u8]) -> Result<State> {
        let (id, offset) = bytes.split_at(4);
        let offset = self.order.u64(offset);
        let tensor = std::mem::take(&mut self.name);
        let shape = std::mem::take(&mut self.shape);
        let ggml_type = match GgmlType::from_id(self.order.u32(id)) {
            Ok(ggml_type) => ggml_type,
            Err(found) => return Err(FormatError::UnknownType { tensor, found }),
        };
        let weights = shape
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size));
        let Some(weights) = weights.filter(|&weights| weights > 0) else {
            return Err(FormatError::Shape { tensor, shape });
        };
        let cols = shape.last().copied().unwrap_or(1);
        if !cols.is_multiple_of(ggml_type.block_weights) {
            return Err(FormatError::Row {
                tensor,
                stored: ggml_type.stored.to_string(),
                cols,
                block: ggml_type.block_weights,
            });
        }
        let blocks = weights / ggml_type.block_weights;
        let Some(len) = blocks.checked_mul(ggml_type.block_bytes) else {
            return Err(FormatError::Shape { tensor, shape });
        };
        if !offset.is_multiple_of(self.alignment) {
            return Err(FormatError::Misaligned {
                tensor,
                offset,
                alignment: self.alignment,
            });
        }
        self.tensors.push(TensorInfo {
            name: tensor,
            stored: ggml_type.stored,
            shape,
            file: 0,
            offset,
            len,
            big_endian: self.order == Order::Big,
        });
        self.tensors_left -= 1;
        Ok(State::NameLength)
    }

    /// Checks the tensors against each other and the file, and hands everything out.
    fn finish(&mut self) -> Result<Gguf> {
        let mut tensors = std::mem::take(&mut self.tensors);
        // The header's length is at most `header_bytes` and the alignment at most
        // `MAX_ALIGNMENT`, unless the limit itself is absurd.
        let data_offset = self
            .offset
            .checked_next_multiple_of(self.alignment)
            .unwrap_or(u64::MAX);
        for tensor in &mut tensors {
            let start = data_offset.checked_add(tensor.offset);
            let end = start.and_then(|start| start.checked_add(tensor.len));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(FormatError::Offset {
                    tensor: tensor.name.clone(),
                    offset: tensor.offset,
                });
            };
            tensor.offset = start;
            if let Some(len) = self.limits.file_len
                && end > len
            {
                return Err(FormatError::Truncated {
                    len,
                    inside: format!("tensor `{}`, which ends at byte {end}", tensor.name),
                });
            }
        }
        let mut names: Vec<_> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(FormatError::Duplicate {
                what: "tensor",
                name: pair[0].into(),
            });
        }
        Ok(Gguf {
            version: self.version,
            big_endian: self.order == Order::Big,
            metadata: std::mem::take(&mut self.metadata),
            tensors,
            alignment: self.alignment,
            data_offset,
        })
    }
}

fn not_gguf(head: &[u8]) -> FormatError {
    FormatError::NotThisFormat {
        expected: "GGUF",
        found: looks_like(head),
    }
}

fn text(bytes: &[u8], what: &str) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(FormatError::NotText { what: what.into() }),
    }
}

fn alignment(value: &Value) -> Result<u64> {
    match super::FromValue::from_value(value) {
        Some(alignment) if u64::is_power_of_two(alignment) && alignment <= MAX_ALIGNMENT => {
            Ok(alignment)
        }
        _ => Err(FormatError::Alignment {
            found: value.summary().into_owned(),
            max: MAX_ALIGNMENT,
        }),
    }
}
