// Runs the threads of a launch in the order that the settings ask for. The blocks of a grid run one after another, and
// of a block's warps each runs until its lanes wait for the others or have exited.
#include "execution.h"

#include <algorithm>

#include "race.h"
#include "report.h"
#include "signals.h"

// What the kernels see as threadIdx and so on.
extern "C" {
__attribute__((visibility("default"))) emulator::Dim wisp_emulator_thread_index, wisp_emulator_block_index,
    wisp_emulator_block_size, wisp_emulator_grid_size;
}

namespace emulator {

Execution execution;

namespace {

/// What fresh workgroup memory holds: NaN, as halves and as floats, and not what fresh device memory holds.
constexpr uint32_t SHARED_POISON = 0xFFF5FFF5;

/// The body of every fibre: one thread of the kernel.
void thread_body() {
    execution.launch->kernel.info->call(execution.arguments.data());
    execution.threads[execution.current].phase = Phase::DONE;
    suspend();
    __builtin_unreachable();
}

void resume(unsigned index) {
    Thread& thread = execution.threads[index];
    execution.current = index;
    wisp_emulator_thread_index = execution.indices[index];
    if (thread.phase == Phase::NEW) {
        thread.stack = execution.stacks.take();
        thread.state = execution.stacks.prepare(thread.stack, thread_body);
    }
    thread.phase = Phase::READY;
    wisp_emulator_switch(&execution.scheduler, thread.state);
    race::settle();
    if (thread.phase != Phase::DONE) return;
    execution.stacks.give_back(thread.stack);
    execution.done++;
    unsigned warp = index / WARP_SIZE;
    execution.warps[warp].alive &= ~(1u << index % WARP_SIZE);
    // Lanes that wait need this one no longer.
    complete_warp(warp);
}

/// Lets each lane of a warp that can run do so once.
void run_lanes(unsigned warp) {
    unsigned first = warp * WARP_SIZE, flip = 0;
    switch (execution.order.kind) {
        case Order::FORWARD: break;
        case Order::BACKWARD: flip = WARP_SIZE - 1; break;
        // With exclusive or each start gives a permutation of the lanes.
        case Order::RANDOM: flip = execution.draw(WARP_SIZE); break;
    }
    Warp& state = execution.warps[warp];
    for (unsigned i = 0; i < WARP_SIZE; i++) {
        unsigned lane = i ^ flip;
        if (!(state.ready >> lane & 1)) continue;
        state.ready &= ~(1u << lane);
        resume(first + lane);
    }
}

/// A warp with lanes that can run, or -1.
int choose_warp() {
    unsigned count = execution.warp_count();
    unsigned start = execution.order.kind == Order::RANDOM ? execution.draw(count) : 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned warp = execution.order.kind == Order::BACKWARD ? count - 1 - i : (start + i) % count;
        if (execution.warps[warp].ready) return static_cast<int>(warp);
    }
    return -1;
}

/// Lets all threads go on if every one waits at the same barrier.
void release_barrier() {
    for (unsigned i = 0; i < execution.count; i++) {
        const Thread& thread = execution.threads[i];
        if (thread.phase != Phase::AT_BARRIER || thread.site != execution.threads[0].site) fail_stuck();
    }
    for (unsigned i = 0; i < execution.warp_count(); i++) execution.warps[i].ready = execution.warps[i].alive;
    race::block_barrier();
}

void run_block() {
    const WispModuleInfo* module = execution.launch->kernel.module;
    size_t words = static_cast<size_t>(module->shared_end - module->shared_begin) / 4;
    std::fill_n(reinterpret_cast<uint32_t*>(module->shared_begin), words, SHARED_POISON);
    for (unsigned i = 0; i < execution.count; i++) execution.threads[i].phase = Phase::NEW;
    for (unsigned i = 0; i < execution.warp_count(); i++) {
        unsigned lanes = std::min(WARP_SIZE, execution.count - i * WARP_SIZE);
        unsigned mask = lanes == WARP_SIZE ? ~0u : (1u << lanes) - 1;
        execution.warps[i] = {mask, 0, mask};
    }
    execution.done = 0;
    race::begin_block();
    while (execution.done < execution.count) {
        int warp = choose_warp();
        if (warp < 0) release_barrier();
        else run_lanes(static_cast<unsigned>(warp));
    }
}

void run_grid() {
    Dim grid = execution.launch->grid;
    uint64_t count = grid.count();
    uint64_t start = execution.order.kind == Order::RANDOM
                         ? execution.draw(static_cast<unsigned>(std::min<uint64_t>(count, ~0u)))
                         : 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = execution.order.kind == Order::BACKWARD ? count - 1 - i : (start + i) % count;
        execution.block = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                           static_cast<unsigned>(index / grid.x / grid.y)};
        wisp_emulator_block_index = execution.block;
        run_block();
    }
}

void prepare(const Launch& launch) {
    execution.launch = &launch;
    execution.order = thread_order();
    execution.random = execution.order.seed * 0x9E3779B97F4A7C15ull + 1;
    execution.count = static_cast<unsigned>(launch.block.count());
    for (unsigned i = 0; i < execution.count; i++) {
        execution.indices[i] = {i % launch.block.x, i / launch.block.x % launch.block.y,
                                i / launch.block.x / launch.block.y};
    }
    execution.arguments.clear();
    for (auto& argument : launch.arguments) execution.arguments.push_back(const_cast<char*>(argument.data()));
    execution.stacks.reset();
    execution.outcome = {};
    wisp_emulator_block_size = launch.block;
    wisp_emulator_grid_size = launch.grid;
}

}  // namespace

unsigned Execution::draw(unsigned bound) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<unsigned>((random >> 33) % bound);
}

void suspend() {
    Thread& thread = execution.threads[execution.current];
    wisp_emulator_switch(&thread.state, execution.scheduler);
}

void fail(CUresult code, const std::string& message) {
    execution.in_kernel = false;
    execution.outcome = {code, message};
    siglongjmp(execution.abandon, 1);
}

Outcome run_launch(const Launch& launch) {
    catch_faults();
    prepare(launch);
    race::begin_launch(launch);
    switch (sigsetjmp(execution.abandon, 1)) {
        case 0:
            execution.in_kernel = true;
            run_grid();
            break;
        case FAULTED: execution.outcome = describe_fault(); break;
        default: break;
    }
    execution.in_kernel = false;
    race::end_launch();
    return execution.outcome;
}

}  // namespace emulator

extern "C" __attribute__((visibility("default"))) void wisp_emulator_barrier(unsigned site) {
    using namespace emulator;
    Thread& thread = execution.threads[execution.current];
    thread.phase = Phase::AT_BARRIER;
    thread.site = site;
    thread.pc = __builtin_return_address(0);
    suspend();
}
