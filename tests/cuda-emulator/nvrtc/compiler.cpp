#include "compiler.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../image/image.h"
#include "source.h"

namespace emulator {

namespace {

/// The folder of this library.
std::string own_folder() {
    Dl_info info;
    dladdr(reinterpret_cast<const void*>(&own_folder), &info);
    std::string path = info.dli_fname;
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string setting(const char* name, const std::string& fallback) {
    const char* text = getenv(name);
    return text && *text ? text : fallback;
}

/// Instructions that make halves and fmaf fast, where the processor has them; they do not change results.
std::string processor_flags() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma")) return " -mf16c -mfma";
#endif
    return "";
}

/// No contraction of products and sums, as no two compilers contract alike; an alignment that is wrong is an error of
/// the kernel. The sanitizers' libraries are not linked: the emulator has their functions.
std::string compiler_flags() {
    std::string flags =
        "-x c++ -std=c++17 -O1 -g1 -gdwarf-4 -w -pipe -fPIC -shared -nostdlib -ffp-contract=off -fno-math-errno "
        "-fno-exceptions -fno-rtti"
        " -fno-strict-aliasing -fno-stack-protector -fno-threadsafe-statics -fsanitize=alignment -Wl,-z,now "
        "-Wl,--hash-style=gnu";
    flags += EMULATOR_COMPILER_FLAGS;
    if (setting("CUDA_EMULATOR_RACES", "shared") != "off") flags += EMULATOR_RACE_FLAGS;
    return flags + processor_flags() + " " + setting("CUDA_EMULATOR_FLAGS", "");
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
}

/// The source with its name for messages, and with the table of kernels behind it.
std::string complete_source(const std::string& source, const std::string& name) {
    std::string text = "#line 1 \"" + name + "\"\n" + source + "\n#line 1 \"wisp_kernels\"\n";
    for (const KernelDeclaration& kernel : find_kernels(source)) {
        text += "WISP_KERNEL(" + kernel.name + ", (" + kernel.max_threads + "))\n";
    }
    return text + "WISP_MODULE()\n";
}

std::string run(const std::string& command, bool& succeeded) {
    std::string output;
    FILE* process = popen(command.c_str(), "r");
    if (!process) {
        succeeded = false;
        return "the compiler cannot be started";
    }
    char bytes[4096];
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, process));) output.append(bytes, count);
    int status = pclose(process);
    succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return output;
}

}  // namespace

Compilation compile_kernel(const std::string& source, const std::string& name) {
    static std::atomic<unsigned> serial{0};
    std::string folder = own_folder(), flags = compiler_flags();
    std::string compiler = EMULATOR_CXX, text = complete_source(source, name);
    std::string cache = setting("CUDA_EMULATOR_CACHE", folder + "/cache");
    mkdir(cache.c_str(), 0777);

    std::string key = compiler + flags + EMULATOR_BUILD + text;
    char hash[40];
    snprintf(hash, sizeof hash, "/%016llx%016llx", static_cast<unsigned long long>(hash_bytes(key.data(), key.size())),
             static_cast<unsigned long long>(hash_bytes(key.data(), key.size(), 0x9E3779B97F4A7C15)));
    std::string path = cache + hash + ".so";
    Compilation result;
    result.object = read_file(path);
    if (!result.object.empty()) {
        result.succeeded = result.cached = true;
        return result;
    }
    // Under a name of its own until it is complete, as others may compile the same.
    std::string unfinished = cache + hash + "." + std::to_string(getpid()) + "." + std::to_string(serial++);
    std::ofstream(unfinished + ".cu") << text;
    result.log = run(compiler + " " + flags + " -include '" + folder + "/kernel/environment.h' '" + unfinished +
                         ".cu' -x none -o '" + unfinished + ".so' '" + folder + "/libcuda.so.1' -lm -lc -lgcc 2>&1",
                     result.succeeded);
    unlink((unfinished + ".cu").c_str());
    if (result.succeeded) {
        result.object = read_file(unfinished + ".so");
        rename((unfinished + ".so").c_str(), path.c_str());
    }
    return result;
}

}  // namespace emulator
