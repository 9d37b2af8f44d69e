//! The orders in which checkpoints store the rows of queries, keys and values.

use std::ops::Range;

/// Returns the row of a query or key projection in Hugging Face's order that is row `row` in GGUF's
/// order for interleaved rotation: each head's pairs `(i, i + head_dim / 2)` become neighbours.
pub(crate) fn half_split_row(row: u64, head_dim: u64) -> u64 {
    let (head, i) = (row / head_dim, row % head_dim);
    head * head_dim + i % 2 * (head_dim / 2) + i / 2
}

/// Returns the rows of one head's part (0: query, 1: key, 2: value) in a fused projection that
/// stores query, key and value of each head together ([`QkvLayout::PerHead`](super::QkvLayout)).
pub(crate) fn per_head_rows(head: u64, part: u64, head_dim: u64) -> Range<u64> {
    let start = (3 * head + part) * head_dim;
    start..start + head_dim
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_head_become_neighbours() {
        let rows: Vec<u64> = (0..8).map(|row| half_split_row(row, 4)).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
    }

    #[test]
    fn heads_keep_their_parts_together() {
        assert_eq!(per_head_rows(0, 1, 4), 4..8);
        assert_eq!(per_head_rows(2, 0, 4), 24..28);
    }
}
