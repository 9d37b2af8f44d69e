// What the compiler calls before each access of an instrumented kernel (-fsanitize=thread), and what it calls for a
// misaligned one (-fsanitize=alignment). The sanitizers' own libraries are not linked.
#include <cstdlib>
#include <cstring>

#include "execution.h"
#include "race.h"
#include "report.h"

using namespace emulator;
using race::Access;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

void observe(const void* address, size_t bytes, Access kind, const void* pc) {
    race::access(reinterpret_cast<uintptr_t>(address), bytes, kind, pc);
}

}  // namespace

#define WISP_HOOK(NAME, BYTES, KIND) \
    EXPORT void __tsan_##NAME(void* address) { observe(address, BYTES, KIND, __builtin_return_address(0)); }
#define WISP_HOOKS(BYTES)                                                       \
    WISP_HOOK(read##BYTES, BYTES, Access::READ)                                 \
    WISP_HOOK(write##BYTES, BYTES, Access::WRITE)                               \
    WISP_HOOK(unaligned_read##BYTES, BYTES, Access::READ)                       \
    WISP_HOOK(unaligned_write##BYTES, BYTES, Access::WRITE)                     \
    /* Volatile accesses are never torn and never merged: as good as atomic. */ \
    WISP_HOOK(volatile_read##BYTES, BYTES, Access::ATOMIC)                      \
    WISP_HOOK(volatile_write##BYTES, BYTES, Access::ATOMIC)
WISP_HOOKS(1)
WISP_HOOKS(2)
WISP_HOOKS(4)
WISP_HOOKS(8)
WISP_HOOKS(16)

EXPORT void __tsan_read_range(void* address, size_t bytes) {
    observe(address, bytes, Access::READ, __builtin_return_address(0));
}
EXPORT void __tsan_write_range(void* address, size_t bytes) {
    observe(address, bytes, Access::WRITE, __builtin_return_address(0));
}
EXPORT void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    observe(from, bytes, Access::READ, __builtin_return_address(0));
    observe(to, bytes, Access::WRITE, __builtin_return_address(0));
    return memcpy(to, from, bytes);
}
EXPORT void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    observe(from, bytes, Access::READ, __builtin_return_address(0));
    observe(to, bytes, Access::WRITE, __builtin_return_address(0));
    return memmove(to, from, bytes);
}
EXPORT void* __tsan_memset(void* to, int value, size_t bytes) {
    observe(to, bytes, Access::WRITE, __builtin_return_address(0));
    return memset(to, value, bytes);
}
EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit() {}

/// Threads run one at a time, so an ordinary operation is atomic.
EXPORT unsigned wisp_emulator_atomic(unsigned kind, void* word, unsigned value, unsigned compare) {
    if (reinterpret_cast<uintptr_t>(word) % 4) {
        fail(CUDA_ERROR_MISALIGNED_ADDRESS,
             "misaligned atomic access in " + current_thread() + " (" + source_line(__builtin_return_address(0)) + ")");
    }
    observe(word, 4, Access::ATOMIC, __builtin_return_address(0));
    auto* at = static_cast<unsigned*>(word);
    unsigned old = *at, result = value;
    auto is_less = [](unsigned a, unsigned b) { return static_cast<int>(a) < static_cast<int>(b); };
    switch (kind) {
        case WISP_ATOMIC_ADD: result = old + value; break;
        case WISP_ATOMIC_SUB: result = old - value; break;
        case WISP_ATOMIC_MIN_SIGNED: result = is_less(old, value) ? old : value; break;
        case WISP_ATOMIC_MAX_SIGNED: result = is_less(old, value) ? value : old; break;
        case WISP_ATOMIC_MIN_UNSIGNED: result = old < value ? old : value; break;
        case WISP_ATOMIC_MAX_UNSIGNED: result = old < value ? value : old; break;
        case WISP_ATOMIC_AND: result = old & value; break;
        case WISP_ATOMIC_OR: result = old | value; break;
        case WISP_ATOMIC_XOR: result = old ^ value; break;
        case WISP_ATOMIC_COMPARE_EXCHANGE: result = old == compare ? value : old; break;
        case WISP_ATOMIC_ADD_FLOAT: {
            float left, right;
            memcpy(&left, &old, 4);
            memcpy(&right, &value, 4);
            left += right;
            memcpy(&result, &left, 4);
            break;
        }
        default: break;
    }
    *at = result;
    return old;
}

/// What the compiler knows of an access whose address does not fit its type, as the sanitizer's interface has it.
struct TypeMismatch {
    struct {
        const char* file;
        unsigned line, column;
    } place;
    const void* type;
    unsigned char log_alignment, check_kind;
};

EXPORT void __ubsan_handle_type_mismatch_v1(TypeMismatch* data, uintptr_t address) {
    fail(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned access in " + current_thread() + ": " + describe_address(address) +
                                            " is not aligned to " + std::to_string(1u << data->log_alignment) +
                                            " bytes (" + data->place.file + ":" + std::to_string(data->place.line) +
                                            ")");
}
EXPORT void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* data, uintptr_t address) {
    __ubsan_handle_type_mismatch_v1(data, address);
}
