//! Operations on NEON, which every 64-bit ARM processor has.

use std::arch::{aarch64::*, asm};

use super::ops::Simd;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// NEON: 16 floats are four vectors.
pub struct Neon;

/// Four vectors of four floats.
pub(super) type Floats = [float32x4_t; 4];

/// Loads 16 bytes.
#[inline(always)]
pub(super) fn load_16(from: &[u8; 16]) -> uint8x16_t {
    // SAFETY: 16 bytes are readable.
    unsafe { vld1q_u8(from.as_ptr()) }
}

/// Loads eight times two bytes, at an index in units of 16 bytes.
#[inline(always)]
pub(super) fn load_halves(from: &[u8], index: usize) -> uint16x8_t {
    let (parts, _) = from.as_chunks();
    // SAFETY: every processor for this target has NEON.
    unsafe { vreinterpretq_u16_u8(load_16(&parts[index])) }
}

/// Converts eight halves.
#[inline(always)]
pub(super) fn halves_to_f32(halves: uint16x8_t) -> [float32x4_t; 2] {
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: the instructions belong to NEON and change nothing but their results. Rust has no stable functions for them.
    unsafe {
        asm!(
            "fcvtl {low:v}.4s, {halves:v}.4h",
            "fcvtl2 {high:v}.4s, {halves:v}.8h",
            low = out(vreg) low,
            high = lateout(vreg) high,
            halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// Converts 16 unsigned bytes.
#[inline(always)]
fn bytes_to_f32(a: uint8x16_t) -> Floats {
    // SAFETY: every processor for this target has NEON.
    unsafe {
        let (low, high) = (vmovl_u8(vget_low_u8(a)), vmovl_high_u8(a));
        [
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
            vcvtq_f32_u32(vmovl_high_u16(low)),
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
            vcvtq_f32_u32(vmovl_high_u16(high)),
        ]
    }
}

/// Converts 16 signed bytes.
#[inline(always)]
fn signed_bytes_to_f32(a: int8x16_t) -> Floats {
    // SAFETY: every processor for this target has NEON.
    unsafe {
        let (low, high) = (vmovl_s8(vget_low_s8(a)), vmovl_high_s8(a));
        [
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
            vcvtq_f32_s32(vmovl_high_s16(low)),
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
            vcvtq_f32_s32(vmovl_high_s16(high)),
        ]
    }
}

/// Transposes four rows of four words.
#[inline(always)]
fn transpose_4(rows: [float32x4_t; 4]) -> [float32x4_t; 4] {
    // SAFETY: every processor for this target has NEON.
    unsafe {
        let wide = |a| vreinterpretq_f64_f32(a);
        let narrow = |a| vreinterpretq_f32_f64(a);
        let even = [vtrn1q_f32(rows[0], rows[1]), vtrn1q_f32(rows[2], rows[3])].map(wide);
        let odd = [vtrn2q_f32(rows[0], rows[1]), vtrn2q_f32(rows[2], rows[3])].map(wide);
        [
            narrow(vzip1q_f64(even[0], even[1])),
            narrow(vzip1q_f64(odd[0], odd[1])),
            narrow(vzip2q_f64(even[0], even[1])),
            narrow(vzip2q_f64(odd[0], odd[1])),
        ]
    }
}

impl Simd for Neon {
    type Bytes = [uint8x16_t; 2];
    type Floats = Floats;

    const REGISTERS: usize = 4;
    const FAST_LOOKUP: bool = true;

    #[inline(always)]
    fn load_bytes(from: &[u8; 32]) -> [uint8x16_t; 2] {
        let (halves, _) = from.as_chunks();
        [load_16(&halves[0]), load_16(&halves[1])]
    }
    #[inline(always)]
    fn unpack_4bit(from: &[u8; 16]) -> [uint8x16_t; 2] {
        let bytes = load_16(from);
        // SAFETY: every processor for this target has NEON.
        unsafe { [vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes)] }
    }
    #[inline(always)]
    fn unpack_2bit(from: &[u8; 8]) -> [uint8x16_t; 2] {
        // SAFETY: every processor for this target has NEON.
        unsafe {
            let twice = vreinterpretq_u8_u64(vdupq_n_u64(u64::from_le_bytes(*from)));
            let shifts = |low: i8, high: i8| vcombine_s8(vdup_n_s8(low), vdup_n_s8(high));
            let mask = vdupq_n_u8(3);
            [
                vandq_u8(vshlq_u8(twice, shifts(0, -2)), mask),
                vandq_u8(vshlq_u8(twice, shifts(-4, -6)), mask),
            ]
        }
    }
    #[inline(always)]
    fn unpack_1bit(from: &[u8; 4]) -> [uint8x16_t; 2] {
        const SHIFTS: [[u8; 16]; 2] = {
            let mut shifts = [[0; 16]; 2];
            let mut i = 0;
            while i < 32 {
                shifts[i / 16][i % 16] = (-(i as i8 / 4)) as u8;
                i += 1;
            }
            shifts
        };
        let shifted = |shifts| {
            // SAFETY: every processor for this target has NEON.
            unsafe {
                let four = vreinterpretq_u8_u32(vdupq_n_u32(u32::from_le_bytes(*from)));
                let shifts = vreinterpretq_s8_u8(load_16(shifts));
                vandq_u8(vshlq_u8(four, shifts), vdupq_n_u8(1))
            }
        };
        [shifted(&SHIFTS[0]), shifted(&SHIFTS[1])]
    }
    #[inline(always)]
    fn or_shifted<const SHIFT: i32>(low: Self::Bytes, high: Self::Bytes) -> Self::Bytes {
        // SAFETY: every processor for this target has NEON.
        let or = |low, high| unsafe { vorrq_u8(low, vshlq_n_u8::<SHIFT>(high)) };
        [or(low[0], high[0]), or(low[1], high[1])]
    }
    #[inline(always)]
    fn sub_bytes(a: [uint8x16_t; 2], b: u8) -> [uint8x16_t; 2] {
        // SAFETY: every processor for this target has NEON.
        a.map(|a| unsafe { vsubq_u8(a, vdupq_n_u8(b)) })
    }
    #[inline(always)]
    fn lookup(table: Floats, nibbles: &[u8; 16]) -> [Floats; 2] {
        let bytes = load_16(nibbles);
        // SAFETY: every processor for this target has NEON.
        unsafe {
            let table = uint8x16x4_t(
                vreinterpretq_u8_f32(table[0]),
                vreinterpretq_u8_f32(table[1]),
                vreinterpretq_u8_f32(table[2]),
                vreinterpretq_u8_f32(table[3]),
            );
            // The index of byte `j` of a float is `4 n + j`.
            let floats = |n: uint8x16_t, quarter: u8| {
                let four = vdupq_n_u32(0x0101_0101 * u32::from(4 * quarter));
                let repeated = load_16(&[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
                let n = vqtbl1q_u8(n, vaddq_u8(repeated, vreinterpretq_u8_u32(four)));
                let bytes = vreinterpretq_u8_u32(vdupq_n_u32(0x0302_0100));
                vreinterpretq_f32_u8(vqtbl4q_u8(table, vorrq_u8(vshlq_n_u8::<2>(n), bytes)))
            };
            let all = |n| [floats(n, 0), floats(n, 1), floats(n, 2), floats(n, 3)];
            [
                all(vandq_u8(bytes, vdupq_n_u8(15))),
                all(vshrq_n_u8::<4>(bytes)),
            ]
        }
    }
    #[inline(always)]
    fn u8_to_f32(a: [uint8x16_t; 2]) -> [Floats; 2] {
        a.map(bytes_to_f32)
    }
    #[inline(always)]
    fn i8_to_f32(a: [uint8x16_t; 2]) -> [Floats; 2] {
        // SAFETY: every processor for this target has NEON.
        a.map(|a| signed_bytes_to_f32(unsafe { vreinterpretq_s8_u8(a) }))
    }
    #[inline(always)]
    fn f16_to_f32(bits: u16) -> f32 {
        // SAFETY: every processor for this target has NEON.
        unsafe { vgetq_lane_f32::<0>(halves_to_f32(vdupq_n_u16(bits))[0]) }
    }
    #[inline(always)]
    fn load_f16(from: &[u8; 32]) -> Floats {
        let [a, b] = halves_to_f32(load_halves(from, 0));
        let [c, d] = halves_to_f32(load_halves(from, 1));
        [a, b, c, d]
    }
    #[inline(always)]
    fn load_bf16(from: &[u8; 32]) -> Floats {
        // SAFETY: every processor for this target has NEON.
        let widened = |halves: uint16x8_t| unsafe {
            [
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(halves))),
                vreinterpretq_f32_u32(vshll_high_n_u16::<16>(halves)),
            ]
        };
        let [a, b] = widened(load_halves(from, 0));
        let [c, d] = widened(load_halves(from, 1));
        [a, b, c, d]
    }
    #[inline(always)]
    fn load_f32(from: &[u8; 64]) -> Floats {
        let (parts, _) = from.as_chunks();
        // SAFETY: every processor for this target has NEON.
        std::array::from_fn(|i| unsafe { vreinterpretq_f32_u8(load_16(&parts[i])) })
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> Floats {
        let (parts, _) = from.as_chunks::<4>();
        // SAFETY: four floats are readable.
        std::array::from_fn(|i| unsafe { vld1q_f32(parts[i].as_ptr()) })
    }
    #[inline(always)]
    fn store(a: Floats, to: &mut [f32; 16]) {
        let (parts, _) = to.as_chunks_mut::<4>();
        for (part, a) in parts.iter_mut().zip(a) {
            // SAFETY: four floats are writable.
            unsafe { vst1q_f32(part.as_mut_ptr(), a) }
        }
    }
    #[inline(always)]
    fn splat(a: f32) -> Floats {
        // SAFETY: every processor for this target has NEON.
        unsafe { [vdupq_n_f32(a); 4] }
    }
    #[inline(always)]
    fn add(a: Floats, b: Floats) -> Floats {
        // SAFETY: every processor for this target has NEON.
        std::array::from_fn(|i| unsafe { vaddq_f32(a[i], b[i]) })
    }
    #[inline(always)]
    fn mul(a: Floats, b: Floats) -> Floats {
        // SAFETY: every processor for this target has NEON.
        std::array::from_fn(|i| unsafe { vmulq_f32(a[i], b[i]) })
    }
    #[inline(always)]
    fn mul_add(a: Floats, b: Floats, c: Floats) -> Floats {
        // SAFETY: every processor for this target has NEON.
        std::array::from_fn(|i| unsafe { vfmaq_f32(c[i], a[i], b[i]) })
    }
    #[inline(always)]
    fn transpose(rows: [Floats; 16]) -> [Floats; 16] {
        let mut out = rows;
        for row in 0..4 {
            for column in 0..4 {
                let part = std::array::from_fn(|i| rows[4 * row + i][column]);
                for (i, part) in transpose_4(part).into_iter().enumerate() {
                    out[4 * column + i][row] = part;
                }
            }
        }
        out
    }
    #[inline(always)]
    fn prefetch_ahead(bytes: &[u8], distance: usize) {
        for line in bytes.chunks(CACHE_LINE) {
            let line = line.as_ptr().wrapping_add(distance);
            // SAFETY: the instruction takes any address, and changes nothing that a program sees. Rust has no stable function
            // for it.
            unsafe {
                asm!(
                    "prfm pldl1keep, [{line}]",
                    line = in(reg) line,
                    options(readonly, nostack, preserves_flags)
                );
            }
        }
    }
    #[inline(always)]
    fn reduce_add(a: Floats) -> f32 {
        // SAFETY: every processor for this target has NEON.
        unsafe {
            let four = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }
}
