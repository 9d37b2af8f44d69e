//! What a caller can do about an error, as values that a program can show or apply.

use std::fmt;

/// A change that may resolve an error; see [`PipelineError::remedies`](crate::PipelineError::remedies). Fields are those of the
/// [configuration](crate::PipelineConfig), which apply when the model is loaded again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Set a field to a value.
    Set {
        /// The name of the field, such as `engine`.
        field: &'static str,
        /// The value, as in a file of settings.
        value: String,
    },
    /// Set a field to a value of your choice.
    Choose {
        /// The name of the field, such as `huggingface_repo_id`.
        field: &'static str,
    },
    /// Set a field to a limit or less.
    AtMost {
        /// The name of the field, such as `max_length`.
        field: &'static str,
        /// The largest value that avoids the error.
        limit: u64,
    },
    /// Give a field a larger value.
    Increase {
        /// The name of the field, such as `max_length`.
        field: &'static str,
    },
    /// Give a field a smaller value, or one that needs less memory.
    Decrease {
        /// The name of the field, such as `kv_cache_format`.
        field: &'static str,
    },
    /// Shorten the prompt.
    ShortenPrompt {
        /// The largest number of tokens that a prompt may have.
        max_tokens: usize,
    },
    /// Run fewer requests, or encode fewer texts, at the same time.
    FewerSequences,
    /// Use a model with fewer or smaller weights, such as one in `q4_k`.
    SmallerModel,
    /// Use another device, such as the host CPU, or one with more memory.
    AnotherDevice,
    /// Load the model again: the device was lost.
    LoadAgain,
    /// Use an encoder for embeddings and a decoder for generating text.
    AnotherKindOfModel,
    /// Unload an adapter that no request needs.
    UnloadAdapter,
    /// Try again after a while.
    TryAgain {
        /// Seconds to wait, if the server named them.
        after_seconds: Option<u64>,
    },
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Set { field, value } => write!(f, "use `{field} = {value}`"),
            Remedy::Choose { field } => write!(f, "set `{field}`"),
            Remedy::AtMost { field, limit } => write!(f, "use `{field} = {limit}` or less"),
            Remedy::Increase { field } => write!(f, "increase `{field}`"),
            Remedy::Decrease { field } => write!(f, "use a smaller `{field}`"),
            Remedy::ShortenPrompt { max_tokens } => {
                write!(f, "shorten the prompt to {max_tokens} tokens")
            }
            Remedy::FewerSequences => f.write_str("run fewer sequences at a time"),
            Remedy::SmallerModel => {
                f.write_str("use a model with fewer or smaller weights (such as q4_k)")
            }
            Remedy::AnotherDevice => f.write_str("use another device"),
            Remedy::LoadAgain => f.write_str("load the model again"),
            Remedy::AnotherKindOfModel => {
                f.write_str("use an encoder for embeddings, a decoder for text")
            }
            Remedy::UnloadAdapter => f.write_str("unload an adapter"),
            Remedy::TryAgain {
                after_seconds: None,
            } => f.write_str("try again later"),
            Remedy::TryAgain {
                after_seconds: Some(seconds),
            } => {
                write!(f, "try again in {seconds} s")
            }
        }
    }
}

/// Joins remedies to the end of a sentence: "a, b or c".
pub(crate) fn list(remedies: &[Remedy]) -> String {
    let texts: Vec<String> = remedies.iter().map(Remedy::to_string).collect();
    match texts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_are_joined_to_a_sentence() {
        let remedies = [
            Remedy::AtMost {
                field: "max_length",
                limit: 512,
            },
            Remedy::FewerSequences,
            Remedy::AnotherDevice,
        ];
        assert_eq!(
            list(&remedies),
            "use `max_length = 512` or less, run fewer sequences at a time or use another device"
        );
        assert_eq!(list(&remedies[1..2]), "run fewer sequences at a time");
        assert_eq!(list(&[]), "");
    }
}
