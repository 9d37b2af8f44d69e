//! A quantised matrix, whose blocks are put together from several tensors when they are read.

use std::{ops::Range, sync::Arc};

use wisp_types::encoding::{BLOCK, Encoding};

use super::{
    packed::{Packed, Words},
    parts::{KeptTensors, Part},
    scales::{Absmax, AbsmaxBytes, Scales, f32_at},
    stored::StoredTensors,
    tensor_scales::TensorScales,
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
    /// `code * scale * of_tensor`, with a scale `[rows, cols / 16]` of 8 bits.
    TwoLevels {
        scales: TensorInfo,
        of_tensor: TensorScales,
    },
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

/// The bytes of all factors.
struct FactorBytes<'a> {
    scales: Part<'a>,
    zeros: Option<Part<'a>>,
    nested: Option<[Part<'a>; 2]>,
    of_tensor: f32,
}

/// Columns of a block in NVFP4, and of those that share a scale.
const NVFP4_BLOCK: u64 = 64;
const NVFP4_GROUP: u64 = 16;

impl QuantizedMatrix {
    /// Returns the column of the file at each position of a row, if that is another one.
    pub fn column_order(&self) -> Option<&Arc<[u32]>> {
        self.order.as_ref().map(|order| &order.columns)
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
        let codes = self.kept.read(source, &self.codes.tensor, stored.clone());
        let codes = codes.await?;
        let codes = self.codes.words(&stored, &codes);
        let factors = self.read_factors(source, &rows).await?;
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
            self.kept.clear();
            source.release_stored(&self.codes.tensor, 0..self.codes.tensor.len);
        }
    }

    async fn read_factors<'a>(
        &'a self,
        source: &'a dyn StoredTensors,
        rows: &Range<u64>,
    ) -> Result<FactorBytes<'a>, WeightError> {
        let whole = |tensor| self.kept.whole(source, tensor);
        let mut of_tensor = 1.0;
        let (scales, mut zeros, mut nested) = match &self.factors {
            Factors::Scales(scales) | Factors::ZeroPoints(scales, Zeros::Constant(_)) => {
                (&scales.tensor, None, None)
            }
            Factors::ZeroPoints(scales, Zeros::Packed(zeros)) => {
                (&scales.tensor, Some(whole(&zeros.tensor).await?), None)
            }
            Factors::Absmax { absmax, map } => {
                self.check_map(&whole(map).await?)?;
                let nested = match &absmax.nested {
                    Some(nested) => Some([whole(&nested.map).await?, whole(&nested.absmax).await?]),
                    None => None,
                };
                (&absmax.tensor, None, nested)
            }
            Factors::TwoLevels {
                scales,
                of_tensor: scale,
            } => {
                let bytes = whole(&scale.tensor).await?;
                of_tensor = scale
                    .get(&bytes, 0)
                    .map_err(|problem| self.error(problem))?;
                (scales, None, None)
            }
        };
        let scales = whole(scales).await?;
        if matches!(self.factors, Factors::TwoLevels { .. }) {
            self.check_group_scales(rows, &scales)?;
        }
        Ok(FactorBytes {
            scales,
            zeros: zeros.take(),
            nested: nested.take(),
            of_tensor,
        })
    }

    fn error(&self, problem: String) -> WeightError {
        WeightError::Quantized {
            weight: self.info.name.clone(),
            problem,
        }
    }

    /// Checks that scales of 8 bits have no sign, which devices ignore, and are numbers.
    fn check_group_scales(&self, rows: &Range<u64>, bytes: &[u8]) -> Result<(), WeightError> {
        let groups = self.cols / NVFP4_GROUP;
        let range = (rows.start * groups) as usize..(rows.end * groups) as usize;
        let bytes = bytes.get(range).unwrap_or_default();
        let Some(at) = bytes.iter().position(|byte| *byte >= 0x7f) else {
            return Ok(());
        };
        let (row, group) = (rows.start + at as u64 / groups, at as u64 % groups);
        let what = match bytes[at] & 0x7f {
            0x7f => "not a number",
            _ => "negative",
        };
        Err(self.error(format!(
            "the scale of row {row} and group {group} is {what}"
        )))
    }

    /// Checks that the values of a file's codes are NF4's.
    fn check_map(&self, bytes: &[u8]) -> Result<(), WeightError> {
        let same = NF4_VALUES
            .iter()
            .enumerate()
            .all(|(i, value)| (f32_at(bytes, i) - value).abs() < 1e-6);
        match same {
            true => Ok(()),
            false => Err(self.error("the values of its codes are not those of NF4".into())),
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
            self.push_factor(row, first, group, factors, out);
            match self.encoding {
                Encoding::F8_E4M3 => out.extend(q),
                // The bytes of the device are signed.
                Encoding::UINT8 => out.extend(q.map(|q| q ^ 0x80)),
                _ => out.extend((0..16).map(|i| q[i] | q[16 + i] << 4)),
            }
        }
    }

    /// Appends what precedes the codes of the block with column `first`.
    fn push_factor(
        &self,
        row: u64,
        first: u64,
        group: u64,
        bytes: &FactorBytes<'_>,
        out: &mut Vec<u8>,
    ) {
        let Factors::TwoLevels { .. } = self.factors else {
            out.extend(self.factor(row, first, group, bytes));
            return;
        };
        // Two blocks share their scales.
        if first.is_multiple_of(NVFP4_BLOCK) {
            let start = ((row * self.cols + first) / NVFP4_GROUP) as usize;
            let end = start + (NVFP4_BLOCK / NVFP4_GROUP) as usize;
            out.extend(bytes.of_tensor.to_le_bytes());
            // The sizes of the tensor were checked, so that there are four.
            out.extend(bytes.scales.get(start..end).unwrap_or(&[0; 4]));
        }
    }

    /// Returns the factor of a block as its encoding stores it.
    fn factor(&self, row: u64, first: u64, group: u64, bytes: &FactorBytes<'_>) -> [u8; 4] {
        match &self.factors {
            Factors::TwoLevels { .. } => bytes.of_tensor.to_le_bytes(),
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
