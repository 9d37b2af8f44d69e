//! The states of the reader.

use super::value_type::ValueType;

/// The largest number of an array's scalars that are taken at once.
const CHUNK: u64 = 1024;

/// What the next bytes of the header are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    /// The magic and the version.
    Preamble,
    /// The numbers of tensors and keys.
    Counts,
    KeyLength,
    /// A key of this length in bytes.
    Key(usize),
    ValueType,
    Scalar(ValueType),
    StringLength,
    /// A string of this length in bytes.
    String(usize),
    /// The type and number of an array's elements.
    ArrayHead,
    /// Elements of an array.
    Scalars(ValueType),
    NameLength,
    /// A tensor's name of this length in bytes.
    Name(usize),
    DimensionCount,
    /// The dimensions of a tensor, this many.
    Dimensions(u32),
    /// The type and offset of a tensor.
    Placement,
    /// The header was returned, or an error was.
    Finished,
}

impl State {
    /// Returns the number of bytes that the state takes, given the size of a count and the number of
    /// elements that remain of the innermost array.
    pub fn need(self, count_bytes: usize, remaining: u64) -> usize {
        match self {
            State::Preamble => 8,
            State::Counts => 2 * count_bytes,
            State::KeyLength | State::NameLength | State::StringLength => count_bytes,
            State::Key(len) | State::Name(len) | State::String(len) => len,
            State::ValueType | State::DimensionCount => 4,
            State::Scalar(of) => of.fixed_bytes().unwrap_or(0),
            State::ArrayHead => 4 + count_bytes,
            // At most CHUNK, so it fits.
            State::Scalars(of) => remaining.min(CHUNK) as usize * of.fixed_bytes().unwrap_or(0),
            State::Dimensions(count) => count as usize * count_bytes,
            State::Placement => 12,
            State::Finished => 0,
        }
    }

    /// Returns the part of the header that the state belongs to, for messages. `name` is the key or the
    /// name of the tensor that is being read.
    pub fn place(self, name: &str) -> String {
        match self {
            State::Preamble | State::Counts | State::Finished => "the header".into(),
            State::KeyLength | State::Key(_) => "the metadata's keys".into(),
            State::ValueType
            | State::Scalar(_)
            | State::StringLength
            | State::String(_)
            | State::ArrayHead
            | State::Scalars(_) => format!("the value of key `{}`", name.escape_debug()),
            State::NameLength | State::Name(_) => "the list of tensors".into(),
            State::DimensionCount | State::Dimensions(_) | State::Placement => {
                format!("the description of tensor `{}`", name.escape_debug())
            }
        }
    }
}
