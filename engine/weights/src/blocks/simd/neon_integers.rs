//! Products of integers on NEON, with and without the products of four bytes that later processors have.

use std::arch::{aarch64::*, asm};

use super::{
    integers::{IntegerSimd, KEPT, factor_index},
    neon::{Floats, Neon, halves_to_f32, load_16, load_halves},
    ops::Simd,
};

/// NEON with the products of four bytes with equal signs (`FEAT_DotProd`).
pub struct NeonDot;

/// NEON with the products of four bytes of either sign (`FEAT_I8MM`).
pub struct NeonI8mm;

/// Four vectors of 16 bytes.
type Bytes = [uint8x16_t; 4];

/// Four vectors of four integers.
type Words = [int32x4_t; 4];

/// Returns the two parts of two blocks, one block after the other.
#[inline(always)]
fn joined([a, b]: [uint8x16_t; 2], [c, d]: [uint8x16_t; 2]) -> Bytes {
    [a, b, c, d]
}

/// The operations of all sets. `$dot` adds the products of bytes in one vector.
macro_rules! four_vectors {
    ($dot:ident) => {
        type Floats = Neon;
        type Bytes = Bytes;
        type Words = Words;

        #[inline(always)]
        fn load_bytes(from: &[u8; 64]) -> Bytes {
            let (parts, _) = from.as_chunks();
            std::array::from_fn(|i| load_16(&parts[i]))
        }
        #[inline(always)]
        fn unpack_4bit(from: &[u8; 32]) -> Bytes {
            let (halves, _) = from.as_chunks();
            joined(
                <Neon as Simd>::unpack_4bit(&halves[0]),
                <Neon as Simd>::unpack_4bit(&halves[1]),
            )
        }
        #[inline(always)]
        fn unpack_2bit(from: &[u8; 16]) -> Bytes {
            let (halves, _) = from.as_chunks();
            joined(
                <Neon as Simd>::unpack_2bit(&halves[0]),
                <Neon as Simd>::unpack_2bit(&halves[1]),
            )
        }
        #[inline(always)]
        fn unpack_1bit(from: &[u8; 8]) -> Bytes {
            let (halves, _) = from.as_chunks();
            joined(
                <Neon as Simd>::unpack_1bit(&halves[0]),
                <Neon as Simd>::unpack_1bit(&halves[1]),
            )
        }
        #[inline(always)]
        fn or_shifted<const SHIFT: i32>(low: Bytes, high: Bytes) -> Bytes {
            // SAFETY: every processor for this target has NEON.
            std::array::from_fn(|i| unsafe { vorrq_u8(low[i], vshlq_n_u8::<SHIFT>(high[i])) })
        }
        #[inline(always)]
        fn flip_signs(a: Bytes) -> Bytes {
            // SAFETY: every processor for this target has NEON.
            a.map(|a| unsafe { veorq_u8(a, vdupq_n_u8(128)) })
        }
        #[inline(always)]
        fn lookup(table: &[u8; 16], n: Bytes) -> Bytes {
            let table = load_16(table);
            // SAFETY: every processor for this target has NEON.
            n.map(|n| unsafe { vqtbl1q_u8(table, n) })
        }
        #[inline(always)]
        fn splat_bytes(a: [i8; 4]) -> Bytes {
            let word = u32::from_le_bytes(a.map(|a| a as u8));
            // SAFETY: every processor for this target has NEON.
            unsafe { [vreinterpretq_u8_u32(vdupq_n_u32(word)); 4] }
        }
        #[inline(always)]
        fn transpose(rows: [Bytes; 16]) -> [Bytes; 16] {
            // SAFETY: every processor for this target has NEON.
            let floats = rows.map(|row| row.map(|a| unsafe { vreinterpretq_f32_u8(a) }));
            let floats = <Neon as Simd>::transpose(floats);
            // SAFETY: every processor for this target has NEON.
            floats.map(|row| row.map(|a| unsafe { vreinterpretq_u8_f32(a) }))
        }
        #[inline(always)]
        fn store_bytes(a: Bytes, to: &mut [u8; 64]) {
            let (parts, _) = to.as_chunks_mut::<16>();
            for (part, a) in parts.iter_mut().zip(a) {
                // SAFETY: 16 bytes are writable.
                unsafe { vst1q_u8(part.as_mut_ptr(), a) }
            }
        }
        #[inline(always)]
        fn dot<const WIDE: bool>(sum: Words, q: Bytes, x: Bytes) -> Words {
            // SAFETY: the CPU has the instruction set (see the trait).
            std::array::from_fn(|i| unsafe {
                $dot::<WIDE>(sum[i], q[i], vreinterpretq_s8_u8(x[i]))
            })
        }
        #[inline(always)]
        fn splat_words(a: i32) -> Words {
            // SAFETY: every processor for this target has NEON.
            unsafe { [vdupq_n_s32(a); 4] }
        }
        #[inline(always)]
        fn words_of_two(a: u32, b: u32) -> Words {
            // SAFETY: every processor for this target has NEON.
            [a, a, b, b].map(|a| unsafe { vdupq_n_s32(a as i32) })
        }
        #[inline(always)]
        fn widen(from: &[u8; 16]) -> Words {
            let bytes = load_16(from);
            // SAFETY: every processor for this target has NEON.
            unsafe {
                let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
                [
                    vmovl_u16(vget_low_u16(low)),
                    vmovl_high_u16(low),
                    vmovl_u16(vget_low_u16(high)),
                    vmovl_high_u16(high),
                ]
                .map(|a| vreinterpretq_s32_u32(a))
            }
        }
        #[inline(always)]
        fn widen_signed(from: &[u8; 16]) -> Words {
            // SAFETY: every processor for this target has NEON.
            unsafe {
                let bytes = vreinterpretq_s8_u8(load_16(from));
                let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
                [
                    vmovl_s16(vget_low_s16(low)),
                    vmovl_high_s16(low),
                    vmovl_s16(vget_low_s16(high)),
                    vmovl_high_s16(high),
                ]
            }
        }
        #[inline(always)]
        fn shift_right(a: Words, by: &[u32; 16]) -> Words {
            let (by, _) = by.as_chunks::<4>();
            // SAFETY: every processor for this target has NEON, and four integers are readable.
            std::array::from_fn(|i| unsafe {
                let by = vnegq_s32(vreinterpretq_s32_u32(vld1q_u32(by[i].as_ptr())));
                vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a[i]), by))
            })
        }
        #[inline(always)]
        fn mask(a: Words, mask: u32) -> Words {
            // SAFETY: every processor for this target has NEON.
            a.map(|a| unsafe { vandq_s32(a, vdupq_n_s32(mask as i32)) })
        }
        #[inline(always)]
        fn or_shifted_words<const SHIFT: u32>(low: Words, high: Words) -> Words {
            // SAFETY: every processor for this target has NEON.
            std::array::from_fn(|i| unsafe {
                vorrq_s32(low[i], vshlq_s32(high[i], vdupq_n_s32(SHIFT as i32)))
            })
        }
        #[inline(always)]
        fn to_f32(a: Words) -> Floats {
            // SAFETY: every processor for this target has NEON.
            a.map(|a| unsafe { vcvtq_f32_s32(a) })
        }
        #[inline(always)]
        fn load_f16_pairs(from: &[u8; 64]) -> [Floats; 2] {
            let [a, b, c, d] = std::array::from_fn(|i| load_halves(from, i));
            let floats = |low, high| {
                let ([a, b], [c, d]) = (halves_to_f32(low), halves_to_f32(high));
                [a, b, c, d]
            };
            // SAFETY: every processor for this target has NEON.
            unsafe {
                [
                    floats(vuzp1q_u16(a, b), vuzp1q_u16(c, d)),
                    floats(vuzp2q_u16(a, b), vuzp2q_u16(c, d)),
                ]
            }
        }
        #[inline(always)]
        fn keep_first(a: Floats, count: usize) -> Floats {
            let (kept, _) = KEPT[16 - count.min(16)..].as_chunks::<4>();
            // SAFETY: every processor for this target has NEON, and four integers are readable.
            std::array::from_fn(|i| unsafe {
                let kept = vld1q_u32(kept[i].as_ptr());
                vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a[i]), kept))
            })
        }
        #[inline(always)]
        fn spread<const HALVES: bool>(factors: Floats, pair: usize) -> Floats {
            std::array::from_fn(|i| splat_element(factors, factor_index(HALVES, pair, 4 * i)))
        }
    };
}

/// Returns four times the float at an index below 16.
#[inline(always)]
fn splat_element(floats: Floats, index: usize) -> float32x4_t {
    let first = 4 * (index % 4) as u32;
    // SAFETY: every processor for this target has NEON.
    unsafe {
        let bytes = vdupq_n_u32(0x0302_0100 + 0x0101_0101 * first);
        let floats = vreinterpretq_u8_f32(floats[index / 4]);
        vreinterpretq_f32_u8(vqtbl1q_u8(floats, vreinterpretq_u8_u32(bytes)))
    }
}

/// Adds to each word the products of four signed bytes.
///
/// # Safety
/// The CPU must have `FEAT_DotProd`.
#[inline(always)]
unsafe fn add_signed(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the caller guarantees the instruction, which changes nothing but its result. Rust has no stable function for
    // it.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// # Safety
/// Every processor for this target has what it needs.
#[inline(always)]
unsafe fn dot_neon<const WIDE: bool>(sum: int32x4_t, q: uint8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: every processor for this target has NEON.
    unsafe {
        // Two products of bytes fit 16 bits if one factor is at most 127. The highest bits of wide ones are multiplied
        // separately.
        let add = |sum, q: int8x16_t| {
            let low = vmull_s8(vget_low_s8(q), vget_low_s8(x));
            let high = vmull_high_s8(q, x);
            vpadalq_s16(sum, vpaddq_s16(low, high))
        };
        if !WIDE {
            return add(sum, vreinterpretq_s8_u8(q));
        }
        let low = vandq_u8(q, vdupq_n_u8(127));
        let bits = add(vdupq_n_s32(0), vreinterpretq_s8_u8(vshrq_n_u8::<7>(q)));
        vaddq_s32(add(sum, vreinterpretq_s8_u8(low)), vshlq_n_s32::<7>(bits))
    }
}

/// # Safety
/// The CPU must have `FEAT_DotProd`.
#[inline(always)]
unsafe fn dot_signed<const WIDE: bool>(sum: int32x4_t, q: uint8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the caller guarantees the instruction set.
    unsafe {
        if !WIDE {
            return add_signed(sum, vreinterpretq_s8_u8(q), x);
        }
        // 128 less than the bytes, which are signed, and 128 times the sums of `x`.
        let less = vreinterpretq_s8_u8(veorq_u8(q, vdupq_n_u8(128)));
        let sums = add_signed(vdupq_n_s32(0), vdupq_n_s8(1), x);
        vaddq_s32(add_signed(sum, less, x), vshlq_n_s32::<7>(sums))
    }
}

/// # Safety
/// The CPU must have `FEAT_I8MM`.
#[inline(always)]
unsafe fn dot_mixed<const WIDE: bool>(
    mut sum: int32x4_t,
    q: uint8x16_t,
    x: int8x16_t,
) -> int32x4_t {
    // SAFETY: the caller guarantees the instruction, which changes nothing but its result. Rust has no stable function for
    // it.
    unsafe {
        asm!(
            ".arch_extension i8mm",
            "usdot {sum:v}.4s, {q:v}.16b, {x:v}.16b",
            sum = inout(vreg) sum,
            q = in(vreg) q,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

impl IntegerSimd for Neon {
    four_vectors!(dot_neon);
}

impl IntegerSimd for NeonDot {
    four_vectors!(dot_signed);
}

impl IntegerSimd for NeonI8mm {
    four_vectors!(dot_mixed);
}
