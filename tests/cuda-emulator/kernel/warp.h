// What the threads of a block or the lanes of a warp do together. Macros, because each place in the source has a number
// (`__COUNTER__`): threads that meet at different places are an error.
#pragma once

static inline unsigned wisp_full_mask(unsigned mask = 0xffffffffu) { return mask; }

template <class T>
static inline T wisp_shuffle(unsigned site, WispWarpKind kind, unsigned mask, T value, unsigned argument,
                             int width = 32) {
    static_assert(sizeof(T) == 4, "the emulator shuffles words of 32 bits");
    unsigned bits;
    __builtin_memcpy(&bits, &value, 4);
    bits = wisp_emulator_warp(site, kind, mask, bits, argument, static_cast<unsigned>(width));
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

static inline unsigned wisp_vote(unsigned site, WispWarpKind kind, unsigned mask, int predicate) {
    return wisp_emulator_warp(site, kind, mask, predicate != 0, 0, 32);
}

#define __syncthreads() wisp_emulator_barrier(__COUNTER__)
#define __syncwarp(...) ((void)wisp_emulator_warp(__COUNTER__, WISP_SYNC_WARP, wisp_full_mask(__VA_ARGS__), 0, 0, 32))
#define __shfl_sync(...) wisp_shuffle(__COUNTER__, WISP_SHUFFLE, __VA_ARGS__)
#define __shfl_xor_sync(...) wisp_shuffle(__COUNTER__, WISP_SHUFFLE_XOR, __VA_ARGS__)
#define __shfl_up_sync(...) wisp_shuffle(__COUNTER__, WISP_SHUFFLE_UP, __VA_ARGS__)
#define __shfl_down_sync(...) wisp_shuffle(__COUNTER__, WISP_SHUFFLE_DOWN, __VA_ARGS__)
#define __ballot_sync(...) wisp_vote(__COUNTER__, WISP_BALLOT, __VA_ARGS__)
#define __any_sync(...) static_cast<int>(wisp_vote(__COUNTER__, WISP_ANY, __VA_ARGS__))
#define __all_sync(...) static_cast<int>(wisp_vote(__COUNTER__, WISP_ALL, __VA_ARGS__))
#define __activemask() wisp_emulator_active_mask()

/// d += a * b, by a whole warp: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.
#define cuda_mma_m16n8k16_f16_f32(...) wisp_emulator_mma(__COUNTER__, __VA_ARGS__)

/// d = a * b + c with signed bytes: mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32, and m16n8k16 for the first words.
#define cuda_mma_m16n8k32_i8(...) wisp_emulator_mma_i8(__COUNTER__, __VA_ARGS__)
#define cuda_mma_m16n8k16_i8(d, a0, a1, b, c) wisp_emulator_mma_i8(__COUNTER__, d, a0, a1, 0, 0, b, 0, c)
