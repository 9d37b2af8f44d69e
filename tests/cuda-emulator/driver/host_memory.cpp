#include "host_memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "counters.h"

namespace emulator {

namespace {

struct Pinned {
    std::mutex mutex;
    std::map<uintptr_t, size_t> allocations;
};

Pinned& pinned() {
    static auto* instance = new Pinned;
    return *instance;
}

}  // namespace

void* allocate_pinned(size_t bytes) {
    void* pointer = nullptr;
    if (posix_memalign(&pointer, 4096, bytes)) return nullptr;
    // Not zero, as on a device: what no copy has written yet is seen.
    memset(pointer, 0xFF, bytes);
    std::lock_guard lock(pinned().mutex);
    pinned().allocations[reinterpret_cast<uintptr_t>(pointer)] = bytes;
    counters.pinned_bytes += bytes;
    return pointer;
}

bool free_pinned(void* pointer) {
    std::lock_guard lock(pinned().mutex);
    auto found = pinned().allocations.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == pinned().allocations.end()) return false;
    counters.pinned_bytes -= found->second;
    pinned().allocations.erase(found);
    free(pointer);
    return true;
}

bool is_pinned(const void* pointer, size_t bytes) {
    std::lock_guard lock(pinned().mutex);
    auto address = reinterpret_cast<uintptr_t>(pointer);
    auto after = pinned().allocations.upper_bound(address);
    if (after == pinned().allocations.begin()) return false;
    --after;
    return address + bytes <= after->first + after->second;
}

}  // namespace emulator
