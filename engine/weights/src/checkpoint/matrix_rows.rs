//! Rows of a matrix that stays in the files of its checkpoint.

use super::Checkpoint;
use crate::{
    Encoding, WeightSource, encodings,
    error::WeightError,
    files::{File, FileBytes},
    tensor::TensorInfo,
};

/// A matrix whose rows are decoded when they are read.
///
/// It stays where the checkpoint has it: a mapped file remains mapped, and bytes in memory are shared. Only a tensor
/// that consists of several of the files' is copied, once and in its encoding.
#[derive(Debug)]
pub struct MatrixRows {
    tensor: TensorInfo,
    file: File,
    encoding: Encoding,
    rows: u64,
    cols: usize,
    /// Bytes of a row in the file.
    row_bytes: u64,
}

impl Checkpoint {
    /// Returns whether a tensor is in a remote file, which is read in pieces. False if there is no such tensor.
    pub fn is_remote(&self, name: &str) -> bool {
        let index = self.by_name.get(name);
        let tensor = index.and_then(|index| self.tensors.get(*index));
        let file = tensor.and_then(|tensor| self.files.get(tensor.file));
        file.is_some_and(|file| file.bytes.as_remote().is_some())
    }

    /// Returns the rows of a tensor `[rows, cols]`, which outlive the checkpoint.
    ///
    /// # Errors
    ///
    /// If the checkpoint does not have the tensor, its size is not that of the shape, Wisp does not compute with its
    /// encoding, its columns are in another order than the model's, or it is in a [remote file](Self::is_remote).
    pub fn matrix_rows(&self, name: &str, shape: [u64; 2]) -> Result<MatrixRows, WeightError> {
        let tensor = self.require(name)?;
        let (encoding, [rows, cols]) = (tensor.encoding()?, shape);
        let unfit = || WeightError::Shape {
            tensor: name.into(),
            shape: shape.to_vec(),
            encoding,
        };
        let row_bytes = encoding.file_row_bytes(cols).ok_or_else(unfit)?;
        if row_bytes.checked_mul(rows) != Some(tensor.len) {
            return Err(unfit());
        }
        if self.is_remote(name) {
            return Err(WeightError::Remote {
                tensor: name.into(),
            });
        }
        if self.column_order(name).is_some() {
            return Err(WeightError::Quantized {
                weight: name.into(),
                problem: "its columns are in another order than the model's".into(),
            });
        }
        let file = self.files.get(tensor.file);
        let (tensor, file) = match (self.joined.contains_key(name), file) {
            (false, Some(file)) => (tensor.clone(), file.clone()),
            _ => {
                let bytes = self.bytes(name, 0..tensor.len)?.into_owned();
                let file = File {
                    name: name.into(),
                    bytes: FileBytes::from(bytes),
                };
                (TensorInfo::new(name, encoding, &shape)?, file)
            }
        };
        Ok(MatrixRows {
            tensor,
            file,
            encoding,
            rows,
            cols: usize::try_from(cols).map_err(|_| unfit())?,
            row_bytes,
        })
    }
}

impl MatrixRows {
    /// Returns the bytes of the whole matrix in its encoding.
    pub fn byte_len(&self) -> u64 {
        self.tensor.len
    }

    /// Decodes some rows: `f32 [rows.len(), cols]`, with the values of [`encodings::dequantize`].
    ///
    /// # Errors
    ///
    /// If there is no such row, or the file was cut.
    pub fn read(&self, rows: impl IntoIterator<Item = u64>) -> Result<Vec<f32>, WeightError> {
        self.file.check_length()?;
        let (mut bytes, mut count) = (Vec::new(), 0);
        for row in rows {
            // A row beyond the last one begins beyond the tensor's data, as one that overflows does.
            let start = row.saturating_mul(self.row_bytes);
            let range = start..start.saturating_add(self.row_bytes);
            if row >= self.rows {
                return Err(self.tensor.out_of_range(&range));
            }
            bytes.extend_from_slice(&self.file.part(&self.tensor, &range)?);
            count += 1;
        }
        let decoded = encodings::dequantize(self.encoding, &bytes, count, self.cols);
        decoded.map_err(|_| WeightError::Shape {
            tensor: self.tensor.name.clone(),
            shape: vec![self.rows, self.cols as u64],
            encoding: self.encoding,
        })
    }
}
