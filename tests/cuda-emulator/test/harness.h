// A small frame for the emulator's own tests. The libraries are loaded as cudarc loads them: by name, and each function
// when it is first called.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace test {

/// Looks a function up in libcuda or libnvrtc and calls it.
template <class... A>
int call(const char* name, A... arguments) {
    static void* const driver = dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
    static void* const compiler = dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
    void* function = dlsym(name[0] == 'n' ? compiler : driver, name);
    if (!function) {
        printf("there is no function %s\n", name);
        exit(1);
    }
    return reinterpret_cast<int (*)(A...)>(function)(arguments...);
}

uint64_t count(const char* counter);
uint64_t compiler_count(const char* counter);
/// The message of the context's failure.
std::string failure();

using Pointer = unsigned long long;

/// Fails the test with a text.
[[noreturn]] void fail(const char* file, int line, const std::string& message);

#define CHECK(condition) \
    if (!(condition)) test::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQUAL(actual, expected)                                                                            \
    do {                                                                                                         \
        auto actual_ = actual;                                                                                   \
        decltype(actual_) expected_ = expected;                                                                  \
        if (actual_ != expected_) {                                                                              \
            test::fail(                                                                                          \
                __FILE__, __LINE__,                                                                              \
                std::string(#actual) + " is " + std::to_string(actual_) + ", not " + std::to_string(expected_)); \
        }                                                                                                        \
    } while (0)
#define CHECK_CONTAINS(text, part)              \
    if ((text).find(part) == std::string::npos) \
    test::fail(__FILE__, __LINE__, "'" + (text) + "' lacks '" + (part) + "'")
#define OK(...) CHECK_EQUAL(test::call(__VA_ARGS__), 0)

/// Sets an environment variable until the end of the scope.
class Setting {
public:
    Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
    ~Setting() { unsetenv(name_); }
    Setting(const Setting&) = delete;

private:
    const char* name_;
};

/// A device with a fresh context, and one stream that does not wait for the default stream.
class Device {
public:
    Device();
    ~Device();
    Device(const Device&) = delete;

    /// Compiles the source for the device; the log if it does not compile.
    std::string cubin(const std::string& source, const char* architecture = "--gpu-architecture=sm_80",
                      bool ptx = false);
    /// The function `test_kernel` of a source.
    void* kernel(const std::string& source);
    template <class T>
    Pointer upload(const std::vector<T>& values) {
        Pointer pointer = allocate(values.size() * sizeof(T));
        OK("cuMemcpyHtoDAsync_v2", pointer, static_cast<const void*>(values.data()), values.size() * sizeof(T), stream);
        return pointer;
    }
    Pointer allocate(size_t bytes);
    template <class T>
    std::vector<T> download(Pointer pointer, size_t count) {
        std::vector<T> values(count);
        OK("cuMemcpyDtoHAsync_v2", static_cast<void*>(values.data()), pointer, count * sizeof(T), stream);
        return values;
    }
    /// Enqueues a kernel and returns the launch's own result.
    template <class... A>
    int launch(void* kernel, unsigned blocks, unsigned threads, A... arguments) {
        void* pointers[] = {&arguments..., nullptr};
        return call("cuLaunchKernel", kernel, blocks, 1u, 1u, threads, 1u, 1u, 0u, stream,
                    static_cast<void**>(pointers), static_cast<void**>(nullptr));
    }
    /// Enqueues a kernel and waits for it.
    template <class... A>
    int run(void* kernel, unsigned blocks, unsigned threads, A... arguments) {
        CHECK_EQUAL(launch(kernel, blocks, threads, arguments...), 0);
        return synchronize();
    }
    int synchronize() { return call("cuStreamSynchronize", stream); }

    void* stream = nullptr;
};

/// Registers a test that main runs.
struct Test {
    Test(const char* name, void (*body)());
};
#define TEST(name)                                  \
    static void name();                             \
    static test::Test register_##name(#name, name); \
    static void name()

/// The orders of threads that matter.
extern const std::vector<std::string> ORDERS;

}  // namespace test
