//! Loading weights: they are read in chunks, repacked and written to the device.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use wisp_compiler::{self, Matrix, Program, RowRange, Vector};
use wisp_device::{Buffer, BufferSlice, Device, Usage};
use wisp_types::Encoding;
use wisp_weights::{WeightSource, encodings};

use crate::{
    error::SessionError,
    init_options::OnProgress,
    overwrite_flags::{OverwriteFlag, OverwriteFlags},
};

/// Bytes of a checkpoint that are read and repacked at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Rows of a chunk are a multiple of this, so that its part of every plane is whole words.
const CHUNK_ROWS: u64 = 16;

/// A matrix on the device: one buffer, its planes one after the other.
#[derive(Clone, Debug)]
pub(crate) struct DeviceMatrix {
    buffer: Buffer,
    /// Start and length of each plane in bytes.
    planes: [(u64, u64); 3],
}

impl DeviceMatrix {
    pub fn plane(&self, plane: u8) -> BufferSlice {
        let (start, bytes) = self.planes[plane as usize];
        self.buffer.slice(start..start + bytes)
    }

    /// A copy in memory of its own.
    pub fn copied(&self, device: &Device) -> Result<DeviceMatrix, SessionError> {
        let bytes = self.buffer.bytes();
        let buffer = device.allocate("a copy of a weight", bytes, Usage::Storage)?;
        device.copy(&self.buffer, 0..bytes, &buffer, 0)?;
        Ok(DeviceMatrix {
            buffer,
            planes: self.planes,
        })
    }
}

/// The weights that models have on a device already, each with the flag of the model that loaded it first; models share
/// those of the same rows and tensors.
#[derive(Debug, Default)]
pub(crate) struct DeviceWeights {
    matrices: HashMap<Matrix, (DeviceMatrix, OverwriteFlag)>,
    vectors: HashMap<Vector, (Buffer, OverwriteFlag)>,
    scales: Scales,
}

impl DeviceWeights {
    /// No weights, and what is known of tensors that are to be quantized.
    pub fn with_scales(scales: Scales) -> DeviceWeights {
        DeviceWeights {
            scales,
            ..DeviceWeights::default()
        }
    }
}

/// The weights of one program on its device.
#[derive(Debug)]
pub(crate) struct Weights {
    pub matrices: Vec<DeviceMatrix>,
    pub vectors: Vec<Buffer>,
    overwritten: OverwriteFlags,
}

impl Weights {
    /// Returns whether all weights are of one checkpoint.
    pub fn is_consistent(&self) -> bool {
        !self.overwritten.any_set()
    }

    /// Stops the models that share weights with this one, so that [`overwrite`] may begin; returns false if another model
    /// overwrites some of them, or failed to.
    #[must_use]
    pub fn begin_overwrite(&self) -> bool {
        self.overwritten.try_set()
    }
}

/// Counts the bytes loaded and reports them to the caller.
pub(crate) struct Progress<'a> {
    done: u64,
    total: u64,
    report: Option<OnProgress<'a>>,
}

impl<'a> Progress<'a> {
    pub fn new(total: u64, report: Option<OnProgress<'a>>) -> Progress<'a> {
        let done = 0;
        Progress {
            done,
            total,
            report,
        }
    }

    fn add(&mut self, bytes: u64) -> Result<(), SessionError> {
        self.done = self.done.saturating_add(bytes);
        let report = self.report.map(|report| report(self.done, self.total));
        match report.unwrap_or(ControlFlow::Continue(())) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(SessionError::Cancelled),
        }
    }
}

/// Checks that a source has every tensor of a program, with the encoding and size it was compiled for; the
/// error lists all problems. Returns the bytes to read, without weights that are loaded already.
pub(crate) fn check(
    program: &Program,
    weights: &dyn WeightSource,
    loaded: &DeviceWeights,
) -> Result<u64, SessionError> {
    let mut problems = BTreeMap::new();
    let mut total = 0u64;
    for matrix in &program.matrices {
        for part in &matrix.row_ranges {
            if let Some(problem) = matrix_problem(matrix, part, weights) {
                problems.insert(&part.tensor, problem);
            }
            let row_bytes = stored(matrix, part, weights)
                .file_row_bytes(matrix.cols)
                .unwrap_or(0);
            if !loaded.matrices.contains_key(matrix) {
                let bytes = row_bytes.saturating_mul(part.end - part.start);
                total = total.saturating_add(bytes);
            }
        }
    }
    for vector in &program.vectors {
        let mut elements = 0u64;
        for tensor in &vector.tensors {
            match weights.find(tensor) {
                Some(info) => {
                    if info.encoding().is_err() {
                        let problem =
                            format!("{tensor} is {}, which holds no numbers", info.stored);
                        problems.insert(tensor, problem);
                    }
                    elements = elements.saturating_add(element_count(&info.shape));
                    if !loaded.vectors.contains_key(vector) {
                        total = total.saturating_add(info.len);
                    }
                }
                None => {
                    problems.insert(tensor, format!("{tensor} is missing"));
                }
            }
        }
        if let (true, Some(first)) = (elements != vector.elements, vector.tensors.first()) {
            let problem = format!(
                "{} has {elements} elements, expected {}",
                vector.tensors.join(" with "),
                vector.elements
            );
            problems.entry(first).or_insert(problem);
        }
    }
    if problems.is_empty() {
        return Ok(total);
    }
    Err(SessionError::Mismatch {
        graph: program.name.clone(),
        problems: problems.into_values().collect(),
    })
}

/// The problem with the tensor of some rows of a matrix, if it has one.
fn matrix_problem(matrix: &Matrix, part: &RowRange, weights: &dyn WeightSource) -> Option<String> {
    let tensor = &part.tensor;
    let Some(info) = weights.find(tensor) else {
        return Some(format!("{tensor} is missing"));
    };
    let fits = |stored: Encoding| match matrix.encoding {
        Encoding::F8_E4M3 => stored.is_float() || stored == Encoding::F8_E4M3,
        encoding => stored.on_device() == encoding,
    };
    if !info.encoding().is_ok_and(fits) {
        return Some(format!(
            "{tensor} is {}, expected {}",
            info.stored, matrix.encoding
        ));
    }
    let fits = info
        .shape
        .split_last()
        .is_some_and(|(cols, outer)| *cols == matrix.cols && element_count(outer) >= part.end);
    (!fits).then(|| {
        format!(
            "{tensor} has shape {:?}, expected [{}, {}]",
            info.shape, part.end, matrix.cols
        )
    })
}

/// The number of elements of a shape, which a source may have from anyone; one that does not fit 64 bits is `u64::MAX`.
fn element_count(shape: &[u64]) -> u64 {
    shape
        .iter()
        .fold(1, |count, size| count.saturating_mul(*size))
}

/// The encoding of some rows in the checkpoint, which [`check`] has accepted.
fn stored(matrix: &Matrix, part: &RowRange, weights: &dyn WeightSource) -> Encoding {
    let found = weights.find(&part.tensor);
    found
        .and_then(|info| info.encoding().ok())
        .unwrap_or(matrix.encoding)
}

/// True if weights with this encoding in the checkpoint are quantized to 8-bit floats for a matrix.
fn becomes_f8(matrix: &Matrix, stored: Encoding) -> bool {
    matrix.encoding == Encoding::F8_E4M3 && stored.is_float()
}

/// Checks that weights to be quantized to 8-bit floats are finite, before any are written, and adds their scales to those
/// that are known.
pub(crate) async fn check_finite(
    program: &Program,
    weights: &dyn WeightSource,
    scales: &mut Scales,
) -> Result<(), SessionError> {
    for matrix in &program.matrices {
        for part in &matrix.row_ranges {
            if becomes_f8(matrix, stored(matrix, part, weights)) {
                f8_scale_of(part, weights, scales).await?;
            }
        }
    }
    Ok(())
}

/// The scales of tensors quantized to 8-bit floats, by name: several matrices may have rows of one tensor.
pub(crate) type Scales = HashMap<String, f32>;

/// Loads a program's weights, except those that are loaded already.
pub(crate) async fn load(
    device: &Device,
    program: &Program,
    source: &dyn WeightSource,
    progress: &mut Progress<'_>,
    loaded: &mut DeviceWeights,
) -> Result<Weights, SessionError> {
    let own = OverwriteFlag::default();
    let mut overwritten = OverwriteFlags::new(own.clone());
    let mut matrices = Vec::with_capacity(program.matrices.len());
    for matrix in &program.matrices {
        let known = loaded.matrices.get(matrix).cloned();
        matrices.push(match known {
            Some((known, flag)) => {
                overwritten.add(&flag);
                known
            }
            None => {
                let target = allocate_matrix(device, matrix)?;
                let scales = &mut loaded.scales;
                fill_matrix(device, matrix, &target, source, progress, scales).await?;
                let shared = (target.clone(), own.clone());
                loaded.matrices.insert(matrix.clone(), shared);
                target
            }
        });
    }
    let mut vectors = Vec::with_capacity(program.vectors.len());
    for vector in &program.vectors {
        let known = loaded.vectors.get(vector).cloned();
        vectors.push(match known {
            Some((known, flag)) => {
                overwritten.add(&flag);
                known
            }
            None => {
                let first = vector.tensors.first().map_or("", String::as_str);
                let target = device.allocate(first, vector.elements * 4, Usage::Storage)?;
                fill_vector(device, vector, &target, source, progress).await?;
                let shared = (target.clone(), own.clone());
                loaded.vectors.insert(vector.clone(), shared);
                target
            }
        });
    }
    Ok(Weights {
        matrices,
        vectors,
        overwritten,
    })
}

/// Overwrites the weights of a program after [`Weights::begin_overwrite`]. The models that share some of them do not run
/// until it succeeds.
pub(crate) async fn overwrite(
    device: &Device,
    program: &Program,
    weights: &Weights,
    source: &dyn WeightSource,
    progress: &mut Progress<'_>,
    scales: &mut Scales,
) -> Result<(), SessionError> {
    for (matrix, target) in program.matrices.iter().zip(&weights.matrices) {
        fill_matrix(device, matrix, target, source, progress, scales).await?;
    }
    for (vector, target) in program.vectors.iter().zip(&weights.vectors) {
        fill_vector(device, vector, target, source, progress).await?;
    }
    device.finish().await?;
    weights.overwritten.clear();
    Ok(())
}

fn allocate_matrix(device: &Device, matrix: &Matrix) -> Result<DeviceMatrix, SessionError> {
    let layout = matrix.layout();
    let first = matrix.row_ranges.first();
    let label = first.map_or("", |part| part.tensor.as_str());
    let buffer = device.allocate(label, layout.bytes, Usage::Storage)?;
    Ok(DeviceMatrix {
        buffer,
        planes: layout.planes,
    })
}

/// Reads the rows of a matrix, repacks them and writes them.
async fn fill_matrix(
    device: &Device,
    matrix: &Matrix,
    target: &DeviceMatrix,
    weights: &dyn WeightSource,
    progress: &mut Progress<'_>,
    scales: &mut Scales,
) -> Result<(), SessionError> {
    let plane_row = matrix.encoding.plane_row_bytes(matrix.cols);
    let mut row = 0;
    for part in &matrix.row_ranges {
        let stored = stored(matrix, part, weights);
        let file_row = stored.file_row_bytes(matrix.cols).unwrap_or(0);
        let step = rows_at_a_time(file_row);
        let becomes_f8 = becomes_f8(matrix, stored);
        let scale = match becomes_f8 {
            true => f8_scale_of(part, weights, scales).await?,
            false => 1.0,
        };
        let mut start = part.start;
        while start < part.end {
            let rows = step.min(part.end - start);
            let range = start * file_row..(start + rows) * file_row;
            let mut bytes = weights.read(&part.tensor, range.clone()).await?;
            let (height, cols) = (rows as usize, matrix.cols as usize);
            if becomes_f8 {
                let values = encodings::dequantize(stored, &bytes, height, cols)?;
                bytes = encodings::quantize_f8(&values, scale)?.into();
            }
            let encoding = if becomes_f8 { matrix.encoding } else { stored };
            let packed = encodings::repack_rows(encoding, &bytes, height, cols)?;
            for (plane, data) in packed.iter().enumerate() {
                write_padded(
                    device,
                    &target.buffer,
                    target.planes[plane].0 + row * plane_row[plane],
                    data,
                )?;
            }
            drop(bytes);
            weights.release(&part.tensor, range);
            progress.add(rows * file_row)?;
            start += rows;
            row += rows;
        }
    }
    Ok(())
}

/// The number of rows that are read and repacked at a time.
fn rows_at_a_time(file_row: u64) -> u64 {
    (CHUNK_BYTES / file_row.max(1) / CHUNK_ROWS).max(1) * CHUNK_ROWS
}

/// The scale of a tensor quantized to 8-bit floats, from its maximum magnitude.
async fn f8_scale_of(
    part: &RowRange,
    weights: &dyn WeightSource,
    scales: &mut Scales,
) -> Result<f32, SessionError> {
    if let Some(scale) = scales.get(&part.tensor) {
        return Ok(*scale);
    }
    let Some(info) = weights.find(&part.tensor) else {
        return Ok(1.0);
    };
    let encoding = info.encoding()?;
    let mut max_abs = 0f32;
    let mut start = 0;
    while start < info.len {
        let end = info.len.min(start + CHUNK_BYTES);
        let bytes = weights.read(&part.tensor, start..end).await?;
        // An unquantized encoding: any number of elements is a row.
        let count = bytes.len() / encoding.file_block_bytes();
        let values = encodings::dequantize(encoding, &bytes, 1, count)?;
        for value in values {
            if !value.is_finite() {
                return Err(SessionError::NotFinite {
                    tensor: part.tensor.clone(),
                });
            }
            max_abs = max_abs.max(value.abs());
        }
        drop(bytes);
        weights.release(&part.tensor, start..end);
        start = end;
    }
    let scale = encodings::f8_scale(max_abs);
    scales.insert(part.tensor.clone(), scale);
    Ok(scale)
}

/// Writes data that may end within a word: the rest of the word is the plane's padding.
fn write_padded(
    device: &Device,
    buffer: &Buffer,
    offset: u64,
    data: &[u8],
) -> Result<(), SessionError> {
    let whole = data.len() / 4 * 4;
    device.write(buffer, offset, &data[..whole])?;
    if whole < data.len() {
        let mut word = [0; 4];
        word[..data.len() - whole].copy_from_slice(&data[whole..]);
        device.write(buffer, offset + whole as u64, &word)?;
    }
    Ok(())
}

/// Reads tensors that kernels read as `f32`, and writes them one after the other.
async fn fill_vector(
    device: &Device,
    vector: &Vector,
    buffer: &Buffer,
    weights: &dyn WeightSource,
    progress: &mut Progress<'_>,
) -> Result<(), SessionError> {
    let mut offset = 0;
    for tensor in &vector.tensors {
        let Some(info) = weights.find(tensor) else {
            continue;
        };
        let encoding = info.encoding()?;
        let elements = element_count(&info.shape);
        let bytes = weights.read(tensor, 0..info.len).await?;
        let values = encodings::dequantize(encoding, &bytes, 1, elements as usize)?;
        device.write(buffer, offset, bytemuck::cast_slice(&values))?;
        offset += elements * 4;
        progress.add(info.len)?;
        weights.release(tensor, 0..info.len);
    }
    Ok(())
}
