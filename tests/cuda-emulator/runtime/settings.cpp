#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulator {

namespace {

/// A number from the environment. A malformed value ends the process: a test must not run under another setting.
uint64_t number(const char* name, uint64_t fallback) {
    const char* text = getenv(name);
    if (!text || !*text) return fallback;
    char* end;
    uint64_t value = strtoull(text, &end, 10);
    if (*end) {
        fprintf(stderr, "cuda-emulator: %s=%s is not a number\n", name, text);
        abort();
    }
    return value;
}

[[noreturn]] void malformed(const char* name, const char* text, const char* expected) {
    fprintf(stderr, "cuda-emulator: %s=%s: expected %s\n", name, text, expected);
    abort();
}

}  // namespace

Order thread_order() {
    const char* text = getenv("CUDA_EMULATOR_ORDER");
    if (!text || !*text || !strcmp(text, "forward")) return {};
    if (!strcmp(text, "backward")) return {Order::BACKWARD, 0};
    if (!strncmp(text, "random", 6)) return {Order::RANDOM, text[6] == ':' ? strtoull(text + 7, nullptr, 10) : 0};
    malformed("CUDA_EMULATOR_ORDER", text, "forward, backward or random:SEED");
}

Races race_detection() {
    const char* text = getenv("CUDA_EMULATOR_RACES");
    if (!text || !*text || !strcmp(text, "shared")) return Races::SHARED;
    if (!strcmp(text, "off")) return Races::OFF;
    if (!strcmp(text, "all")) return Races::ALL;
    malformed("CUDA_EMULATOR_RACES", text, "off, shared or all");
}

bool lazy_streams() { return number("CUDA_EMULATOR_LAZY", 0) != 0; }
int compute_capability() { return static_cast<int>(number("CUDA_EMULATOR_ARCH", 80)); }
uint64_t device_memory() { return number("CUDA_EMULATOR_MEMORY", uint64_t{8} << 30); }
int driver_version() { return static_cast<int>(number("CUDA_EMULATOR_DRIVER", 12080)); }
int device_count() { return static_cast<int>(number("CUDA_EMULATOR_DEVICES", 1)); }

}  // namespace emulator
