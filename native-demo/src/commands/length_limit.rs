//! Why a text ended before the model ended it, and what makes it longer.

use wisp_engine::{Model, OpenModel, Usage};

use crate::output::counted;

/// The limits of a text's length.
pub struct LengthLimit {
    max_new_tokens: Option<usize>,
    /// The longest context that the model can be loaded with, if it is known.
    longest_context: Option<u64>,
}

impl LengthLimit {
    /// Returns the limits of a model and of `--max-new-tokens`.
    pub fn new(open: &OpenModel, max_new_tokens: Option<usize>) -> LengthLimit {
        let files = open.files();
        LengthLimit {
            max_new_tokens,
            longest_context: files.map(|files| files.model_spec.spec.longest_context()),
        }
    }

    /// Returns a note on a text that reached a limit.
    pub fn note(&self, model: &Model, usage: Usage) -> String {
        match self.max_new_tokens {
            Some(max) if usage.completion_tokens >= max => {
                let tokens = counted(max as u64, "token");
                format!("stopped after {tokens} (--max-new-tokens)")
            }
            _ => format!(
                "stopped because the {}",
                self.full_context(model.context_length())
            ),
        }
    }

    /// Returns a clause that says that a context is full, and how to load a longer one.
    pub fn full_context(&self, length: u64) -> String {
        let remedy = match self.longest_context {
            Some(max) if max > length => {
                format!("--max-length N loads a longer one, at most {max} with this model")
            }
            Some(_) => "the model was made for no more".into(),
            None => "--max-length N loads a longer one".into(),
        };
        let tokens = counted(length, "token");
        format!("context of {tokens} is full; {remedy}")
    }
}
