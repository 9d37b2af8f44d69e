//! The pages of the pool that have snapshots.

use super::{
    BlockTable, PagePool,
    snapshots::{Row, Snapshots},
};

/// The tokens of a long prompt between two snapshots.
const SPACING: usize = 8192;

impl PagePool {
    /// Returns the same pool with `count` rows for snapshots, from `first_row` on. Prefixes are then reused
    /// only up to pages with a snapshot.
    pub fn with_snapshots(self, first_row: u32, count: u32) -> PagePool {
        let snapshots = Snapshots {
            first_row,
            rows: vec![Row::default(); count as usize],
            read: Vec::new(),
        };
        PagePool { snapshots, ..self }
    }

    /// Returns whether prefixes are reused only up to pages with a snapshot.
    pub fn has_snapshots(&self) -> bool {
        self.caches && !self.snapshots.rows.is_empty()
    }

    /// Returns after how many of its tokens a sequence leaves its next snapshot, if it leaves another one. `computed`
    /// tokens have been computed, and its prompt has `prompt` tokens.
    ///
    /// It leaves one where the prefix ends that the cache knew of it: others are likely to share just this prefix, as
    /// prompts do that begin with the same instructions. It leaves another one at the last page that its prompt fills
    /// before its last token, for prompts that repeat or continue it, and long prompts leave some before, so that one that
    /// is interrupted need not begin again.
    pub fn next_snapshot(
        &self,
        table: &BlockTable,
        prompt: usize,
        computed: usize,
    ) -> Option<usize> {
        if !self.has_snapshots() {
            return None;
        }
        let page = self.page_size as usize;
        let [known, last] =
            [table.known, prompt.saturating_sub(1) / page].map(|pages| pages * page);
        let spacing = SPACING.next_multiple_of(page);
        let between = (computed / spacing + 1) * spacing;
        let ends = [known, between.min(last), last];
        ends.into_iter().filter(|end| *end > computed).min()
    }

    /// Allocates a row for the snapshot of a sequence's first `positions` positions, which two hold: the
    /// sequence's next part, and what enters the page. Returns `None` if they do not end a page, or all rows
    /// are held.
    pub fn take_snapshot(&mut self, positions: usize) -> Option<u32> {
        if !self.has_snapshots() || !positions.is_multiple_of(self.page_size as usize) {
            return None;
        }
        let used = self.number();
        let rows = self.snapshots.rows.iter().enumerate();
        let free = rows.filter(|(_, row)| row.holders == u32::from(row.page.is_some()));
        let (at, row) = free.min_by_key(|(_, row)| (row.holders, row.used))?;
        if let Some(page) = row.page {
            self.drop_snapshot_of(page);
        }
        let (holders, page) = (2, None);
        self.snapshots.rows[at] = Row {
            holders,
            page,
            used,
        };
        Some(self.snapshots.first_row + at as u32)
    }

    /// Returns the row of the snapshot at the end of the `positions` that a table was given from the cache,
    /// and holds it.
    pub fn hold_reused_snapshot(&mut self, table: &BlockTable, positions: usize) -> Option<u32> {
        let used = self.number();
        let last = (positions / self.page_size as usize).checked_sub(1)?;
        let row = self.pages[*table.pages.get(last)? as usize].snapshot?;
        let held = self.snapshots.row(row)?;
        held.holders += 1;
        held.used = used;
        Some(row)
    }

    /// Gives a snapshot of a sequence's first `positions` positions, which have just been entered, to the page
    /// that later sequences find for the last of them, if it has none. It may be another sequence's with the same
    /// content.
    pub fn enter_snapshot(&mut self, table: &BlockTable, positions: usize, row: u32) {
        let pages = positions / self.page_size as usize;
        if let Some(at) = table.holder.filter(|_| pages == table.full) {
            let page = &mut self.pages[at as usize];
            let has_content = |(_, number): &(_, u64)| *number == table.content;
            if page.content.as_ref().is_some_and(has_content) && page.snapshot.is_none() {
                page.snapshot = Some(row);
                if let Some(row) = self.snapshots.row(row) {
                    row.holders += 1;
                    row.page = Some(at);
                }
            }
        }
        self.snapshots.release(row);
    }

    /// Releases a row that a sequence holds and will not read.
    pub fn release_snapshot(&mut self, row: Option<u32>) {
        if let Some(row) = row {
            self.snapshots.release(row);
        }
    }

    /// Releases a row that the batch which is being scheduled reads, once the next batch is scheduled: within
    /// a batch, nothing may overwrite it.
    pub fn release_read_snapshot(&mut self, row: Option<u32>) {
        self.snapshots.read.extend(row);
    }

    /// Starts the next batch: it may overwrite what the last one reads.
    pub fn begin_batch(&mut self) {
        for row in std::mem::take(&mut self.snapshots.read) {
            self.snapshots.release(row);
        }
    }

    /// Drops the snapshot of a page whose content is forgotten.
    pub(super) fn drop_snapshot_of(&mut self, page: u32) {
        if let Some(row) = self.pages[page as usize].snapshot.take() {
            if let Some(row) = self.snapshots.row(row) {
                row.page = None;
            }
            self.snapshots.release(row);
        }
    }

    /// Checks the snapshots against the rows that sequences hold.
    ///
    /// # Errors
    ///
    /// What does not hold.
    #[cfg(test)]
    pub(crate) fn check_snapshots(
        &self,
        held: impl IntoIterator<Item = u32>,
    ) -> Result<(), String> {
        let mut holders = vec![0; self.snapshots.rows.len()];
        let of_pages = self.pages.iter().filter_map(|page| page.snapshot);
        let all = held.into_iter().chain(of_pages);
        for row in all.chain(self.snapshots.read.iter().copied()) {
            let at = row.checked_sub(self.snapshots.first_row);
            let holders = at.and_then(|at| holders.get_mut(at as usize));
            *holders.ok_or_else(|| format!("row {row} is not for snapshots"))? += 1;
        }
        for (at, (row, holders)) in self.snapshots.rows.iter().zip(holders).enumerate() {
            if row.holders != holders {
                return Err(format!("row {at} counts {} of {holders}", row.holders));
            }
            let page = row.page.map(|page| &self.pages[page as usize]);
            let row = self.snapshots.first_row + at as u32;
            if page.is_some_and(|page| page.snapshot != Some(row) || page.content.is_none()) {
                return Err(format!("row {row} belongs to a page without its content"));
            }
        }
        Ok(())
    }
}
