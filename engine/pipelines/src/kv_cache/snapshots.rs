//! Snapshots of recurrent states: what a sequence needs besides pages to continue a cached prefix.
//!
//! A recurrent state has one row for each slot of the batch, and further rows for snapshots. The chunk of a
//! prompt that leaves a snapshot writes its state to such a row instead of its slot's, so that
//! a snapshot costs no copy; the sequence's next part reads that row. Once the page is entered, the snapshot
//! belongs to it, and other sequences that reuse the page as their last one continue from the row.
//!
//! A prompt leaves snapshots only where they are likely to be of use, so that a long one does not take all rows: at the
//! last whole page before its last token, and where the pages that the cache knows of its prefix end, because what two
//! prompts have in common a third one is likely to have too; and every few thousand tokens. Its chunks end there.
//!
//! A row is reused when nothing holds it: neither a page nor a sequence that has yet to read it. Batches run
//! in the order in which they are scheduled, so a row may be written by any batch after the one that reads it.
//! Where rows are short, the snapshot that was not used for longest is dropped; its page remains, but prefixes
//! cannot end there.

/// The rows of a recurrent state that hold snapshots.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots {
    /// The first row; the rows before it belong to slots.
    pub first_row: u32,
    pub rows: Vec<Row>,
    /// Rows that the last batch reads, which the next one may overwrite.
    pub read: Vec<u32>,
}

/// A row for a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// Pages and sequences that need the row.
    pub holders: u32,
    /// The page whose end the row is the state of.
    pub page: Option<u32>,
    /// When it was last used.
    pub used: u64,
}

impl Snapshots {
    /// Returns a row.
    pub fn row(&mut self, row: u32) -> Option<&mut Row> {
        self.rows.get_mut(row.checked_sub(self.first_row)? as usize)
    }

    /// Counts one holder of a row less.
    pub fn release(&mut self, row: u32) {
        if let Some(row) = self.row(row) {
            row.holders = row.holders.saturating_sub(1);
        }
    }
}
