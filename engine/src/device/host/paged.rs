//! The paged KV cache: `[pages, page_size, kv_heads, ceil(head_dim / 4)]` of `vec4<f32>`.

use super::args::{Args, size};
use super::error::HostError;

/// Which rows of the cache hold which positions.
pub(super) struct Pages<'a> {
    table: &'a [u32],
    pub(super) index: &'a [[u32; 2]],
    page_size: usize,
    max_pages: usize,
    kv_heads: usize,
    /// Elements of a head in the cache: `head_dim` rounded up to a multiple of 4.
    pub(super) width: usize,
}

/// The shape of a cache.
pub(super) struct Shape {
    pub(super) tokens: u32,
    pub(super) kv_heads: u32,
    pub(super) head_dim: u32,
    pub(super) page_size: u32,
    pub(super) max_pages: u32,
}

impl<'a> Pages<'a> {
    /// Takes the index and the page table, whose binding follows the one of the index.
    ///
    /// `cache` is the length of the smaller cache in elements. Every page that holds one of the
    /// last `window` (0: of all) positions up to a token's own is checked to lie within it.
    pub(super) fn take(
        args: &'a Args,
        [index, table]: [usize; 2],
        shape: Shape,
        cache: usize,
        window: u32,
    ) -> Result<Self, HostError> {
        let pages = Pages {
            index: args.read(index, shape.tokens as usize)?,
            table: args.read_all(table)?,
            page_size: shape.page_size as usize,
            max_pages: shape.max_pages as usize,
            kv_heads: shape.kv_heads as usize,
            width: (shape.head_dim as usize).next_multiple_of(4),
        };
        if shape.page_size == 0 {
            return Err(args.value("page_size", "at least 1", 0u32));
        }
        let width = pages.width as u32;
        let page = size(&[shape.page_size, shape.kv_heads, width]).max(1);
        pages.check(args, cache / page, window)?;
        Ok(pages)
    }

    fn check(&self, args: &Args, pages: usize, window: u32) -> Result<(), HostError> {
        for &[sequence, position] in self.index {
            let last = position as usize / self.page_size;
            if last >= self.max_pages {
                let expected = format!("less than {}", self.max_pages * self.page_size);
                return Err(args.value("a position", expected, position));
            }
            let first = first_position(position, window) / self.page_size;
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

    /// Where the first head of a position begins in the cache, in elements.
    #[inline]
    pub(super) fn row(&self, sequence: u32, position: usize) -> usize {
        let entry = sequence as usize * self.max_pages + position / self.page_size;
        let slot = self.table[entry] as usize * self.page_size + position % self.page_size;
        slot * self.kv_heads * self.width
    }
}

/// The first position that a token at `position` sees, if it sees `window` (0: all).
pub(super) fn first_position(position: u32, window: u32) -> usize {
    match window {
        0 => 0,
        window => (position as usize + 1).saturating_sub(window as usize),
    }
}
