#include "harness.h"

#include <cstring>

namespace test {

const std::vector<std::string> ORDERS = {"forward", "backward", "random:1", "random:2"};

namespace {

struct Entry {
    const char* name;
    void (*body)();
};

std::vector<Entry>& tests() {
    static std::vector<Entry> all;
    return all;
}

struct Failure {};

uint64_t count_in(const char* library, const char* counter) {
    static uint64_t (*functions[2])(const char*);
    auto& function = functions[strcmp(library, "libcuda.so") == 0];
    if (!function)
        function = reinterpret_cast<uint64_t (*)(const char*)>(dlsym(dlopen(library, RTLD_NOW), "wisp_emulator_count"));
    uint64_t value = function(counter);
    CHECK(value != ~uint64_t{0});
    return value;
}

}  // namespace

Test::Test(const char* name, void (*body)()) { tests().push_back({name, body}); }

void fail(const char* file, int line, const std::string& message) {
    printf("  %s:%d: %s\n", file, line, message.c_str());
    throw Failure{};
}

uint64_t count(const char* counter) { return count_in("libcuda.so", counter); }
uint64_t compiler_count(const char* counter) { return count_in("libnvrtc.so", counter); }

std::string failure() {
    auto* function =
        reinterpret_cast<const char* (*)()>(dlsym(dlopen("libcuda.so", RTLD_NOW), "wisp_emulator_failure"));
    return function();
}

Device::Device() {
    void* context = nullptr;
    OK("cuInit", 0u);
    OK("cuDevicePrimaryCtxRetain", &context, 0);
    OK("cuCtxSetCurrent", context);
    OK("cuStreamCreate", &stream, 1u);
}

Device::~Device() {
    call("cuStreamDestroy_v2", stream);
    call("cuDevicePrimaryCtxRelease_v2", 0);
}

std::string Device::cubin(const std::string& source, const char* architecture, bool ptx) {
    void* program = nullptr;
    OK("nvrtcCreateProgram", &program, source.c_str(), "test.cu", 0, nullptr, nullptr);
    const char* options[] = {architecture, "--std=c++17", "--fmad=true", "-default-device"};
    int code = call("nvrtcCompileProgram", program, 4, static_cast<const char* const*>(options));
    size_t bytes = 0;
    const char* size = code ? "nvrtcGetProgramLogSize" : ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize";
    const char* content = code ? "nvrtcGetProgramLog" : ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN";
    OK(size, program, &bytes);
    std::string result(bytes, 0);
    OK(content, program, result.data());
    OK("nvrtcDestroyProgram", &program);
    return result;
}

void* Device::kernel(const std::string& source) {
    std::string image = cubin(source);
    void *module = nullptr, *function = nullptr;
    int code = call("cuModuleLoadData", &module, static_cast<const void*>(image.data()));
    if (code) printf("%s\n", image.c_str());
    CHECK_EQUAL(code, 0);
    OK("cuModuleGetFunction", &function, module, "test_kernel");
    return function;
}

Pointer Device::allocate(size_t bytes) {
    Pointer pointer = 0;
    OK("cuMemAllocAsync", &pointer, bytes, stream);
    return pointer;
}

}  // namespace test

/// Runs all tests, or those whose names contain the argument.
int main(int argc, char** argv) {
    // What the emulator prints of the errors that the tests provoke is for one who looks at a single test.
    if (argc == 1 && !freopen("/dev/null", "w", stderr)) return 1;
    int failures = 0, ran = 0;
    for (const auto& entry : test::tests()) {
        if (argc > 1 && !strstr(entry.name, argv[1])) continue;
        ran++;
        try {
            entry.body();
        } catch (const test::Failure&) {
            printf("FAILED: %s\n", entry.name);
            failures++;
        }
    }
    printf("%d tests, %d failures\n", ran, failures);
    return failures || !ran;
}
