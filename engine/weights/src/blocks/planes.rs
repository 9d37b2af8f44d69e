//! The planes of packed weights.

use std::{ops::Range, slice::ChunksExact};

use wisp_types::Encoding;

use super::simd::Simd;
use crate::error::EncodingError;

/// The planes (main, high, scales) of some rows of a packed weight. Planes that the encoding does not have
/// are empty.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    planes: [&'a [u8]; 3],
}

impl<'a> Planes<'a> {
    /// Takes the planes of `rows` rows of `cols` weights. They may be longer than that.
    ///
    /// # Errors
    ///
    /// If a plane is too short.
    pub fn new(
        encoding: Encoding,
        planes: [&'a [u8]; 3],
        rows: usize,
        cols: usize,
    ) -> Result<Self, EncodingError> {
        let expected = plane_bytes(encoding, rows, cols)?;
        for (i, what) in ["main plane", "high plane", "scales plane"]
            .into_iter()
            .enumerate()
        {
            if planes[i].len() < expected[i] {
                return Err(EncodingError::Length {
                    encoding,
                    what,
                    expected: expected[i],
                    actual: planes[i].len(),
                });
            }
        }
        Ok(Planes { planes })
    }

    /// Returns bytes `[index * N, (index + 1) * N)` of the main plane.
    ///
    /// # Panics
    ///
    /// This and the following functions panic if the bytes are not inside the plane.
    #[inline(always)]
    pub fn main<const N: usize>(&self, index: usize) -> &'a [u8; N] {
        &self.planes[0].as_chunks().0[index]
    }

    /// Returns bytes `[index * N, (index + 1) * N)` of the high plane.
    #[inline(always)]
    pub fn high<const N: usize>(&self, index: usize) -> &'a [u8; N] {
        &self.planes[1].as_chunks().0[index]
    }

    /// Returns the main and the high plane of `count` blocks, which have these bytes in each. Where the bytes and `count` are
    /// constants, reading the blocks needs no further checks.
    ///
    /// # Panics
    ///
    /// If the blocks are not inside the planes.
    #[inline(always)]
    pub fn blocks(&self, [main, high]: [usize; 2], first: usize, count: usize) -> Planes<'a> {
        Planes {
            planes: [
                &self.planes[0][first * main..][..count * main],
                &self.planes[1][first * high..][..count * high],
                &[],
            ],
        }
    }

    /// Returns the whole planes.
    #[inline(always)]
    pub fn bytes(&self) -> [&'a [u8]; 3] {
        self.planes
    }

    /// Returns bytes `[index * N, (index + 1) * N)` of the scales plane.
    #[inline(always)]
    pub fn scales<const N: usize>(&self, index: usize) -> &'a [u8; N] {
        &self.planes[2].as_chunks().0[index]
    }

    /// Splits these planes into groups of `count` blocks, and leaves what remains. Where the bytes of a block (main, high)
    /// and `count` are constants, reading the blocks needs no further checks.
    ///
    /// # Panics
    ///
    /// If a group has no bytes in the main plane.
    #[inline(always)]
    pub fn groups(&self, [main, high]: [usize; 2], count: usize) -> Groups<'a> {
        Groups {
            main: self.planes[0].chunks_exact(main * count),
            // Chunks must not be empty.
            high: self.planes[1].chunks_exact(high.max(1) * count),
            has_high: high > 0,
        }
    }

    /// Begins to load as many blocks as these planes have into the caches, but for their scales: those that lie `distance`
    /// blocks further on. A block has these bytes in the main and in the high plane.
    ///
    /// CPUs load what is read in order by themselves, but no further than to the end of a page of memory.
    #[inline(always)]
    pub fn prefetch_ahead<S: Simd>(&self, block_bytes: [usize; 2], distance: usize) {
        for (plane, bytes) in self.planes.iter().zip(block_bytes) {
            S::prefetch_ahead(plane, distance * bytes);
        }
    }

    /// Returns a prefetcher of some columns of each row, given the `width` of a row in weights.
    #[inline(always)]
    pub fn row_prefetcher(
        &self,
        encoding: Encoding,
        width: usize,
        columns: Range<usize>,
    ) -> RowPrefetcher<'a> {
        let bytes = |weights: usize| encoding.plane_row_bytes(weights as u64);
        let (rows, starts, ends) = (bytes(width), bytes(columns.start), bytes(columns.end));
        let mut planes = [(&[][..], [0; 3]); 3];
        for i in 0..3 {
            let sizes = [rows[i], starts[i], ends[i] - starts[i]].map(|bytes| bytes as usize);
            planes[i] = (self.planes[i], sizes);
        }
        RowPrefetcher(planes)
    }

    /// Returns `count` scales of `N` bytes each, from index `first` on.
    #[inline(always)]
    pub fn many_scales<const N: usize>(&self, first: usize, count: usize) -> &'a [[u8; N]] {
        &self.planes[2].as_chunks().0[first..first + count]
    }
}

/// Groups of blocks: their main and their high plane.
pub struct Groups<'a> {
    main: ChunksExact<'a, u8>,
    high: ChunksExact<'a, u8>,
    has_high: bool,
}

impl<'a> Iterator for Groups<'a> {
    type Item = Planes<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Planes<'a>> {
        let high = match self.has_high {
            true => self.high.next()?,
            false => &[],
        };
        Some(Planes {
            planes: [self.main.next()?, high, &[]],
        })
    }
}

/// Returns the size in bytes of each plane (main, high, scales) of `rows` rows of `cols` weights, without
/// padding at the end.
///
/// # Errors
///
/// If `cols` is not a whole number of the encoding's blocks, or a size overflows.
pub fn plane_bytes(
    encoding: Encoding,
    rows: usize,
    cols: usize,
) -> Result<[usize; 3], EncodingError> {
    if !cols.is_multiple_of(encoding.file_block_weights()) {
        return Err(EncodingError::Columns {
            encoding,
            cols,
            multiple: encoding.file_block_weights(),
        });
    }
    let too_large = EncodingError::TooLarge {
        encoding,
        rows,
        cols,
    };
    // A weight takes at most 4 bytes of a plane, so the size of a row cannot overflow below.
    if cols > usize::MAX / 8 {
        return Err(too_large);
    }
    let mut bytes = [0; 3];
    for (bytes, row) in bytes.iter_mut().zip(encoding.plane_row_bytes(cols as u64)) {
        let size = (row as usize).checked_mul(rows);
        // Callers may pad planes to 16 bytes.
        *bytes = size
            .filter(|size| *size < usize::MAX - 16)
            .ok_or_else(|| too_large.clone())?;
    }
    Ok(bytes)
}

/// Loads some columns of rows into the caches: of each plane its bytes, and how many of them a row has, come before the
/// columns in a row, and the columns have.
#[derive(Clone, Copy)]
pub struct RowPrefetcher<'a>([(&'a [u8], [usize; 3]); 3]);

impl RowPrefetcher<'_> {
    /// Begins to load the columns of a row into the caches, unless the planes do not have the row.
    #[inline(always)]
    pub fn prefetch<S: Simd>(&self, row: usize) {
        for (plane, [row_bytes, start, len]) in self.0 {
            let start = row * row_bytes + start;
            S::prefetch(plane.get(start..start + len).unwrap_or_default());
        }
    }
}
