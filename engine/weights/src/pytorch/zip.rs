//! The directory of a zip archive whose entries are not compressed, as `torch.save` writes it.
//!
//! Crates for zip read and write every method of compression and have a dozen dependencies, whereas only
//! the locations of stored entries are needed here. The layout is that of PKWARE's APPNOTE.TXT, section
//! 4.3.

use std::collections::HashMap;
use std::ops::Range;

use super::little_endian::unsigned;
use crate::error::PytorchError;

/// The first bytes of an archive: the signature of its first entry.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

// The signatures of records.
const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;

// The sizes of their fixed parts.
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
const LOCATOR64_BYTES: usize = 20;

/// The value of a size or an offset that is in the zip64 field instead.
const IN_ZIP64_FIELD: u64 = u32::MAX as u64;
/// The id of the zip64 field.
const ZIP64_FIELD: u16 = 1;

/// An entry of the directory.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The offset of the local header.
    header: u64,
    /// The size in bytes.
    len: u64,
    /// True if the entry is neither compressed nor encrypted.
    stored: bool,
}

/// The directory of an archive.
#[derive(Debug)]
pub(super) struct Directory {
    names: Vec<String>,
    entries: HashMap<String, Entry>,
}

fn damaged(problem: &'static str) -> PytorchError {
    PytorchError::Zip { problem }
}

/// Reads a little-endian number of `size` bytes, 8 at most, at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    Some(unsigned(field))
}

fn has_signature(bytes: &[u8], at: usize, signature: u32) -> bool {
    number(bytes, at, 4) == Some(signature.into())
}

/// Returns the offset of the directory and the number of its entries.
fn find_directory(file: &[u8]) -> Result<(u64, u64), PytorchError> {
    let missing = || damaged("its directory is missing");
    // A comment of up to 64 KiB may follow the end record.
    let last = file.len().checked_sub(END_BYTES).ok_or_else(missing)?;
    let first = last.saturating_sub(u16::MAX.into());
    let end = (first..=last)
        .rev()
        .find(|&at| has_signature(file, at, END))
        .ok_or_else(missing)?;
    let field = |at, size| number(file, at, size).ok_or_else(missing);
    let (count, start) = (field(end + 10, 2)?, field(end + 16, 4)?);
    let locator = end.checked_sub(LOCATOR64_BYTES);
    let Some(locator) = locator.filter(|&at| has_signature(file, at, LOCATOR64)) else {
        return Ok((start, count));
    };
    let end64 = usize::try_from(field(locator + 8, 8)?).map_err(|_| missing())?;
    let at = |offset: usize| end64.checked_add(offset).ok_or_else(missing);
    if !has_signature(file, end64, END64) {
        return Err(missing());
    }
    Ok((field(at(48)?, 8)?, field(at(32)?, 8)?))
}

impl Directory {
    /// Parses the directory, which is at the end of the archive.
    pub fn parse(file: &[u8]) -> Result<Directory, PytorchError> {
        let (start, count) = find_directory(file)?;
        let mut at =
            usize::try_from(start).map_err(|_| damaged("its directory is outside the file"))?;
        let mut directory = Directory {
            names: Vec::new(),
            entries: HashMap::new(),
        };
        for _ in 0..count {
            let cut = || damaged("its directory is cut off");
            if !has_signature(file, at, CENTRAL) {
                return Err(cut());
            }
            let field = |offset: usize, size| number(file, at + offset, size).ok_or_else(cut);
            let part = |from: usize, len: u64| {
                let end = from.checked_add(len as usize)?;
                file.get(from..end)
            };
            let (name_len, extra_len, comment_len) = (field(28, 2)?, field(30, 2)?, field(32, 2)?);
            let name = part(at + CENTRAL_BYTES, name_len).ok_or_else(cut)?;
            let extra_at = at + CENTRAL_BYTES + name_len as usize;
            let extra = part(extra_at, extra_len).ok_or_else(cut)?;
            let (packed, len, header) = (field(20, 4)?, field(24, 4)?, field(42, 4)?);
            let [len, packed, header] = zip64([len, packed, header], extra).ok_or_else(cut)?;
            let flags = field(8, 2)?;
            let entry = Entry {
                header,
                len,
                stored: field(10, 2)? == 0 && flags & 1 == 0 && packed == len,
            };
            at = extra_at + extra_len as usize + comment_len as usize;
            let name = std::str::from_utf8(name).map_err(|_| damaged("a name is not UTF-8"))?;
            if directory.entries.insert(name.into(), entry).is_some() {
                return Err(damaged("a name appears twice"));
            }
            directory.names.push(name.into());
        }
        Ok(directory)
    }

    /// Iterates over the names of the entries, in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the location of an entry's bytes in the file; `None` if there is no such entry.
    ///
    /// # Errors
    ///
    /// If the entry is compressed, or not inside the file.
    pub fn find(&self, file: &[u8], name: &str) -> Result<Option<Range<u64>>, PytorchError> {
        let Some(entry) = self.entries.get(name) else {
            return Ok(None);
        };
        if !entry.stored {
            return Err(PytorchError::Compressed { entry: name.into() });
        }
        let outside = || damaged("an entry is outside the file");
        let at = usize::try_from(entry.header).map_err(|_| outside())?;
        if !has_signature(file, at, LOCAL) {
            return Err(outside());
        }
        let field = |offset| number(file, at + offset, 2).ok_or_else(outside);
        let start = entry.header + LOCAL_BYTES as u64 + field(26)? + field(28)?;
        let end = start.checked_add(entry.len).ok_or_else(outside)?;
        match end <= file.len() as u64 {
            true => Ok(Some(start..end)),
            false => Err(outside()),
        }
    }
}

/// Replaces those of the length, the packed length and the offset that are in the zip64 field, in this
/// order.
fn zip64(mut fields: [u64; 3], mut extra: &[u8]) -> Option<[u64; 3]> {
    if fields.iter().all(|&field| field != IN_ZIP64_FIELD) {
        return Some(fields);
    }
    while extra.len() >= 4 {
        let (id, len) = (number(extra, 0, 2)?, number(extra, 2, 2)? as usize);
        let field = extra.get(4..4 + len)?;
        if id == u64::from(ZIP64_FIELD) {
            let wanted = fields.iter_mut().filter(|field| **field == IN_ZIP64_FIELD);
            for (i, wanted) in wanted.enumerate() {
                *wanted = number(field, 8 * i, 8)?;
            }
            return Some(fields);
        }
        extra = &extra[4 + len..];
    }
    None
}
