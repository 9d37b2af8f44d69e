//! What a translation fails with.

use std::fmt;

/// The reason that a module has no translation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The module has no compute entry point, or none of the name that was asked for.
    #[error("the module has no compute entry point{}", .name.as_ref().map_or(String::new(), |name| format!(" '{name}'")))]
    NoEntryPoint {
        /// The name that was asked for.
        name: Option<String>,
    },
    /// The overrides cannot be replaced by values: one has none, or the module is not valid with them.
    #[error("the overrides cannot be replaced by values: {0}")]
    Override(String),
    /// The entry point uses something that has no translation.
    #[error("{}{feature} cannot be translated to CUDA", .location.as_ref().map_or(String::new(), |at| format!("{at}: ")))]
    Unsupported {
        /// What it is.
        feature: String,
        /// Where the WGSL uses it, if the options have the source.
        location: Option<Location>,
    },
    /// naga cannot lay out a type.
    #[error(transparent)]
    Layout(#[from] naga::proc::LayoutError),
}

impl Error {
    /// Returns the error for something that has no translation.
    pub(crate) fn unsupported(feature: impl Into<String>) -> Self {
        Self::Unsupported {
            feature: feature.into(),
            location: None,
        }
    }

    /// Adds where the WGSL has it, unless the error knows that already.
    pub(crate) fn at(self, place: Option<Location>) -> Self {
        match self {
            Self::Unsupported {
                feature,
                location: None,
            } => Self::Unsupported {
                feature,
                location: place,
            },
            other => other,
        }
    }
}

/// A place in the WGSL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of the source.
    pub name: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.name, self.line, self.column)
    }
}
