// The functions of libnvrtc.
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../image/image.h"
#include "compiler.h"
#include "source.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace emulator;

namespace {

#define WISP_NVRTC_RESULTS(X)                               \
    X(0, NVRTC_SUCCESS)                                     \
    X(1, NVRTC_ERROR_OUT_OF_MEMORY)                         \
    X(2, NVRTC_ERROR_PROGRAM_CREATION_FAILURE)              \
    X(3, NVRTC_ERROR_INVALID_INPUT)                         \
    X(4, NVRTC_ERROR_INVALID_PROGRAM)                       \
    X(5, NVRTC_ERROR_INVALID_OPTION)                        \
    X(6, NVRTC_ERROR_COMPILATION)                           \
    X(8, NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION) \
    X(9, NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION)   \
    X(10, NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID)            \
    X(11, NVRTC_ERROR_INTERNAL_ERROR)

enum Result : int {
#define X(code, name) name = code,
    WISP_NVRTC_RESULTS(X)
#undef X
};

constexpr int ARCHITECTURES[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 120};

struct Program {
    std::string source, name, log, cubin, ptx;
    std::vector<std::string> expressions;
    std::map<std::string, std::string> lowered;
    bool compiled = false;
};

std::atomic<uint64_t> compiles{0}, cached{0};

struct Options {
    int architecture = 52;
    /// sm_ and not compute_: there is a cubin.
    bool real = false;
};

/// Whether an option begins with one of NVRTC's words that change nothing here.
bool is_harmless(const std::string& option) {
    static const char* const WORDS[] = {"--std=",
                                        "-std=",
                                        "--fmad=",
                                        "-fmad=",
                                        "--ftz=false",
                                        "-default-device",
                                        "--device-as-default-execution-space",
                                        "-D",
                                        "-I",
                                        "--generate-line-info",
                                        "-lineinfo",
                                        "--ptxas-options=",
                                        "--extra-device-vectorization",
                                        "--maxrregcount=",
                                        "--prec-div=",
                                        "--prec-sqrt=",
                                        "--restrict",
                                        "-w",
                                        "--disable-warnings"};
    for (const char* word : WORDS) {
        if (option.rfind(word, 0) == 0) return true;
    }
    return false;
}

/// Reads the options; false, with a log, at one that is unknown.
bool read_options(int count, const char* const* texts, Options& options, std::string& log) {
    for (int i = 0; i < count; i++) {
        std::string option = texts[i];
        size_t equals = option.find('=');
        std::string word = option.substr(0, equals),
                    value = equals == std::string::npos ? "" : option.substr(equals + 1);
        if (word == "--gpu-architecture" || word == "-arch") {
            options.real = value.rfind("sm_", 0) == 0;
            options.architecture = atoi(value.c_str() + value.find('_') + 1);
            bool known = false;
            for (int each : ARCHITECTURES) known |= each == options.architecture;
            if (known && (options.real || value.rfind("compute_", 0) == 0)) continue;
            log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
            return false;
        }
        if (is_harmless(option)) continue;
        log = "nvrtc: error: unrecognized option " + option + " found (the emulator knows few)\n";
        return false;
    }
    return true;
}

/// CUDA_EMULATOR_FAIL's rules for nvrtcCompileProgram, which the emulated driver does not see.
Result injected_failure() {
    static std::atomic<uint64_t> calls{0};
    uint64_t call = ++calls;
    const char* rules = getenv("CUDA_EMULATOR_FAIL");
    if (!rules) return NVRTC_SUCCESS;
    static const char NAME[] = "nvrtcCompileProgram:";
    for (const char* rule = strstr(rules, NAME); rule; rule = strstr(rule + 1, NAME)) {
        char* end;
        if (strtoull(rule + sizeof NAME - 1, &end, 10) == call && *end == ':')
            return static_cast<Result>(atoi(end + 1));
    }
    return NVRTC_SUCCESS;
}

Result copy_out(const std::string& bytes, char* to) {
    memcpy(to, bytes.data(), bytes.size());
    return NVRTC_SUCCESS;
}

}  // namespace

EXPORT Result nvrtcVersion(int* major, int* minor) {
    const char* version = getenv("CUDA_EMULATOR_NVRTC");
    int number = version && *version ? atoi(version) : 12080;
    *major = number / 1000;
    *minor = number % 1000 / 10;
    return NVRTC_SUCCESS;
}

EXPORT const char* nvrtcGetErrorString(Result code) {
    switch (code) {
#define X(code, name) \
    case name: return #name;
        WISP_NVRTC_RESULTS(X)
#undef X
    }
    return "NVRTC_ERROR unknown";
}

EXPORT Result nvrtcGetNumSupportedArchs(int* count) {
    *count = sizeof ARCHITECTURES / sizeof *ARCHITECTURES;
    return NVRTC_SUCCESS;
}

EXPORT Result nvrtcGetSupportedArchs(int* architectures) {
    memcpy(architectures, ARCHITECTURES, sizeof ARCHITECTURES);
    return NVRTC_SUCCESS;
}

EXPORT Result nvrtcCreateProgram(Program** program, const char* source, const char* name, int headers,
                                 const char* const*, const char* const*) {
    if (!source) return NVRTC_ERROR_INVALID_INPUT;
    // The contract is that a kernel includes nothing.
    if (headers) return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
    auto made = std::make_unique<Program>();
    made->source = source;
    made->name = name && *name ? name : "default_program";
    *program = made.release();
    return NVRTC_SUCCESS;
}

EXPORT Result nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return NVRTC_SUCCESS;
}

EXPORT Result nvrtcAddNameExpression(Program* program, const char* expression) {
    if (program->compiled) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    program->expressions.push_back(expression);
    return NVRTC_SUCCESS;
}

EXPORT Result nvrtcGetLoweredName(Program* program, const char* expression, const char** name) {
    if (!program->compiled) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    auto found = program->lowered.find(expression);
    if (found == program->lowered.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    *name = found->second.c_str();
    return NVRTC_SUCCESS;
}

EXPORT Result nvrtcCompileProgram(Program* program, int count, const char* const* texts) {
    if (Result failure = injected_failure()) {
        program->log = "a failure on request\n";
        return failure;
    }
    Options options;
    if (!read_options(count, texts, options, program->log)) return NVRTC_ERROR_INVALID_OPTION;
    std::string source = program->source;
    const char* drop = getenv("CUDA_EMULATOR_DROP_BARRIER");
    if (drop && atoi(drop) > 0 && !drop_barrier(source, static_cast<unsigned>(atoi(drop)))) {
        fprintf(stderr, "cuda-emulator: %s has no barrier number %s\n", program->name.c_str(), drop);
    }
    Compilation compilation = compile_kernel(source, program->name);
    compiles++;
    cached += compilation.cached;
    program->log = compilation.log;
    if (!compilation.succeeded) return NVRTC_ERROR_COMPILATION;
    // The emulator knows kernels by their plain names only.
    for (const KernelDeclaration& kernel : find_kernels(source)) {
        for (const std::string& expression : program->expressions) {
            if (expression == kernel.name || expression == "&" + kernel.name)
                program->lowered[expression] = kernel.name;
        }
    }
    for (const std::string& expression : program->expressions) {
        if (!program->lowered.count(expression)) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    }
    Image image{static_cast<uint32_t>(options.architecture), current_configuration(), compilation.object};
    if (options.real) program->cubin = encode_cubin(image);
    program->ptx = encode_ptx(image);
    program->compiled = true;
    return NVRTC_SUCCESS;
}

EXPORT Result nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
    *bytes = program->log.size() + 1;
    return NVRTC_SUCCESS;
}
EXPORT Result nvrtcGetProgramLog(Program* program, char* log) { return copy_out(program->log + '\0', log); }

EXPORT Result nvrtcGetCUBINSize(Program* program, size_t* bytes) {
    *bytes = program->cubin.size();
    return program->compiled ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}
EXPORT Result nvrtcGetCUBIN(Program* program, char* cubin) { return copy_out(program->cubin, cubin); }

EXPORT Result nvrtcGetPTXSize(Program* program, size_t* bytes) {
    *bytes = program->ptx.size() + 1;
    return program->compiled ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}
EXPORT Result nvrtcGetPTX(Program* program, char* ptx) { return copy_out(program->ptx + '\0', ptx); }

/// "compiles" or "cached_compiles": calls of nvrtcCompileProgram that reached the compiler's stage, and those of them
/// for which the cache had the result.
EXPORT uint64_t wisp_emulator_count(const char* name) {
    if (!strcmp(name, "compiles")) return compiles;
    if (!strcmp(name, "cached_compiles")) return cached;
    return ~uint64_t{0};
}
