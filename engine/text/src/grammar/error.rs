//! Errors of grammars.

/// The longest regular expression, list of choices and Lark grammar, in bytes.
pub(super) const MAX_TEXT: usize = 64 << 10;

/// Why a constraint is refused, or can no longer be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// Occurs when a JSON Schema has a keyword that is not supported, or not with this value.
    #[error("the JSON schema's `{keyword}`{} {reason}", at(.place))]
    Keyword {
        /// The keyword, such as `uniqueItems`.
        keyword: String,
        /// The JSON pointer of the schema that has the keyword, empty for the whole schema. `None` if it is not
        /// known.
        place: Option<String>,
        /// What is wrong with it, as the rest of a sentence.
        reason: String,
    },
    /// Occurs when no JSON value satisfies a schema.
    #[error("no value satisfies the JSON schema: {reason}")]
    Unsatisfiable {
        /// The contradiction.
        reason: String,
    },
    /// Occurs when a constraint exceeds a limit on its size or complexity.
    #[error("the constraint is too large: {problem}")]
    TooLarge {
        /// What is too large, and the limit.
        problem: String,
    },
    /// Occurs when a regular expression or a Lark grammar cannot be parsed, or is too complex.
    #[error("the {kind} cannot be used: {problem}")]
    Invalid {
        /// What cannot be used, such as `regular expression`.
        kind: &'static str,
        /// The problem.
        problem: String,
    },
    /// Occurs when the schema of a strict tool's arguments cannot be enforced.
    #[error("the tool {tool} is strict, but its parameters cannot be enforced: {problem}")]
    StrictTool {
        /// The name of the tool.
        tool: String,
        /// Why its schema cannot be enforced.
        problem: Box<GrammarError>,
    },
    /// Occurs when there are no choices, or one of them is empty.
    #[error("choices must be texts of at least one character, and at least one of them")]
    Choices,
    /// Occurs when a vocabulary is too large to be searched.
    #[error("the tokenizer's vocabulary is too large for grammars: its tokens have {bytes} bytes")]
    Vocabulary {
        /// Bytes of all tokens.
        bytes: usize,
    },
    /// Occurs while a text is generated, if the tokens that may follow cannot be computed within the limits, or if
    /// the vocabulary has no token for a text that must follow.
    #[error("the constraint cannot be followed any further: {problem}")]
    Failed {
        /// The problem.
        problem: String,
    },
}

/// Formats the place of a keyword.
fn at(place: &Option<String>) -> String {
    match place {
        Some(place) if !place.is_empty() => format!(" at {place}"),
        _ => String::new(),
    }
}

impl GrammarError {
    /// Returns the keyword of a JSON Schema that is refused, if the error is about one.
    pub fn keyword(&self) -> Option<&str> {
        match self {
            GrammarError::Keyword { keyword, .. } => Some(keyword),
            GrammarError::StrictTool { problem, .. } => problem.keyword(),
            _ => None,
        }
    }

    /// Makes the error of a keyword in the schema at a place.
    pub(crate) fn refused(keyword: &str, place: &str, reason: impl Into<String>) -> GrammarError {
        GrammarError::Keyword {
            keyword: keyword.into(),
            place: Some(place.into()),
            reason: reason.into(),
        }
    }
}

/// Checks the size of a part of a constraint, which `what` names.
pub(super) fn check_size(what: &str, bytes: usize, max: usize) -> Result<(), GrammarError> {
    match bytes > max {
        true => Err(GrammarError::TooLarge {
            problem: format!("{what} has {bytes} bytes, but at most {max} are allowed"),
        }),
        false => Ok(()),
    }
}
