#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "device_memory.h"
#include "report.h"

namespace emulator {

namespace {

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous[sizeof SIGNALS / sizeof *SIGNALS];
pthread_t worker;

const void* instruction(void* context) {
    auto* state = static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
    return reinterpret_cast<const void*>(state->uc_mcontext.gregs[REG_RIP]);
#else
    return reinterpret_cast<const void*>(state->uc_mcontext.pc);
#endif
}

void handle(int signal, siginfo_t* info, void* context) {
    if (!execution.in_kernel || !pthread_equal(pthread_self(), worker)) {
        // Returning repeats the fault, for the previous handler.
        for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
            if (SIGNALS[i] == signal) sigaction(signal, &previous[i], nullptr);
        }
        return;
    }
    execution.in_kernel = false;
    execution.fault_signal = signal;
    execution.fault_address = reinterpret_cast<uintptr_t>(info->si_addr);
    execution.fault_pc = instruction(context);
    siglongjmp(execution.abandon, FAULTED);
}

}  // namespace

void catch_faults() {
    static bool installed;
    if (installed) return;
    installed = true;
    worker = pthread_self();
    static char memory[64 << 10];
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    sigaltstack(&stack, nullptr);
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) sigaction(SIGNALS[i], &action, &previous[i]);
}

Outcome describe_fault() {
    std::string where = current_thread() + " (" + source_line(static_cast<const char*>(execution.fault_pc) + 1) + ")";
    auto* address = reinterpret_cast<const void*>(execution.fault_address);
    switch (execution.fault_signal) {
        case SIGFPE: return {CUDA_ERROR_LAUNCH_FAILED, "integer division by zero in " + where};
        case SIGILL: return {CUDA_ERROR_ILLEGAL_INSTRUCTION, "illegal instruction in " + where};
        default: break;
    }
    if (execution.stacks.in_guard(address)) return {CUDA_ERROR_LAUNCH_FAILED, "stack overflow in " + where};
    return {CUDA_ERROR_ILLEGAL_ADDRESS,
            "illegal access in " + where + ": " + DeviceMemory::instance().describe(execution.fault_address)};
}

}  // namespace emulator
