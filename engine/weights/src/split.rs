//! GGUF checkpoints in several files: `NAME-00001-of-00003.gguf`, as llama.cpp's gguf-split
//! writes them.

use super::WeightError;
use super::gguf::Gguf;

/// A part's place, as its file's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartName {
    /// What all parts' names start with.
    pub prefix: String,
    /// Which part it is, from 1.
    pub number: u32,
    /// How many parts there are.
    pub count: u32,
}

impl PartName {
    /// Reads a file's name; `None` if it is not that of a part.
    pub fn parse(file_name: &str) -> Option<PartName> {
        let stem = file_name.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| {
            let five = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            five.then(|| text.parse().ok()).flatten()
        };
        let (number, count) = (digits(number)?, digits(count)?);
        (1..=count).contains(&number).then(|| PartName {
            prefix: prefix.into(),
            number,
            count,
        })
    }

    /// The file name of another part of the same checkpoint.
    pub fn part(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.prefix, self.count)
    }
}

/// How many parts the checkpoint has that this file belongs to, as its header says.
pub(super) fn part_count(gguf: &Gguf, file: &str) -> Result<u32, WeightError> {
    let count = gguf
        .get::<u32>("split.count")
        .map_err(|error| error.in_file(file))?;
    Ok(count.unwrap_or(1).max(1))
}

/// Checks that a part is the one that its file's name says.
pub(super) fn check_part(gguf: &Gguf, file: &str, name: &PartName) -> Result<(), WeightError> {
    let error = |reason: String| WeightError::Parts {
        file: file.into(),
        reason,
    };
    let count = part_count(gguf, file)?;
    if count != name.count {
        return Err(error(format!(
            "its header says {count} parts, its name {}",
            name.count
        )));
    }
    let number = gguf
        .require::<u32>("split.no")
        .map_err(|error| error.in_file(file))?;
    if number.checked_add(1) != Some(name.number) {
        return Err(error(format!(
            "its header says that it is part {} (counted from 0), its name part {} (from 1)",
            number, name.number
        )));
    }
    Ok(())
}

/// Checks that a part is the one that its file's name, which must be a part's, says.
pub(super) fn check_named_part(gguf: &Gguf, file: &str) -> Result<(), WeightError> {
    match PartName::parse(file) {
        Some(name) => check_part(gguf, file, &name),
        None => Err(WeightError::Parts {
            file: file.into(),
            reason: "it is one of several parts; expected a name like NAME-00001-of-00002.gguf"
                .into(),
        }),
    }
}

/// Checks that the parts have as many tensors as the first one says.
pub(super) fn check_total(first: &Gguf, file: &str, tensors: usize) -> Result<(), WeightError> {
    let expected = first
        .get::<u64>("split.tensors.count")
        .map_err(|error| error.in_file(file))?;
    match expected {
        Some(expected) if expected != tensors as u64 => Err(WeightError::Parts {
            file: file.into(),
            reason: format!(
                "its header says {expected} tensors; all parts together have {tensors}"
            ),
        }),
        _ => Ok(()),
    }
}
