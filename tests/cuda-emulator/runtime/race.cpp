#include "race.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "device_memory.h"
#include "execution.h"
#include "report.h"
#include "shadow.h"

namespace emulator::race {

namespace {

struct Place {
    uintptr_t address;
    size_t bytes;
    bool shared;
};

/// A write of what another thread wrote. It is a race only if it changes the value, which is seen after it.
struct SecondWrite {
    Place part;
    uint32_t before;
    const void* pc;
    uint32_t other_pc;
    std::string who;
};

/// The detector's state while a kernel runs.
struct Detector {
    Time now = 0;
    /// Accesses since then belong to this launch, or to this block since its last barrier.
    Time launch_start, block_start, interval_start;
    /// For each warp: accesses since then are not ordered among its lanes.
    Time warp_start[MAX_THREADS / WARP_SIZE];

    uintptr_t shared_begin = 0;
    size_t shared_bytes = 0;
    /// The size of device memory if it is watched, else 0.
    size_t device_bytes = 0;
    uintptr_t device_base = 0;
    /// The program in memory, and its part that can be written.
    const char* program = nullptr;
    uintptr_t writable_begin = 0, writable_end = 0;
    uintptr_t constant_begin = 0, constant_end = 0;

    std::vector<Cell> shared_cells, shared_bytes_cells;
    /// Lies over device memory as an array, and only what is used becomes real.
    Cell* device_cells = nullptr;
    std::map<uintptr_t, std::vector<Cell>> device_bytes_cells;

    /// Of the current thread's last access.
    std::vector<SecondWrite> second_writes;
} detector;

uint32_t offset_of(const void* pc) { return static_cast<uint32_t>(static_cast<const char*>(pc) - detector.program); }

std::string thread_name(unsigned index) {
    Dim at = execution.indices[index];
    return "thread (" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

[[noreturn]] void report(const Place& place, const char* now, const void* pc, const char* before,
                         const std::string& who, uint32_t other_pc) {
    std::string where =
        place.shared ? describe_shared(place.address) : DeviceMemory::instance().describe(place.address);
    std::string here = source_line(pc), there = source_line(detector.program + other_pc);
    fail(CUDA_ERROR_LAUNCH_FAILED, "race on " + std::string(place.shared ? "workgroup" : "device") + " memory in " +
                                       current_thread() + ": it " + now + " " + where + " (" + here + "), which " +
                                       who + " " + before + " (" + there + "), and nothing orders the two");
}

const char* present_tense(Access kind) {
    return kind == Access::READ ? "reads" : kind == Access::WRITE ? "writes" : "atomically changes";
}

/// Whether an access at that time by a thread of that warp is not ordered before the current thread.
bool unordered(Time time, unsigned warp) {
    return time >= (warp == execution.current / WARP_SIZE ? detector.warp_start[warp] : detector.interval_start);
}

/// Whether another block of this launch made an access at that time.
bool foreign(Time time) { return time >= detector.launch_start && time < detector.block_start; }

void check_last_write(const Cell& cell, const Place& place, const Place& part, Access kind, const void* pc) {
    if (!cell.write_time || (kind == Access::ATOMIC && cell.write_atomic)) return;
    bool of_block = cell.writer != execution.current && unordered(cell.write_time, cell.writer / WARP_SIZE);
    bool of_other = !place.shared && foreign(cell.write_time);
    if (!of_block && !of_other) return;
    std::string who = of_other ? "another block" : thread_name(cell.writer);
    if (kind == Access::WRITE && !cell.write_atomic) {
        SecondWrite write{part, 0, pc, cell.write_pc, who};
        memcpy(&write.before, reinterpret_cast<const void*>(part.address), part.bytes);
        detector.second_writes.push_back(write);
        return;
    }
    report(place, present_tense(kind), pc, cell.write_atomic ? "changed atomically" : "wrote", who, cell.write_pc);
}

void check_readers(const Cell& cell, const Place& place, Access kind, const void* pc) {
    unsigned warp = execution.current / WARP_SIZE, lane = execution.current % WARP_SIZE;
    for (const Reader& reader : cell.readers) {
        if (!reader.time) continue;
        if (!place.shared && foreign(reader.time))
            report(place, present_tense(kind), pc, "read", "another block", reader.pc);
        if (!unordered(reader.time, reader.warp) || (reader.warp == warp && reader.lane == lane)) continue;
        std::string who =
            reader.lane == SEVERAL ? "several lanes of a warp" : thread_name(reader.warp * WARP_SIZE + reader.lane);
        report(place, present_tense(kind), pc, "read", who, reader.pc);
    }
    if (!place.shared && cell.foreign_time && foreign(cell.foreign_time)) {
        report(place, present_tense(kind), pc, "read", "another block", cell.foreign_pc);
    }
}

void note_read(Cell& cell, const void* pc) {
    auto warp = static_cast<uint8_t>(execution.current / WARP_SIZE);
    auto lane = static_cast<uint8_t>(execution.current % WARP_SIZE);
    // The slot of this warp, or else the one whose read is longer ago.
    Reader* slot = &cell.readers[cell.readers[1].time < cell.readers[0].time];
    for (Reader& reader : cell.readers) {
        if (reader.time && reader.warp == warp) slot = &reader;
    }
    if (slot->time && foreign(slot->time)) {
        cell.foreign_time = slot->time;
        cell.foreign_pc = slot->pc;
    }
    bool same = slot->time && slot->warp == warp && slot->time >= detector.warp_start[warp] && slot->lane != lane;
    *slot = {detector.now, offset_of(pc), warp, same ? SEVERAL : lane};
}

void note_write(Cell& cell, Access kind, const void* pc) {
    bool atomic = kind == Access::ATOMIC;
    // A plain write stays one, though the same thread's atomic one follows.
    bool plain_before =
        cell.write_time >= detector.interval_start && cell.writer == execution.current && !cell.write_atomic;
    cell.write_atomic = atomic && !(cell.write_time && plain_before);
    cell.write_time = detector.now;
    cell.write_pc = offset_of(pc);
    cell.writer = static_cast<uint16_t>(execution.current);
}

void visit(Cell& cell, const Place& place, const Place& part, Access kind, const void* pc) {
    check_last_write(cell, place, part, kind, pc);
    if (kind == Access::READ) {
        note_read(cell, pc);
    } else {
        check_readers(cell, place, kind, pc);
        note_write(cell, kind, pc);
    }
}

/// Visits the cells of an access, given those of words and a function that gives the cells of a word's bytes.
template <class Bytes>
void visit_range(Cell* words, uintptr_t base, const Place& place, Access kind, const void* pc, Bytes bytes_of) {
    uintptr_t end = place.address + place.bytes;
    for (uintptr_t at = place.address; at < end;) {
        uintptr_t word = at & ~uintptr_t{3}, next = std::min(word + 4, end);
        Cell& cell = words[(word - base) / 4];
        bool whole = next - at == 4;
        if (whole && !cell.split) {
            visit(cell, place, {word, 4, place.shared}, kind, pc);
        } else {
            Cell* bytes = bytes_of(word);
            if (!cell.split) std::fill_n(bytes, 4, cell);
            cell.split = true;
            for (uintptr_t byte = at; byte < next; byte++) {
                visit(bytes[byte - word], place, {byte, 1, place.shared}, kind, pc);
            }
        }
        at = next;
    }
}

void shared_access(const Place& place, Access kind, const void* pc) {
    if (place.address + place.bytes > detector.shared_begin + detector.shared_bytes) {
        fail(CUDA_ERROR_ILLEGAL_ADDRESS,
             current_thread() + " accesses workgroup memory beyond its end (" + source_line(pc) + ")");
    }
    visit_range(detector.shared_cells.data(), detector.shared_begin, place, kind, pc, [](uintptr_t word) {
        if (detector.shared_bytes_cells.empty()) detector.shared_bytes_cells.resize(detector.shared_bytes + 4);
        return &detector.shared_bytes_cells[word - detector.shared_begin];
    });
}

void device_access(const Place& place, Access kind, const void* pc) {
    if (!DeviceMemory::instance().contains(place.address, place.bytes)) {
        fail(CUDA_ERROR_ILLEGAL_ADDRESS, current_thread() + " accesses " +
                                             DeviceMemory::instance().describe(place.address) + " (" + source_line(pc) +
                                             ")");
    }
    visit_range(detector.device_cells, detector.device_base, place, kind, pc, [](uintptr_t word) {
        auto& cells = detector.device_bytes_cells[word];
        if (cells.empty()) cells.resize(4);
        return cells.data();
    });
}

void watch_device_memory() {
    detector.device_base = DeviceMemory::instance().base();
    detector.device_bytes = DeviceMemory::SPAN;
    if (detector.device_cells) return;
    void* cells = mmap(nullptr, DeviceMemory::SPAN / 4 * sizeof(Cell), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) {
        perror("cuda-emulator: no addresses for CUDA_EMULATOR_RACES=all");
        abort();
    }
    detector.device_cells = static_cast<Cell*>(cells);
}

}  // namespace

void begin_launch(const Launch& launch) {
    const WispModuleInfo& module = *launch.kernel.module;
    detector.shared_begin = reinterpret_cast<uintptr_t>(module.shared_begin);
    detector.shared_bytes = static_cast<size_t>(module.shared_end - module.shared_begin);
    // Cells of other kernels or launches may stay: their times are past.
    detector.shared_cells.resize(std::max(detector.shared_cells.size(), detector.shared_bytes / 4 + 1));
    detector.shared_bytes_cells.clear();
    for (size_t i = 0; i < detector.shared_bytes / 4 + 1; i++) detector.shared_cells[i].split = false;
    Program program = program_of(launch.kernel.info);
    detector.program = program.base;
    detector.writable_begin = program.writable_begin;
    detector.writable_end = program.writable_end;
    detector.constant_begin = reinterpret_cast<uintptr_t>(module.constant_begin);
    detector.constant_end = reinterpret_cast<uintptr_t>(module.constant_end);
    detector.device_bytes = 0;
    if (race_detection() == Races::ALL) watch_device_memory();
    detector.second_writes.clear();
    detector.launch_start = ++detector.now;
}

void end_launch() { detector.shared_bytes = detector.device_bytes = 0; }

void begin_block() {
    detector.block_start = detector.now + 1;
    block_barrier();
}

void block_barrier() {
    if (detector.now > 0xFFFFFFF0u) {
        fprintf(stderr, "cuda-emulator: the race detector's clock has run out\n");
        abort();
    }
    detector.interval_start = ++detector.now;
    std::fill_n(detector.warp_start, execution.warp_count(), detector.now);
}

void warp_barrier(unsigned warp) { detector.warp_start[warp] = ++detector.now; }

void settle() {
    for (const SecondWrite& write : detector.second_writes) {
        if (!memcmp(&write.before, reinterpret_cast<const void*>(write.part.address), write.part.bytes)) continue;
        report(write.part, "writes another value to", write.pc, "wrote", write.who, write.other_pc);
    }
    detector.second_writes.clear();
}

void access(uintptr_t address, size_t bytes, Access kind, const void* pc) {
    if (!detector.second_writes.empty()) settle();
    if (address - detector.shared_begin < detector.shared_bytes) {
        shared_access({address, bytes, true}, kind, pc);
    } else if (address - detector.device_base < detector.device_bytes) {
        device_access({address, bytes, false}, kind, pc);
    } else if (address >= detector.writable_begin && address < detector.writable_end &&
               !(address >= detector.constant_begin && address < detector.constant_end)) {
        fail(CUDA_ERROR_ILLEGAL_ADDRESS,
             current_thread() + " accesses memory beside its workgroup memory (" + source_line(pc) + ")");
    }
}

void forget(uintptr_t address, size_t bytes) {
    if (!detector.device_cells) return;
    uintptr_t offset = address - detector.device_base;
    auto begin = reinterpret_cast<uintptr_t>(detector.device_cells + offset / 4);
    uintptr_t end = begin + bytes / 4 * sizeof(Cell), first = (begin + 4095) & ~uintptr_t{4095};
    // Cells on shared pages stay; addresses come back only after all others, and their times are past then.
    if (first < (end & ~uintptr_t{4095}))
        madvise(reinterpret_cast<void*>(first), (end & ~uintptr_t{4095}) - first, MADV_DONTNEED);
}

}  // namespace emulator::race
