// Faults on request: CUDA_EMULATOR_FAIL=name:nth:code[,…] lets the nth call of a function, or the nth kernel, fail.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

#include "context.h"

namespace emulator {

namespace {

struct Rule {
    std::string name;
    uint64_t nth;
    CUresult code;
};

struct Faults {
    std::mutex mutex;
    std::string specification;
    std::vector<Rule> rules;
    std::map<std::string, uint64_t> calls;
    /// Set by wisp_emulator_fail, which then replaces the environment variable.
    bool set_by_call = false;
};

Faults& faults() {
    static auto* instance = new Faults;
    return *instance;
}

CUresult code_of(const std::string& text) {
#define X(code, name, description) \
    if (text == #code || text == #name || "CUDA_ERROR_" + text == #name) return name;
    WISP_RESULTS(X)
#undef X
    print("CUDA_EMULATOR_FAIL: there is no error " + text);
    abort();
}

void parse(Faults& state, const char* specification) {
    state.specification = specification;
    state.rules.clear();
    state.calls.clear();
    std::stringstream rules(specification);
    for (std::string rule; std::getline(rules, rule, ',');) {
        std::stringstream parts(rule);
        std::string name, nth, code;
        if (!std::getline(parts, name, ':') || !std::getline(parts, nth, ':') || !std::getline(parts, code)) {
            print("CUDA_EMULATOR_FAIL: " + rule + ": expected name:nth:code");
            abort();
        }
        // The emulated compiler reads its own rules.
        if (name.rfind("nvrtc", 0) == 0) continue;
        state.rules.push_back({name, strtoull(nth.c_str(), nullptr, 10), code_of(code)});
    }
}

}  // namespace

CUresult injected_fault(const char* name) {
    Faults& state = faults();
    std::lock_guard lock(state.mutex);
    if (!state.set_by_call) {
        const char* text = getenv("CUDA_EMULATOR_FAIL");
        if (state.specification != (text ? text : "")) parse(state, text ? text : "");
    }
    if (state.rules.empty()) return CUDA_SUCCESS;
    uint64_t call = ++state.calls[name];
    for (const Rule& rule : state.rules) {
        if (rule.name == name && rule.nth == call) return rule.code;
    }
    return CUDA_SUCCESS;
}

}  // namespace emulator

/// Sets the faults from now on, with counts from the beginning; null goes back to the environment variable.
extern "C" __attribute__((visibility("default"))) void wisp_emulator_fail(const char* specification) {
    auto& state = emulator::faults();
    std::lock_guard lock(state.mutex);
    state.set_by_call = specification != nullptr;
    emulator::parse(state, specification ? specification : "");
}
