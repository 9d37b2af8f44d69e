//! Reads a GGUF header from bytes that arrive in pieces of any size.
//!
//! The reader is a state machine. In every state it knows how many bytes it needs next; it takes
//! exactly these, and only then allocates for them. So whatever counts and lengths a file claims,
//! the reader never holds more than a small multiple of the bytes that it has been given.

use std::collections::BTreeMap;

use super::bytes::Order;
use super::value::ValueType;
use super::{Array, Gguf, Value};
use crate::error::FormatError;
use crate::sniff::looks_like;
use crate::tensor::TensorInfo;

pub(super) type Result<T, E = FormatError> = std::result::Result<T, E>;

/// `GGML_MAX_DIMS`.
const MAX_DIMS: u32 = 4;
/// Scalars of an array that are taken at once.
const CHUNK: u64 = 1024;
/// The alignment of tensor data where `general.alignment` says nothing else.
const DEFAULT_ALIGNMENT: u64 = 32;

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
pub(super) enum State {
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
pub(super) struct Frame {
    pub of: ValueType,
    pub left: u64,
    pub array: Array,
}

/// Reads a GGUF header from bytes that arrive in pieces of any size.
///
/// ```
/// # use wisp_weights::gguf::{GgufReader, Limits, Progress};
/// # fn main() -> Result<(), wisp_weights::FormatError> {
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
    pub(super) limits: Limits,
    state: State,
    /// The first bytes of what the state needs.
    pending: Vec<u8>,
    /// Bytes taken so far.
    pub(super) offset: u64,
    pub(super) version: u32,
    pub(super) order: Order,
    pub(super) keys_left: u64,
    pub(super) tensors_left: u64,
    /// The key, or the tensor's name, that is being read.
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) frames: Vec<Frame>,
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) alignment: u64,
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
        let head = self.pending.as_slice();
        let gguf = head.starts_with(b"GGUF") || b"GGUF".starts_with(head);
        if self.state == State::Preamble && (head.is_empty() || !gguf) {
            return not_gguf(head);
        }
        FormatError::Truncated {
            len: self.offset + head.len() as u64,
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
    pub(super) fn count_bytes(&self) -> usize {
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
            | State::Scalars(_) => format!("the value of key `{}`", self.name.escape_debug()),
            State::NameLength | State::Name(_) => "the list of tensors".into(),
            State::DimensionCount | State::Dimensions(_) | State::Placement => {
                format!("the description of tensor `{}`", self.name.escape_debug())
            }
        }
    }

    /// Fails if the file, or the longest header, has no room for so many more bytes.
    pub(super) fn check_room(&self, bytes: u64, what: impl FnOnce() -> String) -> Result<()> {
        self.check_count(bytes, 1, what)
    }

    /// Fails if the file, or the longest header, has no room for so many things of a least size.
    pub(super) fn check_count(
        &self,
        count: u64,
        least: u64,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
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
    pub(super) fn next_entry(&self) -> State {
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
