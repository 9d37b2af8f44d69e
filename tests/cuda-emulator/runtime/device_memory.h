// Device memory: allocations that end at a guard page, in a range of addresses of its own. Addresses are handed out
// once around the range before any is used again, so memory that was freed stays inaccessible.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace emulator {

class DeviceMemory {
public:
    static constexpr size_t SPAN = size_t{256} << 30;

    /// The range that all devices of the process share.
    static DeviceMemory& instance();

    /// Memory that reads as NaN; 0 if there are no addresses or no memory left.
    uintptr_t allocate(size_t bytes);
    /// Makes an allocation inaccessible and returns its size; 0 if there is none at this address. `damage` receives a
    /// text if something was written next to the allocation.
    size_t release(uintptr_t address, std::string& damage);
    /// Whether a range lies within one live allocation.
    bool contains(uintptr_t address, size_t bytes);
    /// Whether the address belongs to a live allocation, or is its end.
    bool live(uintptr_t address);
    /// Where an address lies relative to the nearest allocation, live or freed.
    std::string describe(uintptr_t address);

    uintptr_t base() const { return base_; }

private:
    struct Allocation {
        size_t bytes;
        /// The accessible pages around it.
        uintptr_t pages;
        size_t page_bytes;
    };

    DeviceMemory();
    uintptr_t find_addresses(size_t bytes);
    std::map<uintptr_t, Allocation>::iterator find(uintptr_t address);

    std::mutex mutex_;
    uintptr_t base_ = 0, next_ = 0;
    std::map<uintptr_t, Allocation> live_;
    std::map<uintptr_t, size_t> freed_;
};

}  // namespace emulator
