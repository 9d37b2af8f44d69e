//! The arguments of a twin: its parameters and its bound memory.

use std::cell::RefCell;
use std::sync::MutexGuard;

use bytemuck::Pod;
use wisp_shaders::CacheFormat;

use super::buffer::HostBuffer;
use super::error::HostError;
use wisp_types::Encoding;
use wisp_weights::blocks::Planes;

/// A range of a buffer that is bound to a binding number.
#[derive(Clone, Debug)]
pub struct Binding<'a> {
    /// The binding number; 0 is the parameters.
    pub number: usize,
    /// The buffer that the range belongs to.
    pub buffer: &'a HostBuffer,
    /// Offset of the range in the buffer, in bytes.
    pub offset: usize,
    /// Length of the range in bytes.
    pub len: usize,
}

/// The arguments of one call of a twin.
///
/// Holds the locks of all bound buffers and hands out slices of them: shared slices to any number of
/// readers, and mutable slices that overlap no other slice.
pub struct Args<'a> {
    op: &'a str,
    params: &'a [u8],
    bindings: &'a [Binding<'a>],
    taken: RefCell<Vec<Taken>>,
    _guards: Vec<MutexGuard<'a, ()>>,
}

/// A slice that has been handed out.
struct Taken {
    binding: usize,
    start: usize,
    end: usize,
    written: bool,
}

/// Returns the product of sizes, saturating. No buffer is that large, so an overflow is reported as a
/// binding that is too short.
pub(super) fn size(factors: &[u32]) -> usize {
    factors.iter().fold(1, |product: usize, factor| {
        product.saturating_mul(*factor as usize)
    })
}

impl<'a> Args<'a> {
    /// Locks the buffers of a call. The calling thread must not hold any of these locks.
    ///
    /// # Errors
    /// If a binding reaches past the end of its buffer.
    pub fn new(
        op: &'a str,
        params: &'a [u8],
        bindings: &'a [Binding<'a>],
    ) -> Result<Self, HostError> {
        for binding in bindings {
            let end = binding.offset.saturating_add(binding.len);
            if end > binding.buffer.len() {
                return Err(HostError::Overrun {
                    op: op.to_owned(),
                    binding: binding.number,
                    expected: end,
                    actual: binding.buffer.len(),
                });
            }
        }
        // All calls lock in the same order, so that two calls cannot deadlock.
        let mut buffers: Vec<&HostBuffer> = bindings.iter().map(|b| b.buffer).collect();
        buffers.sort_by_key(|buffer| buffer.address());
        buffers.dedup_by_key(|buffer| buffer.address());
        Ok(Args {
            op,
            params,
            bindings,
            taken: RefCell::default(),
            _guards: buffers.into_iter().map(HostBuffer::lock).collect(),
        })
    }

    /// Returns the name of the op, with its encoding or cache format.
    pub fn op(&self) -> &str {
        self.op
    }

    /// Returns the KV cache format that the last part of the op's name states.
    ///
    /// # Errors
    /// If the name contains no cache format.
    pub fn cache_format(&self) -> Result<CacheFormat, HostError> {
        let format = CacheFormat::ALL
            .into_iter()
            .find(|format| self.op.ends_with(&format.op("")));
        format.ok_or_else(|| HostError::Format {
            op: self.op.to_owned(),
        })
    }

    /// Returns the parameter block.
    ///
    /// # Errors
    /// If its size is not that of `P`.
    pub fn params<P: Pod>(&self) -> Result<P, HostError> {
        bytemuck::try_pod_read_unaligned(self.params).map_err(|_| HostError::Params {
            op: self.op.to_owned(),
            expected: size_of::<P>(),
            actual: self.params.len(),
        })
    }

    /// Returns the first `len` elements of a binding.
    ///
    /// # Errors
    /// If the binding is missing, too short or misaligned, or if this call writes the same bytes.
    pub fn read<T: Pod>(&self, binding: usize, len: usize) -> Result<&[T], HostError> {
        let start = self.take::<T>(binding, Some(len), false)?.0;
        // SAFETY: `take` has checked range and alignment; any bytes are a `T`; all bytes are
        // initialised; the lock is held as long as `self` lives, and `take` allows no writer.
        Ok(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// Returns all whole elements of a binding.
    ///
    /// # Errors
    /// As [`Args::read`].
    pub fn read_all<T: Pod>(&self, binding: usize) -> Result<&[T], HostError> {
        let (start, len) = self.take::<T>(binding, None, false)?;
        // SAFETY: as in `read`.
        Ok(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// Returns the first `len` elements of a binding for writing.
    ///
    /// # Errors
    /// If the binding is missing, too short or misaligned, or if this call uses the same bytes
    /// elsewhere.
    #[allow(clippy::mut_from_ref)] // `take` hands nothing out twice.
    pub fn write<T: Pod>(&self, binding: usize, len: usize) -> Result<&mut [T], HostError> {
        let start = self.take::<T>(binding, Some(len), true)?.0;
        // SAFETY: as in `read`, and `take` allows no other user of these bytes.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// Returns all whole elements of a binding for writing.
    ///
    /// # Errors
    /// As [`Args::write`].
    #[allow(clippy::mut_from_ref)] // `take` hands nothing out twice.
    pub fn write_all<T: Pod>(&self, binding: usize) -> Result<&mut [T], HostError> {
        let (start, len) = self.take::<T>(binding, None, true)?;
        // SAFETY: as in `write`.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// Returns the planes of a weight `[rows, cols]`, which are bound one after the other from binding
    /// `first` on.
    ///
    /// # Errors
    /// If a plane is missing or too short.
    pub fn planes(
        &self,
        encoding: Encoding,
        first: usize,
        rows: usize,
        cols: usize,
    ) -> Result<Planes<'_>, HostError> {
        let mut planes = [&[][..]; 3];
        let mut binding = first;
        for (plane, present) in planes.iter_mut().zip(encoding.has_plane()) {
            if present {
                *plane = self.read_all(binding)?;
                binding += 1;
            }
        }
        Planes::new(encoding, planes, rows, cols).map_err(|source| HostError::Encoding {
            op: self.op.to_owned(),
            source,
        })
    }

    /// Returns the error for a value that is out of range.
    pub fn value(
        &self,
        what: &'static str,
        expected: impl std::fmt::Display,
        actual: impl Into<u64>,
    ) -> HostError {
        HostError::Value {
            op: self.op.to_owned(),
            what,
            expected: expected.to_string(),
            actual: actual.into(),
        }
    }

    /// Checks a range of a binding and records it; returns its start and its length in elements.
    fn take<T: Pod>(
        &self,
        binding: usize,
        len: Option<usize>,
        written: bool,
    ) -> Result<(*mut T, usize), HostError> {
        let op = || self.op.to_owned();
        let bound = self.bindings.iter().find(|b| b.number == binding);
        let bound = bound.ok_or_else(|| HostError::Unbound { op: op(), binding })?;
        let actual = bound.len / size_of::<T>();
        let len = len.unwrap_or(actual);
        if len > actual {
            let expected = len;
            return Err(HostError::Short {
                op: op(),
                binding,
                expected,
                actual,
            });
        }
        // SAFETY: `new` has checked that the binding lies within the buffer.
        let start = unsafe { bound.buffer.address().as_ptr().add(bound.offset) };
        if start.align_offset(align_of::<T>()) != 0 {
            let expected = align_of::<T>();
            return Err(HostError::Misaligned {
                op: op(),
                binding,
                expected,
            });
        }
        let range = start as usize..start as usize + len * size_of::<T>();
        let mut taken = self.taken.borrow_mut();
        let clash = |other: &&Taken| {
            (written || other.written) && range.start.max(other.start) < range.end.min(other.end)
        };
        if let Some(other) = taken.iter().find(clash) {
            let (first, second) = (other.binding, binding);
            return Err(HostError::Overlap {
                op: op(),
                first,
                second,
            });
        }
        taken.push(Taken {
            binding,
            start: range.start,
            end: range.end,
            written,
        });
        Ok((start.cast(), len))
    }
}
