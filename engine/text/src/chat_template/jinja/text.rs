//! Strings of a template, and what writes them.

use std::cell::{Ref, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use super::fault::{Fault, Reason, Result};
use super::meter::{Allocation, Meter};

/// What a string takes beside its bytes.
const OVERHEAD: usize = 80;

/// A string. Clones share its bytes.
///
/// A string that was made is the beginning of a buffer. Whoever has all of the buffer can append to it
/// in place, and the others still have their beginnings. So `x = x + piece` in a loop takes the time
/// of the pieces.
#[derive(Debug, Clone)]
pub enum Text {
    /// A part of the source.
    Literal(Arc<str>),
    /// The first bytes of a buffer.
    Made(Rc<RefCell<Buffer>>, usize),
}

/// A growing string whose memory is counted.
#[derive(Debug)]
pub struct Buffer {
    text: String,
    allocation: Allocation,
}

impl Buffer {
    fn new(meter: &Rc<Meter>) -> Result<Self> {
        let allocation = Allocation::new(meter, OVERHEAD)?;
        let text = String::new();
        Ok(Self { text, allocation })
    }

    /// Counts the memory and the work of more bytes, and makes room for them.
    fn reserve(&mut self, more: usize) -> Result<()> {
        let length = self.text.len().saturating_add(more);
        if length <= self.text.capacity() {
            return self.allocation.meter().scan(more);
        }
        let longest = self
            .allocation
            .meter()
            .limits()
            .value
            .saturating_sub(OVERHEAD);
        let capacity = length.max((self.text.len() * 2).min(longest));
        self.allocation.resize(capacity.saturating_add(OVERHEAD))?;
        self.allocation.meter().scan(more)?;
        self.text.reserve_exact(capacity - self.text.len());
        Ok(())
    }

    fn push(&mut self, text: &str) -> Result<()> {
        self.reserve(text.len())?;
        self.text.push_str(text);
        Ok(())
    }
}

/// The borrowed bytes of a [`Text`].
pub enum TextRef<'t> {
    Literal(&'t str),
    Made(Ref<'t, str>),
}

impl Deref for TextRef<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Literal(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl Text {
    /// Copies a string.
    pub fn new(meter: &Rc<Meter>, text: &str) -> Result<Self> {
        let mut writer = Writer::new(meter)?;
        writer.push(text)?;
        Ok(writer.finish())
    }

    pub fn read(&self) -> TextRef<'_> {
        match self {
            Self::Literal(text) => TextRef::Literal(text),
            Self::Made(buffer, length) => {
                let text = Ref::map(buffer.borrow(), |buffer| &buffer.text[..*length]);
                TextRef::Made(text)
            }
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Literal(text) => text.len(),
            Self::Made(_, length) => *length,
        }
    }

    /// Returns this string and another one, in this one's buffer if nobody has appended to it.
    pub fn concat(&self, meter: &Rc<Meter>, other: &Self) -> Result<Self> {
        if let Self::Made(buffer, length) = self {
            let is_whole = buffer.borrow().text.len() == *length;
            let is_same = matches!(other, Self::Made(other, _) if Rc::ptr_eq(buffer, other));
            if is_whole && !is_same {
                let other = other.read();
                buffer.borrow_mut().push(&other)?;
                return Ok(Self::Made(buffer.clone(), length + other.len()));
            }
        }
        let mut writer = Writer::new(meter)?;
        writer.push(&self.read())?;
        writer.push(&other.read())?;
        Ok(writer.finish())
    }
}

/// Writes a string, whose size is checked before it grows.
#[derive(Debug)]
pub struct Writer {
    buffer: Buffer,
    /// The longest output, if this writes the output.
    output: Option<usize>,
}

impl Writer {
    /// Writes a value.
    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(Self {
            buffer: Buffer::new(meter)?,
            output: None,
        })
    }

    /// Writes the output of a template.
    pub fn for_output(meter: &Rc<Meter>) -> Result<Self> {
        let mut writer = Self::new(meter)?;
        writer.output = Some(meter.limits().output);
        Ok(writer)
    }

    pub fn push(&mut self, text: &str) -> Result<()> {
        if let Some(limit) = self.output {
            let length = self.buffer.text.len().saturating_add(text.len());
            if length > limit {
                return Err(Fault::new(Reason::Output(limit)));
            }
        }
        self.buffer.push(text)
    }

    /// Writes characters without a step for each.
    pub fn extend(&mut self, characters: impl Iterator<Item = char>) -> Result<()> {
        let mut chunk = String::with_capacity(1 << 10);
        for character in characters {
            chunk.push(character);
            if chunk.len() > 1 << 10 {
                self.push(&chunk)?;
                chunk.clear();
            }
        }
        self.push(&chunk)
    }

    /// Writes a text again and again, after a check of the whole size.
    pub fn repeat(&mut self, text: &str, count: usize) -> Result<()> {
        self.buffer.reserve(text.len().saturating_mul(count))?;
        if text.is_empty() {
            return Ok(());
        }
        let together = ((1 << 12) / text.len()).clamp(1, count.max(1));
        let block = text.repeat(together);
        for _ in 0..count / together {
            self.buffer.text.push_str(&block);
        }
        self.buffer
            .text
            .push_str(&block[..count % together * text.len()]);
        Ok(())
    }

    pub fn finish(self) -> Text {
        let length = self.buffer.text.len();
        Text::Made(Rc::new(RefCell::new(self.buffer)), length)
    }

    pub fn into_string(self) -> String {
        self.buffer.text
    }
}
