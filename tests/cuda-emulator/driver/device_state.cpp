#include "device_state.h"

#include <algorithm>
#include <map>
#include <vector>

#include "../runtime/device_memory.h"
#include "../runtime/settings.h"
#include "counters.h"
#include "stream.h"

namespace emulator {

namespace {

/// Who owns an allocation.
struct Owner {
    Context* context;
    bool from_pool;
};

struct Owners {
    std::mutex mutex;
    std::map<uintptr_t, Owner> by_address;
};

Owners& owners() {
    static auto* instance = new Owners;
    return *instance;
}

/// Takes bytes from the context's accounts; false if the device has not so many.
bool charge(Context& context, size_t bytes, bool from_pool) {
    std::lock_guard lock(context.memory_mutex);
    Pool& pool = context.pool;
    uint64_t total = device_memory();
    uint64_t reserved = from_pool ? std::max(pool.reserved, pool.used + bytes) : pool.reserved;
    uint64_t plain = from_pool ? context.plain_bytes : context.plain_bytes + bytes;
    if (bytes > total || reserved + plain > total) {
        // The pool gives back what it holds without need for its own allocations only.
        if (!from_pool) return false;
        reserved = pool.used + bytes;
        if (bytes > total || reserved + plain > total) return false;
    }
    context.plain_bytes = plain;
    pool.reserved = reserved;
    if (from_pool) pool.used += bytes;
    pool.used_peak = std::max(pool.used_peak, pool.used);
    pool.reserved_peak = std::max(pool.reserved_peak, pool.reserved);
    return true;
}

void refund(Context& context, size_t bytes, bool from_pool) {
    std::lock_guard lock(context.memory_mutex);
    (from_pool ? context.pool.used : context.plain_bytes) -= bytes;
}

}  // namespace

uintptr_t allocate_device(Context& context, size_t bytes, bool from_pool) {
    if (!charge(context, bytes, from_pool)) return 0;
    uintptr_t address = DeviceMemory::instance().allocate(bytes);
    if (!address) {
        refund(context, bytes, from_pool);
        return 0;
    }
    std::lock_guard lock(owners().mutex);
    owners().by_address[address] = {&context, from_pool};
    counters.allocations++;
    counters.live_allocations++;
    counters.peak_allocated_bytes =
        std::max<uint64_t>(counters.peak_allocated_bytes, counters.allocated_bytes += bytes);
    return address;
}

bool free_device(Context& context, uintptr_t address) {
    std::lock_guard lock(owners().mutex);
    auto owner = owners().by_address.find(address);
    if (owner == owners().by_address.end() || owner->second.context != &context) return false;
    std::string damage;
    size_t bytes = DeviceMemory::instance().release(address, damage);
    refund(context, bytes, owner->second.from_pool);
    owners().by_address.erase(owner);
    counters.live_allocations--;
    counters.allocated_bytes -= bytes;
    if (!damage.empty()) fail_context(context, CUDA_ERROR_ILLEGAL_ADDRESS, damage);
    return true;
}

void free_all_device(Context& context) {
    std::vector<uintptr_t> addresses;
    {
        std::lock_guard lock(owners().mutex);
        for (auto& [address, owner] : owners().by_address) {
            if (owner.context == &context) addresses.push_back(address);
        }
    }
    for (uintptr_t address : addresses) free_device(context, address);
}

void reset_context(Context& context) {
    synchronize(context, nullptr);
    free_all_device(context);
    free_all_objects(context);
    retire_all_streams(context);
    context.error = CUDA_SUCCESS;
    context.error_message.clear();
    context.pool = {};
}

}  // namespace emulator
