//! The operations that encodings and products need of an instruction set.

/// Operations on vectors of 32 bytes and of 16 floats, implemented for each instruction set that
/// `simd!` compiles for.
///
/// LLVM vectorises loops over slices well, but not the unpacking of blocks from bits, which is written in
/// terms of these operations instead.
///
/// An implementation may only be used in functions that are compiled for its instruction set, on CPUs that
/// have it. The macro `simd!` sees to that.
pub trait Simd: 'static {
    /// 32 bytes, one for each weight of a block.
    type Bytes: Copy;
    /// 16 floats.
    type Floats: Copy;

    /// The number of registers of 16 floats.
    const REGISTERS: usize;
    /// Whether [`Self::lookup`] takes less time than computing the floats of nibbles from integers.
    const FAST_LOOKUP: bool;

    /// Loads 32 bytes.
    fn load_bytes(from: &[u8; 32]) -> Self::Bytes;
    /// Unpacks 4-bit integers: byte `16s + j` of the result is bits `4s` to `4s + 3` of byte `j`.
    fn unpack_4bit(from: &[u8; 16]) -> Self::Bytes;
    /// Unpacks 2-bit integers: byte `8s + j` of the result is bits `2s` and `2s + 1` of byte `j`.
    fn unpack_2bit(from: &[u8; 8]) -> Self::Bytes;
    /// Unpacks bits: byte `4s + j` of the result is bit `s` of byte `j`.
    fn unpack_1bit(from: &[u8; 4]) -> Self::Bytes;
    /// Computes `low | high << SHIFT` for each byte. No bit may be shifted out of its byte.
    fn or_shifted<const SHIFT: i32>(low: Self::Bytes, high: Self::Bytes) -> Self::Bytes;
    /// Unpacks 6-bit integers: their low bits as [`Self::unpack_4bit`], their high ones as [`Self::unpack_2bit`].
    #[inline(always)]
    fn unpack_6bit(low: &[u8; 16], high: &[u8; 8]) -> Self::Bytes {
        Self::or_shifted::<4>(Self::unpack_4bit(low), Self::unpack_2bit(high))
    }
    /// Subtracts `b` from each byte, wrapping.
    fn sub_bytes(a: Self::Bytes, b: u8) -> Self::Bytes;

    /// Returns `table[n]` for the low nibble `n` of each byte, then for the high ones.
    fn lookup(table: Self::Floats, nibbles: &[u8; 16]) -> [Self::Floats; 2];

    /// Converts unsigned bytes to floats.
    fn u8_to_f32(a: Self::Bytes) -> [Self::Floats; 2];
    /// Converts signed bytes to floats.
    fn i8_to_f32(a: Self::Bytes) -> [Self::Floats; 2];
    /// Converts the bits of a half to a float.
    fn f16_to_f32(bits: u16) -> f32;
    /// Loads 16 little-endian halves.
    fn load_f16(from: &[u8; 32]) -> Self::Floats;
    /// Loads 16 little-endian bfloat16 numbers.
    fn load_bf16(from: &[u8; 32]) -> Self::Floats;
    /// Loads 16 little-endian floats.
    fn load_f32(from: &[u8; 64]) -> Self::Floats;
    /// Returns eight pairs of integers of six bits: of pair `i`, nibble `i` of each of `low`, with bits `2i` and `2i + 1` of
    /// the low and the high half of `top` above them.
    #[inline(always)]
    fn six_bit_pairs(low: [u32; 2], top: u32) -> Self::Floats {
        let mut integers = [0.0; 16];
        for (i, integer) in integers.iter_mut().enumerate() {
            let (pair, of_pair) = (i / 2, i % 2);
            let top = top >> (16 * of_pair + 2 * pair) & 3;
            *integer = ((low[of_pair] >> (4 * pair) & 15) | top << 4) as i32 as f32;
        }
        Self::load(&integers)
    }
    /// Loads 16 floats.
    fn load(from: &[f32; 16]) -> Self::Floats;
    /// Stores 16 floats.
    fn store(a: Self::Floats, to: &mut [f32; 16]);
    /// Returns 16 times the same float.
    fn splat(a: f32) -> Self::Floats;
    /// Computes `a + b`.
    fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Computes `a * b`.
    fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Computes `a * b + c`, rounded once if the instruction set can.
    fn mul_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Transposes 16 vectors: element `j` of vector `i` of the result is element `i` of vector `j`.
    fn transpose(rows: [Self::Floats; 16]) -> [Self::Floats; 16];
    /// Begins to load the cache lines of these bytes, which are soon to be read.
    #[inline(always)]
    fn prefetch(bytes: &[u8]) {
        Self::prefetch_ahead(bytes, 0);
    }
    /// Begins to load the cache lines of as many bytes that lie `distance` bytes further on, whether there are any or not.
    fn prefetch_ahead(bytes: &[u8], distance: usize);
    /// Adds all 16 floats: first those that are 8 apart, then 4, 2 and 1.
    fn reduce_add(a: Self::Floats) -> f32;
    /// Adds all floats of each vector, in the order of [`Self::reduce_add`].
    #[inline(always)]
    fn reduce_add_each(rows: [Self::Floats; 16]) -> Self::Floats {
        let mut sums = Self::transpose(rows);
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                sums[i] = Self::add(sums[i], sums[i + half]);
            }
        }
        sums[0]
    }
}
