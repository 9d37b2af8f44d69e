//! What a twin gets: the parameters and the bound memory.

use std::cell::RefCell;
use std::sync::MutexGuard;

use bytemuck::Pod;
use wisp_shaders::CacheFormat;

use super::buffer::HostBuffer;
use super::error::HostError;
use wisp_types::Encoding;
use wisp_weights::blocks::Planes;

/// A range of a buffer under a binding number.
#[derive(Clone, Debug)]
pub struct Binding<'a> {
    /// Number of the binding; 0 is the parameters.
    pub number: usize,
    /// The buffer.
    pub buffer: &'a HostBuffer,
    /// Where the binding begins, in bytes.
    pub offset: usize,
    /// Bytes of the binding.
    pub len: usize,
}

/// The arguments of one call.
///
/// It holds the locks of all buffers that are bound, and hands out slices of them: shared ones for
/// any number of readers, and mutable ones that overlap nothing else that was handed out.
pub struct Args<'a> {
    op: &'a str,
    params: &'a [u8],
    bindings: &'a [Binding<'a>],
    taken: RefCell<Vec<Taken>>,
    _guards: Vec<MutexGuard<'a, ()>>,
}

/// A slice that was handed out.
struct Taken {
    binding: usize,
    start: usize,
    end: usize,
    written: bool,
}

/// The product of sizes, saturated: no buffer is that large, so it is found out as too short.
pub(super) fn size(factors: &[u32]) -> usize {
    factors.iter().fold(1, |product: usize, factor| {
        product.saturating_mul(*factor as usize)
    })
}

impl<'a> Args<'a> {
    /// Locks the buffers of a call. The thread must not hold the lock of any of them.
    ///
    /// # Errors
    /// When a binding reaches past the end of its buffer.
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
        // In one order for all, so that two calls cannot wait for each other.
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

    /// Name of the op.
    pub fn op(&self) -> &str {
        self.op
    }

    /// The format of the KV cache that the op is for: the last part of its name.
    ///
    /// # Errors
    /// When it names none.
    pub fn cache_format(&self) -> Result<CacheFormat, HostError> {
        let format = CacheFormat::ALL
            .into_iter()
            .find(|format| self.op.ends_with(&format.op("")));
        format.ok_or_else(|| HostError::Format {
            op: self.op.to_owned(),
        })
    }

    /// The parameters.
    ///
    /// # Errors
    /// When their size is not that of `P`.
    pub fn params<P: Pod>(&self) -> Result<P, HostError> {
        bytemuck::try_pod_read_unaligned(self.params).map_err(|_| HostError::Params {
            op: self.op.to_owned(),
            expected: size_of::<P>(),
            actual: self.params.len(),
        })
    }

    /// The first `len` elements of a binding.
    ///
    /// # Errors
    /// When they are not there, not aligned, or written by this call.
    pub fn read<T: Pod>(&self, binding: usize, len: usize) -> Result<&[T], HostError> {
        let start = self.take::<T>(binding, Some(len), false)?.0;
        // SAFETY: `take` has checked range and alignment; any bytes are a `T`; all bytes are
        // initialised; the lock is held as long as `self` lives, and `take` allows no writer.
        Ok(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// All whole elements of a binding.
    ///
    /// # Errors
    /// As [`Args::read`].
    pub fn read_all<T: Pod>(&self, binding: usize) -> Result<&[T], HostError> {
        let (start, len) = self.take::<T>(binding, None, false)?;
        // SAFETY: as in `read`.
        Ok(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// The first `len` elements of a binding, to be written.
    ///
    /// # Errors
    /// When they are not there, not aligned, or otherwise used by this call.
    #[allow(clippy::mut_from_ref)] // `take` hands nothing out twice.
    pub fn write<T: Pod>(&self, binding: usize, len: usize) -> Result<&mut [T], HostError> {
        let start = self.take::<T>(binding, Some(len), true)?.0;
        // SAFETY: as in `read`, and `take` allows no other user of these bytes.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// All whole elements of a binding, to be written.
    ///
    /// # Errors
    /// As [`Args::write`].
    #[allow(clippy::mut_from_ref)] // `take` hands nothing out twice.
    pub fn write_all<T: Pod>(&self, binding: usize) -> Result<&mut [T], HostError> {
        let (start, len) = self.take::<T>(binding, None, true)?;
        // SAFETY: as in `write`.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// The planes of a weight `[rows, cols]`, bound one after the other from binding `first` on.
    ///
    /// # Errors
    /// When one is not there or too short.
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

    /// The error of a value that is out of its range.
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

    /// Checks a range of a binding and enters it; returns where it begins and its length.
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
