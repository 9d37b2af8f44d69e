//! Options of a conversion.

use std::ops::ControlFlow;

use wisp_types::Encoding;

/// Options of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The encoding of matrices; `None` keeps the source's.
    pub encoding: Option<Encoding>,
    /// True if an existing file may be replaced.
    pub force: bool,
}

impl ConvertOptions {
    /// Encodes matrices in this encoding, or keeps the source's for `None`.
    #[must_use]
    pub fn encoding(mut self, encoding: impl Into<Option<Encoding>>) -> ConvertOptions {
        self.encoding = encoding.into();
        self
    }

    /// Allows an existing file to be replaced.
    #[must_use]
    pub fn force(mut self, force: bool) -> ConvertOptions {
        self.force = force;
        self
    }
}

/// Is called with the number of weights converted so far and in total. `Break` cancels the
/// conversion, and nothing is written.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;
