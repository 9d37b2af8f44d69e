#include "device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "race.h"

namespace emulator {

namespace {

constexpr size_t PAGE = 4096;
/// The alignment of an allocation. The driver's is 256 bytes, but the nearer the guard page the better.
constexpr size_t GRANULE = 16;
/// What fresh memory holds: NaN, as halves and as floats.
constexpr unsigned char POISON = 0xFF;
/// What surrounds an allocation on its own pages.
constexpr unsigned char MARGIN = 0xFB;
/// Fresh memory is filled up to here; what lies behind reads as 0, so that huge allocations stay cheap.
constexpr size_t POISON_LIMIT = size_t{256} << 20;
constexpr size_t FREED_REMEMBERED = 4096;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

DeviceMemory& DeviceMemory::instance() {
    // Never destroyed: the worker may run until the process ends.
    static auto* memory = new DeviceMemory;
    return *memory;
}

DeviceMemory::DeviceMemory() {
    void* base = mmap(nullptr, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        perror("cuda-emulator: no addresses for device memory");
        abort();
    }
    base_ = next_ = reinterpret_cast<uintptr_t>(base);
}

/// Finds free addresses behind those handed out last; at the end of the range it begins again, behind what is live.
uintptr_t DeviceMemory::find_addresses(size_t bytes) {
    for (int round = 0; round < 2; round++) {
        while (next_ + bytes <= base_ + SPAN) {
            auto after = live_.lower_bound(next_);
            // An allocation lies behind its front guard page.
            if (after == live_.end() || after->second.pages - PAGE >= next_ + bytes) {
                uintptr_t found = next_;
                next_ += bytes;
                return found;
            }
            next_ = after->second.pages + after->second.page_bytes + PAGE;
        }
        next_ = base_;
    }
    return 0;
}

uintptr_t DeviceMemory::allocate(size_t bytes) {
    std::lock_guard lock(mutex_);
    size_t page_bytes = round_up(round_up(bytes, GRANULE), PAGE);
    if (page_bytes < bytes) return 0;
    uintptr_t start = find_addresses(page_bytes + 2 * PAGE);
    if (!start) return 0;
    uintptr_t pages = start + PAGE;
    if (mprotect(reinterpret_cast<void*>(pages), page_bytes, PROT_READ | PROT_WRITE)) return 0;
    uintptr_t address = pages + page_bytes - round_up(bytes, GRANULE);
    memset(reinterpret_cast<void*>(pages), MARGIN, address - pages);
    memset(reinterpret_cast<void*>(address), POISON, std::min(bytes, POISON_LIMIT));
    memset(reinterpret_cast<void*>(address + bytes), MARGIN, pages + page_bytes - address - bytes);
    live_[address] = {bytes, pages, page_bytes};
    return address;
}

size_t DeviceMemory::release(uintptr_t address, std::string& damage) {
    std::lock_guard lock(mutex_);
    auto found = live_.find(address);
    if (found == live_.end()) return 0;
    Allocation allocation = found->second;
    auto written = [&](uintptr_t from, uintptr_t to) {
        for (uintptr_t at = from; at < to; at++) {
            if (*reinterpret_cast<unsigned char*>(at) == MARGIN) continue;
            auto offset = static_cast<long long>(at - address);
            damage = "something wrote at offset " + std::to_string(offset) + " of an allocation of " +
                     std::to_string(allocation.bytes) + " bytes";
            return;
        }
    };
    written(allocation.pages, address);
    written(address + allocation.bytes, allocation.pages + allocation.page_bytes);
    mmap(reinterpret_cast<void*>(allocation.pages), allocation.page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    race::forget(allocation.pages, allocation.page_bytes);
    live_.erase(found);
    if (freed_.size() >= FREED_REMEMBERED) freed_.erase(freed_.begin());
    freed_[address] = allocation.bytes;
    return allocation.bytes;
}

std::map<uintptr_t, DeviceMemory::Allocation>::iterator DeviceMemory::find(uintptr_t address) {
    auto after = live_.upper_bound(address);
    return after == live_.begin() ? live_.end() : std::prev(after);
}

bool DeviceMemory::contains(uintptr_t address, size_t bytes) {
    std::lock_guard lock(mutex_);
    auto found = find(address);
    if (found == live_.end()) return false;
    size_t offset = address - found->first;
    return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

bool DeviceMemory::live(uintptr_t address) { return contains(address, 0); }

std::string DeviceMemory::describe(uintptr_t address) {
    std::lock_guard lock(mutex_);
    char text[200];
    if (address - base_ >= SPAN) {
        snprintf(text, sizeof text, "address %#zx, which is no device memory", static_cast<size_t>(address));
        return text;
    }
    auto freed = freed_.upper_bound(address);
    if (freed != freed_.begin() && address - std::prev(freed)->first < std::prev(freed)->second) {
        --freed;
        snprintf(text, sizeof text, "offset %zu of an allocation of %zu bytes that has been freed",
                 static_cast<size_t>(address - freed->first), freed->second);
        return text;
    }
    // The nearest live allocation, before or behind.
    auto before = find(address), behind = live_.upper_bound(address);
    bool inside = before != live_.end() && address - before->first < before->second.bytes;
    bool use_behind =
        !inside && behind != live_.end() &&
        (before == live_.end() || behind->first - address < address - before->first - before->second.bytes);
    auto nearest = use_behind ? behind : before;
    if (nearest == live_.end()) return "device memory in which nothing is allocated";
    snprintf(text, sizeof text, "offset %lld of an allocation of %zu bytes",
             static_cast<long long>(address - nearest->first), nearest->second.bytes);
    return text;
}

}  // namespace emulator
