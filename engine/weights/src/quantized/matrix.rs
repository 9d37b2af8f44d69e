//! A quantised matrix, whose blocks are put together from several tensors when they are read.

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::{Deref, Range},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use wisp_types::encoding::{BLOCK, Encoding};

use super::{
    packed::{Packed, Words},
    scales::{Absmax, AbsmaxBytes, Scales, f32_at},
    stored::StoredTensors,
};
use crate::{
    blocks::{NF4_VALUES, ZeroPoint},
    error::WeightError,
    tensor::TensorInfo,
};

/// The factors of a matrix's codes.
#[derive(Debug)]
pub(super) enum Factors {
    /// `scale * code`: 8-bit floats.
    Scales(Scales),
    /// `scale * (code - zero)`.
    ZeroPoints(Scales, Zeros),
    /// `absmax * map[code]`, with the map that the file has, which must be NF4's.
    Absmax { absmax: Absmax, map: TensorInfo },
}

/// The zero points of a matrix.
#[derive(Debug)]
pub(super) enum Zeros {
    /// The same one everywhere.
    Constant(u8),
    /// One for each row and group.
    Packed(Packed),
}

/// The columns of a matrix that are grouped by another order than their own.
#[derive(Debug)]
pub(super) struct ColumnOrder {
    /// The column of the file at each position.
    pub columns: Arc<[u32]>,
    /// The group of each block of 32 positions.
    pub groups: Vec<u32>,
}

/// Whole tensors, by their file and offset.
pub(super) type KeptTensors = Mutex<HashMap<(usize, u64), Arc<[u8]>>>;

/// A quantised matrix `[rows, cols]`.
#[derive(Debug)]
pub(crate) struct QuantizedMatrix {
    /// The tensor that the checkpoint shows.
    pub info: TensorInfo,
    pub(super) encoding: Encoding,
    pub(super) rows: u64,
    pub(super) cols: u64,
    pub(super) codes: Packed,
    pub(super) factors: Factors,
    /// Columns of a group, a multiple of 32.
    pub(super) group: u64,
    pub(super) order: Option<ColumnOrder>,
    /// Whole tensors of remote files, while the matrix is read.
    pub(super) kept: KeptTensors,
}

/// The bytes of a tensor.
enum Part<'a> {
    Stored(Cow<'a, [u8]>),
    Kept(Arc<[u8]>),
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Part::Stored(bytes) => bytes,
            Part::Kept(bytes) => bytes,
        }
    }
}

/// The bytes of all factors.
struct FactorBytes<'a> {
    scales: Part<'a>,
    zeros: Option<Part<'a>>,
    nested: Option<[Part<'a>; 2]>,
}

impl QuantizedMatrix {
    /// Returns the column of the file at each position of a row, if that is another one.
    pub fn column_order(&self) -> Option<&Arc<[u32]>> {
        self.order.as_ref().map(|order| &order.columns)
    }

    /// Reads the bytes `range` of the matrix without waiting, from files that are in memory or mapped.
    pub fn bytes(
        &self,
        source: &dyn StoredTensors,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let future = pin!(self.read(source, range.clone()));
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(bytes) => bytes,
            // As for other tensors of remote files.
            Poll::Pending => Err(self.info.out_of_range(&range)),
        }
    }

    /// Reads the bytes `range` of the matrix.
    pub async fn read(
        &self,
        source: &dyn StoredTensors,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        if range.start > range.end || range.end > self.info.len {
            return Err(self.info.out_of_range(&range));
        }
        let row_bytes = (self.info.len / self.rows.max(1)).max(1);
        let rows = range.start / row_bytes..range.end.div_ceil(row_bytes);
        let stored = self.codes.row_bytes(&rows, self.rows);
        let codes = self
            .part(source, &self.codes.tensor, stored.clone())
            .await?;
        let codes = self.codes.words(&stored, &codes);
        let factors = self.read_factors(source).await?;
        let mut bytes = Vec::with_capacity(((rows.end - rows.start) * row_bytes) as usize);
        for row in rows.clone() {
            self.encode_row(row, codes, &factors, &mut bytes);
        }
        bytes.truncate((range.end - rows.start * row_bytes) as usize);
        bytes.drain(..(range.start - rows.start * row_bytes) as usize);
        Ok(bytes)
    }

    /// Releases the tensors once the end of the matrix has been used, and the rows that were used before.
    pub fn release(&self, source: &dyn StoredTensors, range: &Range<u64>) {
        if range.end == self.info.len {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.clear();
            source.release_stored(&self.codes.tensor, 0..self.codes.tensor.len);
        }
    }

    /// Reads a range of a tensor. A whole tensor of a remote file is kept, because its other rows follow.
    async fn part<'a>(
        &self,
        source: &'a dyn StoredTensors,
        tensor: &'a TensorInfo,
        range: Range<u64>,
    ) -> Result<Part<'a>, WeightError> {
        let is_whole = range == (0..tensor.len);
        let key = (tensor.file, tensor.offset);
        let kept = |bytes: Option<Arc<[u8]>>| {
            // Poisoning is harmless: tensors are inserted whole.
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            match bytes {
                Some(bytes) => kept.insert(key, bytes),
                None => kept.get(&key).cloned(),
            }
        };
        if is_whole && let Some(bytes) = kept(None) {
            return Ok(Part::Kept(bytes));
        }
        match source.read_stored(tensor, range).await? {
            Cow::Owned(bytes) if is_whole => {
                let bytes: Arc<[u8]> = bytes.into();
                kept(Some(bytes.clone()));
                Ok(Part::Kept(bytes))
            }
            bytes => Ok(Part::Stored(bytes)),
        }
    }

    async fn whole<'a>(
        &self,
        source: &'a dyn StoredTensors,
        tensor: &'a TensorInfo,
    ) -> Result<Part<'a>, WeightError> {
        self.part(source, tensor, 0..tensor.len).await
    }

    async fn read_factors<'a>(
        &'a self,
        source: &'a dyn StoredTensors,
    ) -> Result<FactorBytes<'a>, WeightError> {
        let (scales, mut zeros, mut nested) = match &self.factors {
            Factors::Scales(scales) | Factors::ZeroPoints(scales, Zeros::Constant(_)) => {
                (&scales.tensor, None, None)
            }
            Factors::ZeroPoints(scales, Zeros::Packed(zeros)) => (
                &scales.tensor,
                Some(self.whole(source, &zeros.tensor).await?),
                None,
            ),
            Factors::Absmax { absmax, map } => {
                self.check_map(&self.whole(source, map).await?)?;
                let nested = match &absmax.nested {
                    Some(nested) => Some([
                        self.whole(source, &nested.map).await?,
                        self.whole(source, &nested.absmax).await?,
                    ]),
                    None => None,
                };
                (&absmax.tensor, None, nested)
            }
        };
        Ok(FactorBytes {
            scales: self.whole(source, scales).await?,
            zeros: zeros.take(),
            nested: nested.take(),
        })
    }

    /// Checks that the values of a file's codes are NF4's.
    fn check_map(&self, bytes: &[u8]) -> Result<(), WeightError> {
        let same = NF4_VALUES
            .iter()
            .enumerate()
            .all(|(i, value)| (f32_at(bytes, i) - value).abs() < 1e-6);
        match same {
            true => Ok(()),
            false => Err(WeightError::Quantized {
                weight: self.info.name.clone(),
                problem: "the values of its codes are not those of NF4".into(),
            }),
        }
    }

    /// Appends the blocks of a row.
    fn encode_row(&self, row: u64, codes: Words<'_>, factors: &FactorBytes<'_>, out: &mut Vec<u8>) {
        for block in 0..self.cols / BLOCK as u64 {
            let first = block * BLOCK as u64;
            let (group, q) = match &self.order {
                None => (first / self.group, self.codes.block(codes, row, first)),
                Some(order) => {
                    let columns = order.columns.get(first as usize..).unwrap_or_default();
                    let mut q = [0; BLOCK];
                    for (q, column) in q.iter_mut().zip(columns) {
                        *q = self.codes.get(codes, row, (*column).into());
                    }
                    let group = order.groups.get(block as usize).copied().unwrap_or(0);
                    (group.into(), q)
                }
            };
            out.extend(self.factor(row, first, group, factors));
            match self.encoding {
                Encoding::F8_E4M3 => out.extend(q),
                // The bytes of the device are signed.
                Encoding::UINT8 => out.extend(q.map(|q| q ^ 0x80)),
                _ => out.extend((0..16).map(|i| q[i] | q[16 + i] << 4)),
            }
        }
    }

    /// Returns the factor of a block as its encoding stores it.
    fn factor(&self, row: u64, first: u64, group: u64, bytes: &FactorBytes<'_>) -> [u8; 4] {
        match &self.factors {
            Factors::Scales(scales) => scales.get(&bytes.scales, row, group).to_le_bytes(),
            Factors::ZeroPoints(scales, zeros) => {
                let scale = scales.get(&bytes.scales, row, group);
                let zero = match (zeros, &bytes.zeros) {
                    (Zeros::Packed(zeros), Some(bytes)) => {
                        zeros.get(zeros.words(&(0..zeros.tensor.len), bytes), row, group)
                    }
                    (Zeros::Constant(zero), _) => *zero,
                    (Zeros::Packed(_), None) => 0,
                };
                let word = match self.encoding {
                    Encoding::UINT8 => ZeroPoint::<8>::new(scale, zero.into()).0,
                    _ => ZeroPoint::<4>::new(scale, zero.into()).0,
                };
                word.to_le_bytes()
            }
            Factors::Absmax { absmax, .. } => {
                let (map, nested): (&[u8], &[u8]) = match &bytes.nested {
                    Some([map, absmax]) => (map, absmax),
                    None => (&[], &[]),
                };
                let bytes = AbsmaxBytes {
                    tensor: &bytes.scales,
                    map,
                    absmax: nested,
                };
                absmax.get(bytes, row * self.cols + first).to_le_bytes()
            }
        }
    }
}
