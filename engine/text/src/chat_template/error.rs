//! The errors of chat templates.

use crate::tokenizer::TokenizerError;

/// Why a chat template cannot be compiled, rendered or encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatTemplateError {
    /// Occurs when the model has no chat template.
    #[error("it has no chat template: it can continue texts, but not converse")]
    Missing,
    /// Occurs when the template is not valid Jinja.
    #[error("the chat template does not compile: {message}")]
    Syntax {
        /// What is wrong, and in which line.
        message: String,
    },
    /// Occurs when the template rejects the conversation with `raise_exception`.
    #[error("the chat template refuses the conversation: {message}")]
    Refused {
        /// The template's own explanation.
        message: String,
    },
    /// Occurs when the template does too much work.
    #[error("the chat template takes more than {limit} steps (line {line})")]
    TooManySteps {
        /// The number of steps that a template may take. Work on large values takes many.
        limit: u64,
        /// The line of the template.
        line: u32,
    },
    /// Occurs when the template runs for too long.
    #[error("the chat template takes more than {} s (line {line})", limit.as_secs())]
    TooSlow {
        /// The time that a template may take.
        limit: std::time::Duration,
        /// The line of the template.
        line: u32,
    },
    /// Occurs when the template makes a huge string, list or map.
    #[error("the chat template makes a value of more than {limit} bytes (line {line})")]
    ValueTooLarge {
        /// The number of bytes that a value may have for this conversation.
        limit: usize,
        /// The line of the template.
        line: u32,
    },
    /// Occurs when all values of the template together are huge.
    #[error("the chat template uses more than {limit} bytes of memory (line {line})")]
    TooMuchMemory {
        /// The number of bytes that values may have for this conversation.
        limit: usize,
        /// The line of the template.
        line: u32,
    },
    /// Occurs when the template's output is far longer than its input.
    #[error("the chat template writes more than {limit} bytes")]
    TooMuchOutput {
        /// The number of bytes that the template may write for this conversation.
        limit: usize,
    },
    /// Occurs when the template fails for another reason: an unknown name, a value of the wrong
    /// type, endless recursion.
    #[error("the chat template fails: {message}")]
    Failed {
        /// What is wrong, and in which line.
        message: String,
    },
    /// Occurs when the rendered conversation cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}
