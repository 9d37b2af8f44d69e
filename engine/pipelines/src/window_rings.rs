//! The KV cache of layers with a sliding window: one ring of pages for each slot of the batch. A ring
//! holds the window and one step's tokens, however long the text is.
//!
//! The pages of a ring are written in turn; the next page to be overwritten is one that has left every
//! window. So nothing is allocated or freed, and the page table never changes: page `i` of a sequence
//! is page `i % pages` of its slot's ring. vLLM's hybrid cache manager instead takes such pages from a
//! pool, so that sequences can share prefixes. Here, if prefix caching is on, layers with a window
//! keep the whole text.

use crate::{limits::ModelLimits, spec::DecoderSpec};

/// The size of the rings in which layers with a sliding window store keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRings {
    /// Positions per page.
    pub page_size: u32,
    /// Pages of one ring.
    pub pages: u64,
}

impl WindowRings {
    /// Sizes rings for a window and the tokens of a step, so that a step's first token still finds its
    /// whole window after the step's last token is written.
    ///
    /// A step reads and writes `window - 1 + step_tokens` positions, which need not begin or end at
    /// the boundary of a page.
    pub(crate) fn new(window: u64, step_tokens: u64, max_page_size: u32) -> WindowRings {
        let page_size = (window / 8).clamp(1, max_page_size.max(1).into());
        let span = (window.max(1) - 1).saturating_add(step_tokens.max(1));
        WindowRings {
            page_size: page_size as u32,
            pages: (span - 1).div_ceil(page_size) + 1,
        }
    }

    /// Sizes the rings of a decoder's layers. Returns `None` if no layer has a window, if whole texts
    /// take no more memory, or if prefix caching is on, because shared pages must outlive the window.
    pub fn of(spec: &DecoderSpec, limits: &ModelLimits) -> Option<WindowRings> {
        let window = spec.layers.iter().filter_map(|layer| layer.window).max()?;
        if limits.prefix_caching || spec.encoder.is_some() {
            return None;
        }
        let rings = WindowRings::new(window.into(), limits.max_step_tokens, limits.page_size);
        let whole = limits.total_pages().saturating_mul(limits.page_size.into());
        (rings.positions().saturating_mul(limits.max_batch) < whole).then_some(rings)
    }

    /// Returns the positions that one ring holds.
    pub fn positions(&self) -> u64 {
        self.pages.saturating_mul(self.page_size.into())
    }

    /// Returns the number of entries of one sequence in the page table of the rings.
    pub fn entries(&self, limits: &ModelLimits) -> u64 {
        limits.max_length.div_ceil(self.page_size.into())
    }

    /// Returns the sizes of the graph's symbolic dimensions that belong to the rings.
    pub(crate) fn dims(&self, limits: &ModelLimits) -> [(&'static str, u64); 2] {
        [
            ("max_window_pages", self.entries(limits)),
            ("window_pages", self.pages.saturating_mul(limits.max_batch)),
        ]
    }

    /// Returns the page table of the rings, `[max_batch, entries]`.
    pub(crate) fn table(&self, limits: &ModelLimits) -> Vec<u32> {
        let slot = |slot: u64| {
            (0..self.entries(limits)).map(move |entry| slot * self.pages + entry % self.pages)
        };
        (0..limits.max_batch)
            .flat_map(slot)
            .map(|page| page as u32)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Sequences start and end in slots, in steps of any size. Each token finds all positions of
        /// its window in the rings.
        #[test]
        fn rings_hold_every_window(
            window in 1u64..40,
            step_tokens in 1u64..20,
            max_page_size in 1u32..9,
            max_batch in 1u64..4,
            steps in prop::collection::vec((0usize..4, 1usize..20, 0u32..8), 1..120),
        ) {
            let rings = WindowRings::new(window, step_tokens, max_page_size);
            let limits = ModelLimits { max_length: 200, max_batch, ..ModelLimits::default() };
            let (table, page) = (rings.table(&limits), rings.page_size as usize);
            let entries = rings.entries(&limits) as usize;
            let row = |slot: usize, at: usize| table[slot * entries + at / page] as usize * page + at % page;
            // The sequence and the position that each row of the cache holds.
            let mut memory = vec![None; (rings.positions() * max_batch) as usize];
            let mut running = vec![(0usize, 0usize); max_batch as usize];
            let mut sequences = 0;
            for (slot, tokens, restart) in steps {
                let slot = slot % running.len();
                let (sequence, cached) = &mut running[slot];
                let tokens = tokens.min(step_tokens as usize);
                if restart == 0 || *cached + tokens > 200 {
                    sequences += 1;
                    (*sequence, *cached) = (sequences, 0);
                }
                // A step writes all its positions before it reads any.
                for at in *cached..*cached + tokens {
                    memory[row(slot, at)] = Some((*sequence, at));
                }
                for at in *cached..*cached + tokens {
                    for visible in (at + 1).saturating_sub(window as usize)..=at {
                        prop_assert_eq!(memory[row(slot, visible)], Some((*sequence, visible)));
                    }
                }
                *cached += tokens;
            }
        }
    }
}
