//! The paged KV cache: `[pages, page_size, kv_heads]` heads, each in the 32-bit words of its format.

use std::ops::Range;

use super::args::{Args, size};
use super::cache::Heads;
use super::error::HostError;

/// Maps positions of sequences to rows of the cache.
pub(super) struct Pages<'a> {
    table: &'a [u32],
    pub(super) index: &'a [[u32; 2]],
    page_size: usize,
    max_pages: usize,
    kv_heads: usize,
    pub(super) heads: Heads,
    visibility: Visibility<'a>,
}

/// Which positions a token attends to.
#[derive(Clone, Copy)]
pub(super) struct Visibility<'a> {
    /// The number of positions on each side, including the token's own; 0 means no limit.
    pub(super) window: u32,
    /// Whether the window is a chunk, before whose start no position is visible.
    pub(super) chunked: bool,
    /// The length of each sequence if tokens also attend to later positions (bidirectional attention).
    pub(super) lengths: Option<&'a [u32]>,
}

impl Visibility<'_> {
    /// Only the token's own position.
    pub(super) const OWN: Visibility<'static> = Visibility {
        window: 1,
        chunked: false,
        lengths: None,
    };

    fn visible_range(&self, sequence: usize, position: usize) -> Range<usize> {
        let window = match self.window {
            0 => usize::MAX,
            window => window as usize,
        };
        // An invalid position may be the largest index of a 32-bit machine.
        let next = position.saturating_add(1);
        let lengths = self.lengths.and_then(|lengths| lengths.get(sequence));
        let length = lengths.map_or(0, |length| *length as usize);
        let end = length.min(position.saturating_add(window));
        let start = match self.chunked {
            true => position - position % window.max(1),
            false => next.saturating_sub(window),
        };
        start..end.max(next)
    }
}

/// The sizes of a cache and of a call's tokens.
pub(super) struct Shape {
    pub(super) tokens: u32,
    pub(super) kv_heads: u32,
    pub(super) heads: Heads,
    pub(super) page_size: u32,
    pub(super) max_pages: u32,
}

impl<'a> Pages<'a> {
    /// Reads the index and the page table, whose binding number follows that of the index.
    ///
    /// `cache` is the length of the smaller cache in words. Checks that every page with a position
    /// that a token attends to lies within it.
    pub(super) fn take(
        args: &'a Args,
        [index, table]: [usize; 2],
        shape: Shape,
        cache: usize,
        visibility: Visibility<'a>,
    ) -> Result<Self, HostError> {
        let pages = Pages {
            index: args.read(index, shape.tokens as usize)?,
            table: args.read_all(table)?,
            page_size: shape.page_size as usize,
            max_pages: shape.max_pages as usize,
            kv_heads: shape.kv_heads as usize,
            heads: shape.heads,
            visibility,
        };
        if shape.page_size == 0 {
            return Err(args.value("page_size", "at least 1", 0u32));
        }
        let page = size(&[shape.page_size, shape.kv_heads]).saturating_mul(shape.heads.words);
        pages.check(args, cache / page.max(1))?;
        Ok(pages)
    }

    fn check(&self, args: &Args, pages: usize) -> Result<(), HostError> {
        for &[sequence, position] in self.index {
            let visible = self.visible_range(sequence as usize, position as usize);
            let last = (visible.end - 1) / self.page_size;
            if last >= self.max_pages {
                let expected = format!("less than {}", self.max_pages * self.page_size);
                return Err(args.value("a position", expected, (visible.end - 1) as u64));
            }
            let first = visible.start / self.page_size;
            let row = (sequence as usize).saturating_mul(self.max_pages);
            let entries = self
                .table
                .get(row.saturating_add(first)..=row.saturating_add(last));
            let Some(entries) = entries else {
                let rows = self.table.len() / self.max_pages;
                return Err(args.value("a sequence", format!("less than {rows}"), sequence));
            };
            if let Some(entry) = entries.iter().find(|entry| **entry as usize >= pages) {
                return Err(args.value("a page", format!("less than {pages}"), *entry));
            }
        }
        Ok(())
    }

    /// Returns the positions that a token attends to.
    #[inline]
    pub(super) fn visible_range(&self, sequence: usize, position: usize) -> Range<usize> {
        self.visibility.visible_range(sequence, position)
    }

    /// Returns the words of all heads of a position.
    pub(super) fn row_words(&self) -> usize {
        self.kv_heads * self.heads.words
    }

    /// Returns the offset of a position's first head in the cache, in words.
    #[inline]
    pub(super) fn row(&self, sequence: u32, position: usize) -> usize {
        let entry = sequence as usize * self.max_pages + position / self.page_size;
        let slot = self.table[entry] as usize * self.page_size + position % self.page_size;
        slot * self.row_words()
    }
}
