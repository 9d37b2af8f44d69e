//! The paged KV cache: `[pages, page_size, kv_heads]` heads, each in the words of its format.

use std::ops::Range;

use super::args::{Args, size};
use super::cache::Heads;
use super::error::HostError;

/// Which rows of the cache hold which positions.
pub(super) struct Pages<'a> {
    table: &'a [u32],
    pub(super) index: &'a [[u32; 2]],
    page_size: usize,
    max_pages: usize,
    kv_heads: usize,
    pub(super) heads: Heads,
    sight: Sight<'a>,
}

/// Which positions a token sees.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    /// How many to a side, its own included; 0 is all.
    pub(super) window: u32,
    /// The positions of each sequence, where a token also sees what follows.
    pub(super) lengths: Option<&'a [u32]>,
}

impl Sight<'_> {
    /// A token's own position.
    pub(super) const OWN: Sight<'static> = Sight {
        window: 1,
        lengths: None,
    };

    fn seen(&self, sequence: usize, position: usize) -> Range<usize> {
        let window = match self.window {
            0 => usize::MAX,
            window => window as usize,
        };
        let lengths = self.lengths.and_then(|lengths| lengths.get(sequence));
        let length = lengths.map_or(0, |length| *length as usize);
        let end = length.min(position.saturating_add(window));
        (position + 1).saturating_sub(window)..end.max(position + 1)
    }
}

/// The shape of a cache.
pub(super) struct Shape {
    pub(super) tokens: u32,
    pub(super) kv_heads: u32,
    pub(super) heads: Heads,
    pub(super) page_size: u32,
    pub(super) max_pages: u32,
}

impl<'a> Pages<'a> {
    /// Takes the index and the page table, whose binding follows the one of the index.
    ///
    /// `cache` is the length of the smaller cache in words. Every page that holds a position
    /// in a token's sight is checked to lie within it.
    pub(super) fn take(
        args: &'a Args,
        [index, table]: [usize; 2],
        shape: Shape,
        cache: usize,
        sight: Sight<'a>,
    ) -> Result<Self, HostError> {
        let pages = Pages {
            index: args.read(index, shape.tokens as usize)?,
            table: args.read_all(table)?,
            page_size: shape.page_size as usize,
            max_pages: shape.max_pages as usize,
            kv_heads: shape.kv_heads as usize,
            heads: shape.heads,
            sight,
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
            let seen = self.seen(sequence as usize, position as usize);
            let last = (seen.end - 1) / self.page_size;
            if last >= self.max_pages {
                let expected = format!("less than {}", self.max_pages * self.page_size);
                return Err(args.value("a position", expected, (seen.end - 1) as u64));
            }
            let first = seen.start / self.page_size;
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

    /// The positions that a token sees.
    #[inline]
    pub(super) fn seen(&self, sequence: usize, position: usize) -> Range<usize> {
        self.sight.seen(sequence, position)
    }

    /// Where the first head of a position begins in the cache, in words.
    #[inline]
    pub(super) fn row(&self, sequence: u32, position: usize) -> usize {
        let entry = sequence as usize * self.max_pages + position / self.page_size;
        let slot = self.table[entry] as usize * self.page_size + position % self.page_size;
        slot * self.kv_heads * self.heads.words
    }
}
