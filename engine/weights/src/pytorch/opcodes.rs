//! The instructions of pickles (protocols 0 to 5) that a state dict may have, as Python's `pickletools`
//! lists them: their bytes and arguments.

/// An instruction of the pickle machine, with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Does nothing: the protocol's number, the length of a frame.
    Skip,
    Stop,
    Mark,
    Pop,
    PopMark,
    None,
    Bool,
    /// A little-endian integer; signed if it has four bytes.
    Int,
    /// A little-endian two's complement number.
    Long,
    /// An integer in decimal digits.
    IntText,
    /// A float, in bytes or decimal digits.
    Float,
    Text,
    Bytes,
    EmptyTuple,
    /// A tuple of this many of the topmost values.
    TupleOf(usize),
    /// A tuple of the values above the mark.
    Tuple,
    EmptyList,
    List,
    Append,
    Appends,
    EmptyDict,
    Dict,
    SetItem,
    SetItems,
    /// Stores the topmost value in the memo under a number.
    Put,
    /// Stores the topmost value in the memo under the next number.
    Memoize,
    /// Pushes a value of the memo.
    Get,
    /// Pushes the function of a module.
    Global,
    /// Pushes the function whose module and name are on the stack.
    StackGlobal,
    /// Calls a function.
    Reduce,
    /// Sets the attributes of an object.
    Build,
    /// Pushes an object from outside the pickle: a storage.
    PersistentId,
}

/// The argument that follows an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    None,
    /// This many bytes.
    Fixed(usize),
    /// A length of this many bytes, followed by that number of bytes.
    Counted(usize),
    /// This many lines.
    Lines(usize),
}

/// Returns the instruction with this byte, and its argument.
pub(super) fn decode(byte: u8) -> Option<(Op, Argument)> {
    use Argument::{Counted, Fixed, Lines, None as Nothing};
    Some(match byte {
        0x80 => (Op::Skip, Fixed(1)),
        0x95 => (Op::Skip, Fixed(8)),
        b'.' => (Op::Stop, Nothing),
        b'(' => (Op::Mark, Nothing),
        b'0' => (Op::Pop, Nothing),
        b'1' => (Op::PopMark, Nothing),
        b'N' => (Op::None, Nothing),
        0x88 | 0x89 => (Op::Bool, Nothing),
        b'K' => (Op::Int, Fixed(1)),
        b'M' => (Op::Int, Fixed(2)),
        b'J' => (Op::Int, Fixed(4)),
        0x8a => (Op::Long, Counted(1)),
        0x8b => (Op::Long, Counted(4)),
        b'I' | b'L' => (Op::IntText, Lines(1)),
        b'F' => (Op::Float, Lines(1)),
        b'G' => (Op::Float, Fixed(8)),
        b'U' | 0x8c => (Op::Text, Counted(1)),
        b'T' | b'X' => (Op::Text, Counted(4)),
        0x8d => (Op::Text, Counted(8)),
        b'C' => (Op::Bytes, Counted(1)),
        b'B' => (Op::Bytes, Counted(4)),
        0x8e => (Op::Bytes, Counted(8)),
        b')' => (Op::EmptyTuple, Nothing),
        0x85 => (Op::TupleOf(1), Nothing),
        0x86 => (Op::TupleOf(2), Nothing),
        0x87 => (Op::TupleOf(3), Nothing),
        b't' => (Op::Tuple, Nothing),
        b']' => (Op::EmptyList, Nothing),
        b'l' => (Op::List, Nothing),
        b'a' => (Op::Append, Nothing),
        b'e' => (Op::Appends, Nothing),
        b'}' => (Op::EmptyDict, Nothing),
        b'd' => (Op::Dict, Nothing),
        b's' => (Op::SetItem, Nothing),
        b'u' => (Op::SetItems, Nothing),
        b'p' => (Op::Put, Lines(1)),
        b'q' => (Op::Put, Fixed(1)),
        b'r' => (Op::Put, Fixed(4)),
        0x94 => (Op::Memoize, Nothing),
        b'g' => (Op::Get, Lines(1)),
        b'h' => (Op::Get, Fixed(1)),
        b'j' => (Op::Get, Fixed(4)),
        b'c' => (Op::Global, Lines(2)),
        0x93 => (Op::StackGlobal, Nothing),
        b'R' => (Op::Reduce, Nothing),
        b'b' => (Op::Build, Nothing),
        b'Q' => (Op::PersistentId, Nothing),
        _ => return None,
    })
}
