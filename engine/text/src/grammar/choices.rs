//! Lists of texts of which an answer is one.

use std::fmt::Write;

use super::error::{GrammarError, MAX_TEXT, check_size};

/// The largest number of choices.
const MAX_CHOICES: usize = 4096;

/// Returns the regular expression of some choices, between slashes.
pub(super) fn choice_pattern(choices: &[String]) -> Result<String, GrammarError> {
    if choices.is_empty() || choices.iter().any(String::is_empty) {
        return Err(GrammarError::Choices);
    }
    if choices.len() > MAX_CHOICES {
        return Err(GrammarError::TooLarge {
            problem: format!(
                "there are {} choices, but at most {MAX_CHOICES} are allowed",
                choices.len()
            ),
        });
    }
    let bytes = choices.iter().map(String::len).sum();
    check_size("the list of choices", bytes, MAX_TEXT)?;
    let mut pattern = String::from("/(?:");
    for (at, choice) in choices.iter().enumerate() {
        if at > 0 {
            pattern.push('|');
        }
        for character in choice.chars() {
            // Every character by its number, so that none has a meaning.
            let _ = write!(pattern, "\\x{{{:x}}}", u32::from(character));
        }
    }
    pattern.push_str(")/");
    Ok(pattern)
}
