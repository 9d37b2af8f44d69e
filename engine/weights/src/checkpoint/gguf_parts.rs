//! GGUF checkpoints in several parts, as llama.cpp's gguf-split writes them:
//! `NAME-00001-of-00003.gguf`.

use crate::{error::WeightError, gguf::Gguf};

/// The name of a part's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartName {
    /// The start of the names of all parts.
    prefix: String,
    /// The number of the part, from 1.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
}

impl PartName {
    /// Parses a file name; `None` if it is not that of a part.
    pub fn parse(file_name: &str) -> Option<PartName> {
        let [prefix, number, count] = split(file_name)?;
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

    /// Returns the name of another part of the same checkpoint.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn part(&self, number: u32) -> PartName {
        PartName {
            number,
            ..self.clone()
        }
    }

    /// Returns the file name.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn file_name(&self) -> String {
        let PartName {
            prefix,
            number,
            count,
        } = self;
        format!("{prefix}-{number:05}-of-{count:05}.gguf")
    }
}

/// Splits a name such as `model-00002-of-00003.gguf` into what stands before the numbers, and the numbers.
fn split(file_name: &str) -> Option<[&str; 3]> {
    let stem = file_name.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    Some([prefix, number, count])
}

/// Returns whether a file is the second or a later part of a GGUF checkpoint in several parts, by its name, such as
/// `model-00002-of-00003.gguf`. The numbers may have any number of digits: parts whose numbers have
/// other than five cannot be opened, but are no model by themselves either.
pub fn is_later_part(file: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    split(file).is_some_and(|[_, part, count]| number(part) > 1 && number(count) > 1)
}

fn wrong_part(file: &str, reason: String) -> WeightError {
    WeightError::Parts {
        file: file.into(),
        reason,
    }
}

/// Returns the number of parts of the checkpoint that this file belongs to, from its header.
pub(super) fn part_count(gguf: &Gguf, file: &str) -> Result<u32, WeightError> {
    let count = gguf
        .get::<u32>("split.count")
        .map_err(|error| error.in_file(file))?;
    Ok(count.unwrap_or(1).max(1))
}

/// Returns the part that the name of a file stands for.
///
/// # Errors
///
/// If it is not the name of a part.
pub(super) fn require_part_name(
    file_name: Option<&str>,
    file: &str,
    count: u32,
) -> Result<PartName, WeightError> {
    let name = file_name.and_then(PartName::parse);
    name.ok_or_else(|| {
        let reason = format!(
            "it is one of {count} parts; expected a name like NAME-00001-of-{count:05}.gguf"
        );
        wrong_part(file, reason)
    })
}

/// Checks that the header of a part agrees with its file's name.
pub(super) fn check_part(gguf: &Gguf, file: &str, name: &PartName) -> Result<(), WeightError> {
    let count = part_count(gguf, file)?;
    if count != name.count {
        let reason = format!("its header says {count} parts, its name {}", name.count);
        return Err(wrong_part(file, reason));
    }
    let number = gguf
        .require::<u32>("split.no")
        .map_err(|error| error.in_file(file))?;
    if number.checked_add(1) != Some(name.number) {
        let reason = format!(
            "its header says that it is part {number} (counted from 0), its name part {} (from 1)",
            name.number
        );
        return Err(wrong_part(file, reason));
    }
    Ok(())
}

/// Checks that all parts together have as many tensors as the header of the first one says.
pub(super) fn check_tensor_count(
    first: &Gguf,
    file: &str,
    tensors: usize,
) -> Result<(), WeightError> {
    let expected = first
        .get::<u64>("split.tensors.count")
        .map_err(|error| error.in_file(file))?;
    match expected {
        Some(expected) if expected != tensors as u64 => {
            let reason =
                format!("its header says {expected} tensors; all parts together have {tensors}");
            Err(wrong_part(file, reason))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_parts_are_recognised_by_their_number() {
        for (file, later) in [
            ("m-00001-of-00002.gguf", false),
            ("m-00002-of-00002.gguf", true),
            ("a/m-00010-of-00012.gguf", true),
            ("m.gguf", false),
            ("one-of-a-kind.gguf", false),
            ("m-2-of-x.gguf", false),
            // Not names that gguf-split gives.
            ("m-1-of-3.gguf", false),
            ("m-2-of-3.gguf", true),
            ("m-00003-of-00002.gguf", true),
            ("m-00002-of-00002.safetensors", false),
        ] {
            assert_eq!(is_later_part(file), later, "{file}");
        }
    }
}
