//! The time that an encoding may take.

use std::time::Duration;

use web_time::Instant;

use crate::tokenizer::error::TokenizerError;

/// The time for any text.
const BASE: Duration = Duration::from_secs(3);

/// The further time for each byte. The slowest tokenizers of models take a quarter of it.
const PER_BYTE: Duration = Duration::from_nanos(2000);

/// The end of the time for a text. It is looked at between the parts of the text: what is done for one
/// part is bounded by the limits of the tokenizer.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    began: Instant,
    limit: Duration,
}

impl Deadline {
    /// Begins the time for a text of some bytes.
    pub fn new(bytes: usize) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self {
            began: Instant::now(),
            limit: BASE + PER_BYTE * bytes,
        }
    }

    /// Checks the time.
    pub fn check(&self) -> Result<(), TokenizerError> {
        match self.began.elapsed() > self.limit {
            true => Err(TokenizerError::TooSlow { limit: self.limit }),
            false => Ok(()),
        }
    }
}
