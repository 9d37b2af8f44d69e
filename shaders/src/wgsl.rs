//! The WGSL of kernels.

use std::borrow::Cow;

use crate::PIECES;

/// The WGSL of a kernel. Kernels share most of their declarations, so a build holds each of these once: with the lists of which
/// a kernel has, a twentieth of the size of all texts. It matters most to browsers, which download it.
#[derive(Clone, Copy, Debug)]
pub struct Wgsl(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    /// Indices into [`PIECES`].
    Pieces(&'static [u16]),
    Text(&'static str),
}

impl Wgsl {
    /// Takes a whole text.
    pub const fn new(text: &'static str) -> Wgsl {
        Wgsl(Source::Text(text))
    }

    pub(crate) const fn of_pieces(pieces: &'static [u16]) -> Wgsl {
        Wgsl(Source::Pieces(pieces))
    }

    /// Returns the text. That of Wisp's own kernels has no comments.
    pub fn text(&self) -> Cow<'static, str> {
        match self.0 {
            Source::Text(text) => text.into(),
            Source::Pieces(pieces) => {
                let pieces = pieces.iter().map(|i| PIECES[usize::from(*i)]);
                pieces.collect::<String>().into()
            }
        }
    }
}
