//! The paged KV cache: assigns pages to sequences.
//!
//! As in vLLM (Kwon et al. 2023), the cache is a pool of pages of `page_size` positions. Each sequence
//! has a list of pages, its block table, and takes a page whenever it grows into a new one.
//!
//! With prefix caching, full pages are kept after their sequence ends, and sequences with a common
//! prefix share them. The content of a page is identified by its tokens and the number of the previous
//! page's content. Numbers are never reused, so equal keys mean equal prefixes, without relying on a
//! hash. Only full pages are shared, and a sequence writes only after them, so no page is ever copied.
//! When pages are needed, unowned ones are reclaimed, those released earliest first.
//!
//! Sequences that use an adapter start from the adapter's salt instead of 0, so they share pages only
//! among themselves.

#[cfg(test)]
mod invariants;
mod page_snapshots;
mod snapshots;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use snapshots::Snapshots;

/// The content of a full page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Content {
    /// The number of the previous page's content, or the sequence's salt.
    before: u64,
    tokens: Box<[u32]>,
}

/// A page of the pool.
#[derive(Clone, Debug, Default)]
struct Page {
    /// The number of sequences that use the page.
    owners: u32,
    /// The content and its number, if the page may be shared.
    content: Option<(Arc<Content>, u64)>,
    /// The time at which its last owner released it.
    left: u64,
    /// The row of the recurrent state after its last position, if the page has content.
    snapshot: Option<u32>,
}

/// Hit statistics of the prefix cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PrefixHits {
    /// Tokens of all prompts.
    pub tokens: u64,
    /// Tokens whose keys and values were in the cache.
    pub hits: u64,
}

impl PrefixHits {
    /// Returns the fraction of tokens whose keys and values were in the cache.
    pub fn rate(self) -> f64 {
        self.hits as f64 / self.tokens.max(1) as f64
    }
}

/// A pool of pages that allocates them to sequences.
#[derive(Clone, Debug)]
pub struct PagePool {
    page_size: u32,
    /// Pages without content.
    free: Vec<u32>,
    pages: Vec<Page>,
    caches: bool,
    known: HashMap<Arc<Content>, u32>,
    /// Pages with content but without owner, by the time of their release.
    unused: BTreeMap<u64, u32>,
    /// The next number for a content, a release time or a salt; 0 is the salt of sequences without an
    /// adapter.
    next: u64,
    hits: PrefixHits,
    /// The rows for snapshots of recurrent states; none for models without.
    snapshots: Snapshots,
}

/// The pages of one sequence, in position order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    pages: Vec<u32>,
    /// The number of pages that have been entered as full.
    full: usize,
    /// The number of the content of the last full page, or the sequence's salt.
    content: u64,
    /// The page that has this content: the last full page, or another one with the same content.
    holder: Option<u32>,
    /// With snapshots, the number of pages that the cache had of the sequence's prefix. Those after the last one
    /// with a snapshot could not be reused.
    known: usize,
}

impl BlockTable {
    /// Creates an empty table for a sequence whose keys and values differ from those of other
    /// sequences with the same tokens, because of an adapter. It shares pages only with sequences of
    /// the same [salt](PagePool::next_salt).
    pub fn with_salt(salt: u64) -> BlockTable {
        BlockTable {
            content: salt,
            ..BlockTable::default()
        }
    }

    /// Returns the pages in position order.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }
}

impl PagePool {
    /// Creates a pool of `pages` pages of `page_size` positions.
    pub fn new(pages: u32, page_size: u32) -> PagePool {
        PagePool {
            page_size: page_size.max(1),
            free: (0..pages).rev().collect(),
            pages: vec![Page::default(); pages as usize],
            caches: false,
            known: HashMap::new(),
            unused: BTreeMap::new(),
            next: 1,
            hits: PrefixHits::default(),
            snapshots: Snapshots::default(),
        }
    }

    /// Returns the same pool with or without prefix caching.
    pub fn with_prefix_caching(self, caches: bool) -> PagePool {
        PagePool { caches, ..self }
    }

    /// Returns the positions per page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Returns the number of pages that belong to no sequence.
    pub fn free_pages(&self) -> usize {
        self.free.len() + self.unused.len()
    }

    /// Returns the total number of pages.
    pub fn total_pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Returns the hit statistics of the prefix cache.
    pub fn prefix_hits(&self) -> PrefixHits {
        self.hits
    }

    /// Returns the number of pages that a sequence of `positions` positions needs.
    pub fn pages_for(&self, positions: u64) -> usize {
        positions.div_ceil(self.page_size.into()) as usize
    }

    /// Returns a new salt for [`BlockTable::with_salt`].
    pub fn next_salt(&mut self) -> u64 {
        self.number()
    }

    /// Returns a number that is never reused, for a content, a release time or a salt.
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Allocates a page for a new owner; its old content is forgotten.
    fn take(&mut self) -> Option<u32> {
        let page = match self.free.pop() {
            Some(page) => page,
            None => {
                let (_, page) = self.unused.pop_first()?;
                self.drop_snapshot_of(page);
                if let Some((content, _)) = self.pages[page as usize].content.take() {
                    self.known.remove(&content);
                }
                page
            }
        };
        self.pages[page as usize].owners = 1;
        Some(page)
    }

    /// Grows a table until it holds `positions` positions. If the pool has too few pages, returns
    /// false and takes none.
    pub fn grow(&mut self, table: &mut BlockTable, positions: u64) -> bool {
        let missing = self.pages_for(positions).saturating_sub(table.pages.len());
        if missing > self.free_pages() {
            return false;
        }
        for _ in 0..missing {
            table.pages.extend(self.take());
        }
        true
    }

    /// Gives a table the cached pages with the longest prefix of `tokens`, excluding the last token,
    /// which must be computed for its logits. A table may have such pages from an earlier call; the new
    /// ones replace those after them, on which nothing may have been computed. With snapshots, the last
    /// new page has one. Returns the number of tokens on all cached pages of the table.
    pub fn reuse(&mut self, table: &mut BlockTable, tokens: &[u32]) -> usize {
        if !self.caches {
            return 0;
        }
        let reusable = &tokens[..tokens.len().saturating_sub(1)];
        let mut found = Vec::new();
        let mut before = table.content;
        let pages = reusable.chunks_exact(self.page_size as usize);
        for tokens in pages.skip(table.full) {
            let tokens = tokens.into();
            let known = self.known.get(&Content { before, tokens });
            let Some(at) = known.copied() else {
                break;
            };
            let content = self.pages[at as usize].content.as_ref();
            before = content.map_or(0, |(_, number)| *number);
            found.push(at);
        }
        if self.has_snapshots() {
            table.known = table.full + found.len();
            let usable = |at: &u32| self.pages[*at as usize].snapshot.is_some();
            found.truncate(found.iter().rposition(usable).map_or(0, |last| last + 1));
        }
        for at in found {
            let page = &mut self.pages[at as usize];
            if page.owners == 0 {
                self.unused.remove(&page.left);
            }
            page.owners += 1;
            table.content = page.content.as_ref().map_or(0, |(_, number)| *number);
            table.holder = Some(at);
            match table.pages.get_mut(table.full) {
                Some(entry) => {
                    let empty = std::mem::replace(entry, at);
                    self.release_page(empty);
                }
                None => table.pages.push(at),
            }
            table.full += 1;
        }
        table.full * self.page_size as usize
    }

    /// Counts a prompt of `tokens` tokens, `hits` of which were found.
    pub fn count_hits(&mut self, tokens: usize, hits: usize) {
        self.hits.tokens += tokens as u64;
        self.hits.hits += hits as u64;
    }

    /// Enters the pages that `tokens` fill as shareable; all their keys and values must have been
    /// computed.
    pub fn enter(&mut self, table: &mut BlockTable, tokens: &[u32]) {
        if !self.caches {
            return;
        }
        let pages = tokens.chunks_exact(self.page_size as usize);
        for (tokens, page) in pages.zip(table.pages.clone()).skip(table.full) {
            let content = Arc::new(Content {
                before: table.content,
                tokens: tokens.into(),
            });
            let known = self.known.get(&content).copied();
            // If another page has the same content, later sequences find that page and not this one.
            let other = known.and_then(|other| self.pages[other as usize].content.as_ref());
            table.holder = Some(known.unwrap_or(page));
            table.content = match other {
                Some((_, number)) => *number,
                None => {
                    let number = self.number();
                    self.known.insert(content.clone(), page);
                    self.pages[page as usize].content = Some((content, number));
                    number
                }
            };
            table.full += 1;
        }
    }

    /// Releases a sequence's pages.
    pub fn release(&mut self, table: &mut BlockTable) {
        // The last pages are reclaimed first, because they are useless without the pages before them.
        for at in std::mem::take(table).pages.into_iter().rev() {
            self.release_page(at);
        }
    }

    /// Counts one owner of a page less.
    fn release_page(&mut self, at: u32) {
        let left = self.number();
        let page = &mut self.pages[at as usize];
        page.owners = page.owners.saturating_sub(1);
        if page.owners > 0 {
            return;
        }
        if page.content.is_some() {
            page.left = left;
            self.unused.insert(left, at);
        } else {
            self.free.push(at);
        }
    }

    /// Returns how many tokens of a sequence will have been computed when it next has something that others can
    /// share, if it does. `computed` tokens have been, and its prompt has `prompt` tokens.
    pub fn next_shared(&self, table: &BlockTable, prompt: usize, computed: usize) -> Option<usize> {
        let page = self.page_size as usize;
        match self.has_snapshots() {
            true => self.next_snapshot(table, prompt, computed),
            false => self.caches.then(|| (computed / page + 1) * page),
        }
    }

    /// Forgets the content of pages without an owner.
    pub fn forget(&mut self) {
        for page in std::mem::take(&mut self.unused).into_values() {
            self.drop_snapshot_of(page);
            if let Some((content, _)) = self.pages[page as usize].content.take() {
                self.known.remove(&content);
            }
            self.free.push(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const PAGES: u32 = 17;

    /// What happens to one of five sequences.
    #[derive(Clone, Debug)]
    enum Act {
        /// It is new and has these tokens, under one of the adapters or none.
        Begin(Vec<u32>, usize),
        /// It grows by some tokens, and all it has is computed.
        Grow(Vec<u32>),
        /// It ends.
        End,
        /// Everything unused is forgotten.
        Forget,
        /// Another adapter takes the place of one.
        Reload(usize),
    }

    fn act() -> impl Strategy<Value = Act> {
        // Few different tokens: beginnings are often alike.
        let tokens = |most| prop::collection::vec(0u32..2, 1..most);
        prop_oneof![
            4 => (tokens(20), 0usize..3).prop_map(|(tokens, adapter)| Act::Begin(tokens, adapter)),
            4 => tokens(9).prop_map(Act::Grow),
            3 => Just(Act::End),
            1 => Just(Act::Forget),
            1 => (1usize..3).prop_map(Act::Reload),
        ]
    }

    /// The adapter's salt and the tokens up to and with each position: what keys and values there
    /// depend on.
    type Written = Vec<Vec<(u64, Vec<u32>)>>;

    /// Computes the positions from `from` on.
    fn compute(
        written: &mut Written,
        (salt, table): (u64, &BlockTable),
        tokens: &[u32],
        from: usize,
        size: usize,
    ) {
        for at in from..tokens.len() {
            let place = &mut written[table.pages()[at / size] as usize][at % size];
            *place = (salt, tokens[..=at].to_vec());
        }
    }

    proptest! {
        /// Whatever the history: a page found holds just what it is taken for, pages are shared only
        /// where they are, and none is lost.
        #[test]
        fn pages_are_neither_lost_nor_shared_wrongly(
            history in prop::collection::vec((0usize..5, act()), 0..120),
            size in 1usize..5,
            caches: bool,
        ) {
            let mut pool = PagePool::new(PAGES, size as u32).with_prefix_caching(caches);
            let mut written: Written = vec![vec![(0, Vec::new()); size]; PAGES as usize];
            let mut sequences = vec![(0, BlockTable::default(), Vec::<u32>::new()); 5];
            // None, and two adapters.
            let mut salts = [0, pool.next_salt(), pool.next_salt()];
            for (which, act) in history {
                let (salt, table, tokens) = &mut sequences[which];
                match act {
                    Act::Begin(new, adapter) => {
                        pool.release(table);
                        tokens.clear();
                        *salt = salts[adapter];
                        *table = BlockTable::with_salt(*salt);
                        let found = pool.reuse(table, &new);
                        prop_assert!(found < new.len() && found.is_multiple_of(size) && (caches || found == 0));
                        for at in 0..found {
                            let (under, held) = &written[table.pages()[at / size] as usize][at % size];
                            prop_assert_eq!((*under, &held[..]), (*salt, &new[..=at]));
                        }
                        if pool.grow(table, new.len() as u64) {
                            compute(&mut written, (*salt, table), &new, found, size);
                            pool.enter(table, &new);
                            *tokens = new;
                        } else {
                            pool.release(table);
                            *salt = 0;
                        }
                    }
                    Act::Grow(more) => {
                        let before = (table.clone(), pool.free_pages());
                        let all = [&tokens[..], &more].concat();
                        if pool.grow(table, all.len() as u64) {
                            prop_assert!(table.pages().starts_with(before.0.pages()));
                            compute(&mut written, (*salt, table), &all, tokens.len(), size);
                            pool.enter(table, &all);
                            *tokens = all;
                        } else {
                            prop_assert_eq!((table.clone(), pool.free_pages()), before);
                        }
                    }
                    Act::End => {
                        pool.release(table);
                        tokens.clear();
                        *salt = 0;
                        prop_assert!(table.pages().is_empty());
                    }
                    Act::Forget => pool.forget(),
                    Act::Reload(adapter) => salts[adapter] = pool.next_salt(),
                }
                // Every sequence still has what it computed.
                for (salt, table, tokens) in &sequences {
                    for at in 0..tokens.len() {
                        let (under, held) = &written[table.pages()[at / size] as usize][at % size];
                        prop_assert_eq!((under, &held[..]), (salt, &tokens[..=at]));
                    }
                }
                let owned: HashSet<u32> =
                    sequences.iter().flat_map(|(_, table, _)| table.pages().iter().copied()).collect();
                prop_assert_eq!(owned.len() + pool.free_pages(), PAGES as usize);
                prop_assert!(pool.known.len() <= PAGES as usize);
            }
            for (_, table, _) in &mut sequences {
                pool.release(table);
            }
            prop_assert_eq!(pool.free_pages(), PAGES as usize);
            pool.forget();
            prop_assert_eq!((pool.known.len(), pool.free.len()), (0, PAGES as usize));
        }
    }

    #[test]
    fn pages_that_are_found_later_replace_empty_ones() {
        let mut pool = PagePool::new(6, 2).with_prefix_caching(true);
        let tokens = [1, 2, 3, 4, 5];
        let [mut first, mut second] = [BlockTable::default(), BlockTable::default()];
        for table in [&mut first, &mut second] {
            assert_eq!(pool.reuse(table, &tokens), 0);
            assert!(pool.grow(table, 5));
        }
        assert_eq!(pool.free_pages(), 0);
        for computed in [2, 4] {
            pool.enter(&mut first, &tokens[..computed]);
            assert_eq!(pool.reuse(&mut second, &tokens), computed);
            assert_eq!(pool.free_pages(), computed / 2);
            pool.check([&first, &second]).unwrap();
        }
        assert_eq!(second.pages()[..2], first.pages()[..2]);
        assert_ne!(second.pages()[2], first.pages()[2]);
        pool.release(&mut first);
        pool.release(&mut second);
        assert_eq!(pool.free_pages(), 6);
    }

    #[test]
    fn long_prompts_leave_snapshots_on_their_way() {
        let pool = PagePool::new(6, 24)
            .with_prefix_caching(true)
            .with_snapshots(2, 4);
        let mut table = BlockTable::default();
        let mut next = |computed, known| {
            table.known = known;
            pool.next_snapshot(&table, 20_000, computed)
        };
        // 8,192 is no multiple of 24.
        assert_eq!(next(0, 0), Some(8_208));
        assert_eq!(next(0, 2), Some(48));
        assert_eq!(next(48, 2), Some(8_208));
        assert_eq!(next(8_208, 2), Some(16_416));
        assert_eq!(next(16_416, 2), Some(19_992));
        assert_eq!(next(19_992, 2), None);
    }

    #[test]
    fn the_longest_unused_goes_first() {
        let mut pool = PagePool::new(3, 2).with_prefix_caching(true);
        let hold = |pool: &mut PagePool, tokens: &[u32]| {
            let mut table = BlockTable::default();
            let found = pool.reuse(&mut table, tokens);
            assert!(pool.grow(&mut table, tokens.len() as u64));
            pool.enter(&mut table, tokens);
            pool.release(&mut table);
            found
        };
        // Three pages, the last of them not full.
        assert_eq!(hold(&mut pool, &[1, 2, 3, 4, 5]), 0);
        assert_eq!(hold(&mut pool, &[1, 2, 3, 4, 6]), 4);
        assert_eq!(
            hold(&mut pool, &[1, 2, 3, 4]),
            2,
            "the last token is computed"
        );
        // Takes the free page and the one of [3, 4].
        assert_eq!(hold(&mut pool, &[7, 8, 9]), 0);
        assert_eq!(hold(&mut pool, &[1, 2, 3, 4, 5]), 2);
    }
}
