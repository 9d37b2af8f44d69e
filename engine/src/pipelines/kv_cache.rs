//! The paged KV cache: which pages belong to which sequence.
//!
//! As in vLLM (Kwon et al. 2023) the cache is a pool of pages of `page_size` positions; a sequence
//! owns a list of them, its block table, and takes a page when it grows into one.

/// Hands out the pages of a pool.
#[derive(Clone, Debug)]
pub struct PagePool {
    page_size: u32,
    free: Vec<u32>,
    pages: u32,
}

/// The pages of one sequence, in the order of its positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    pages: Vec<u32>,
}

impl BlockTable {
    /// The pages, in the order of the positions.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }
}

impl PagePool {
    /// A pool of `pages` pages of `page_size` positions.
    pub fn new(pages: u32, page_size: u32) -> PagePool {
        PagePool {
            page_size,
            free: (0..pages).rev().collect(),
            pages,
        }
    }

    /// Positions in a page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Pages that belong to no sequence.
    pub fn free_pages(&self) -> usize {
        self.free.len()
    }

    /// Pages in all.
    pub fn total_pages(&self) -> u32 {
        self.pages
    }

    /// Pages that a sequence of `positions` needs.
    pub fn pages_for(&self, positions: u64) -> usize {
        positions.div_ceil(self.page_size.into()) as usize
    }

    /// Grows a table until it holds `positions`; false, and nothing is taken, if the pool has not
    /// enough pages.
    pub fn grow(&mut self, table: &mut BlockTable, positions: u64) -> bool {
        let missing = self.pages_for(positions).saturating_sub(table.pages.len());
        if missing > self.free.len() {
            return false;
        }
        let start = self.free.len() - missing;
        table.pages.extend(self.free.drain(start..).rev());
        true
    }

    /// Takes a sequence's pages back.
    pub fn release(&mut self, table: &mut BlockTable) {
        self.free.append(&mut table.pages);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the history, no page is shared or lost.
        #[test]
        fn pages_are_neither_shared_nor_lost(history in prop::collection::vec((0usize..5, 0u64..200, any::<bool>()), 0..80)) {
            let mut pool = PagePool::new(17, 8);
            let mut tables = vec![BlockTable::default(); 5];
            for (sequence, positions, release) in history {
                let before = tables[sequence].clone();
                if release {
                    pool.release(&mut tables[sequence]);
                    prop_assert!(tables[sequence].pages().is_empty());
                } else if pool.grow(&mut tables[sequence], positions) {
                    prop_assert!(tables[sequence].pages().len() as u64 * 8 >= positions);
                    prop_assert!(tables[sequence].pages().starts_with(before.pages()));
                } else {
                    prop_assert_eq!(&tables[sequence], &before);
                }
                let owned: Vec<u32> = tables.iter().flat_map(|table| table.pages().iter().copied()).collect();
                let distinct: HashSet<u32> = owned.iter().copied().collect();
                prop_assert_eq!(owned.len(), distinct.len());
                prop_assert_eq!(owned.len() + pool.free_pages(), 17);
            }
        }
    }
}
