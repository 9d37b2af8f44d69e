// Atomic operations on int, unsigned and float. Threads run one at a time, so the runtime has only to tell the race
// detector that these accesses are atomic.
#pragma once

#define WISP_ATOMIC(NAME, SIGNED, UNSIGNED)                                                           \
    static inline int NAME(int* word, int value) {                                                    \
        return static_cast<int>(wisp_emulator_atomic(SIGNED, word, static_cast<unsigned>(value), 0)); \
    }                                                                                                 \
    static inline unsigned NAME(unsigned* word, unsigned value) {                                     \
        return wisp_emulator_atomic(UNSIGNED, word, value, 0);                                        \
    }
WISP_ATOMIC(atomicAdd, WISP_ATOMIC_ADD, WISP_ATOMIC_ADD)
WISP_ATOMIC(atomicSub, WISP_ATOMIC_SUB, WISP_ATOMIC_SUB)
WISP_ATOMIC(atomicMin, WISP_ATOMIC_MIN_SIGNED, WISP_ATOMIC_MIN_UNSIGNED)
WISP_ATOMIC(atomicMax, WISP_ATOMIC_MAX_SIGNED, WISP_ATOMIC_MAX_UNSIGNED)
WISP_ATOMIC(atomicAnd, WISP_ATOMIC_AND, WISP_ATOMIC_AND)
WISP_ATOMIC(atomicOr, WISP_ATOMIC_OR, WISP_ATOMIC_OR)
WISP_ATOMIC(atomicXor, WISP_ATOMIC_XOR, WISP_ATOMIC_XOR)
WISP_ATOMIC(atomicExch, WISP_ATOMIC_EXCHANGE, WISP_ATOMIC_EXCHANGE)
#undef WISP_ATOMIC

static inline int atomicCAS(int* word, int compare, int value) {
    return static_cast<int>(wisp_emulator_atomic(WISP_ATOMIC_COMPARE_EXCHANGE, word, static_cast<unsigned>(value),
                                                 static_cast<unsigned>(compare)));
}
static inline unsigned atomicCAS(unsigned* word, unsigned compare, unsigned value) {
    return wisp_emulator_atomic(WISP_ATOMIC_COMPARE_EXCHANGE, word, value, compare);
}
static inline float atomicAdd(float* word, float value) {
    return __uint_as_float(wisp_emulator_atomic(WISP_ATOMIC_ADD_FLOAT, word, __float_as_uint(value), 0));
}
static inline float atomicExch(float* word, float value) {
    return __uint_as_float(wisp_emulator_atomic(WISP_ATOMIC_EXCHANGE, word, __float_as_uint(value), 0));
}

static inline void __threadfence() {}
static inline void __threadfence_block() {}
