//! Sizes and alignments of device memory, on which the compiler's estimates and the devices agree.

/// The alignment, in bytes, of the start of each range of a buffer that a kernel binds. It is the largest alignment
/// that a WebGPU implementation may require for the offset of a storage or uniform binding.
pub const BINDING_ALIGNMENT: u64 = 256;

/// The distance, in bytes, between the parameters of two kernel calls in the buffer that holds those of a whole
/// program. It also bounds the size of one call's parameters.
pub const PARAMS_STRIDE: u64 = BINDING_ALIGNMENT;

/// Returns the bytes that a buffer of `bytes` bytes takes on a device: a multiple of 16, and never 0. A size that does
/// not fit 64 bits is `u64::MAX`.
pub fn allocated_bytes(bytes: u64) -> u64 {
    let rounded = bytes.max(1).checked_next_multiple_of(16);
    rounded.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_rounded_up_to_multiples_of_16() {
        assert_eq!([0, 1, 16, 17].map(allocated_bytes), [16, 16, 16, 32]);
        assert_eq!(allocated_bytes(u64::MAX), u64::MAX);
    }
}
