//! Snapshots of recurrent states: what a sequence needs besides pages to continue a cached prefix.
//!
//! A recurrent state has one row for each slot of the batch, and further rows for snapshots. The chunk of a
//! prompt that ends at the boundary of a page writes its state to such a row instead of its slot's, so that
//! a snapshot costs no copy; the sequence's next part reads that row. Once the page is entered, the snapshot
//! belongs to it, and other sequences that reuse the page as their last one continue from the row.
//!
//! A row is reused when nothing holds it: neither a page nor a sequence that has yet to read it. Batches run
//! in the order in which they are scheduled, so a row may be written by any batch after the one that reads it.
//! Where rows are short, the snapshot that was not used for longest is dropped; its page remains, but prefixes
//! cannot end there.

use super::{BlockTable, PagePool};

/// The rows of a recurrent state that hold snapshots.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots {
    /// The first row; the rows before it belong to slots.
    first_row: u32,
    rows: Vec<Row>,
    /// Rows that the last batch reads, which the next one may overwrite.
    read: Vec<u32>,
}

/// A row for a snapshot.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// Pages and sequences that need the row.
    holders: u32,
    /// The page whose end the row is the state of.
    page: Option<u32>,
    /// When it was last used.
    used: u64,
}

impl Snapshots {
    fn row(&mut self, row: u32) -> Option<&mut Row> {
        self.rows.get_mut(row.checked_sub(self.first_row)? as usize)
    }

    fn release(&mut self, row: u32) {
        if let Some(row) = self.row(row) {
            row.holders = row.holders.saturating_sub(1);
        }
    }
}

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

    /// Returns the number of the first positions after which a chunk of a prompt from `start` to `end` should
    /// end, so that it can leave a snapshot: the last boundary of a page within it, or else `end`.
    pub fn snapshot_boundary(&self, start: usize, end: usize) -> usize {
        let page = self.page_size as usize;
        match end - end % page {
            boundary if self.has_snapshots() && boundary > start => boundary,
            _ => end,
        }
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

    /// Gives a snapshot of a sequence's first `positions` positions to the page that they end at, if that page
    /// was entered and has none.
    pub fn enter_snapshot(&mut self, table: &BlockTable, positions: usize, row: u32) {
        let pages = positions / self.page_size as usize;
        let page = table.pages.get(pages.wrapping_sub(1)).copied();
        if let Some(at) = page.filter(|_| pages <= table.full) {
            let page = &mut self.pages[at as usize];
            if page.content.is_some() && page.snapshot.is_none() {
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
