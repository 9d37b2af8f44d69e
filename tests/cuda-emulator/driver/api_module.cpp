// Modules and kernels: loading, questions, launches.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "../image/image.h"
#include "../runtime/device_memory.h"
#include "../runtime/settings.h"
#include "api.h"
#include "host_memory.h"
#include "module.h"
#include "stream.h"

namespace emulator {

namespace {

std::mutex functions_mutex;
std::map<Function*, std::weak_ptr<Module>>& functions() {
    static auto* all = new std::map<Function*, std::weak_ptr<Module>>;
    return *all;
}

/// Writes the program to a file and loads it; the file has no name any more afterwards. No name is used twice: for one under
/// which something is loaded, dlopen returns that, and does not look at the file. mkstemp repeats names, if rarely.
void* load_library(const std::string& object) {
    static std::atomic<unsigned> number{0};
    const char* folder = getenv("TMPDIR");
    const std::string prefix =
        std::string(folder && *folder ? folder : "/tmp") + "/wisp-module-" + std::to_string(getpid()) + "-";
    std::string path;
    int file;
    do {
        path = prefix + std::to_string(number++);
        file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    } while (file < 0 && errno == EEXIST);
    if (file < 0) {
        print("a module cannot be loaded: " + path + " cannot be created");
        return nullptr;
    }
    bool written = write(file, object.data(), object.size()) == static_cast<ssize_t>(object.size());
    close(file);
    void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) print(std::string("a module cannot be loaded: ") + (written ? dlerror() : "its file cannot be written"));
    unlink(path.c_str());
    return library;
}

CUresult load(Context& context, Module** handle, const void* bytes) {
    WISP_TRY(forbid_in_captures(context));
    Image image;
    if (!bytes || !decode_image(bytes, image)) return CUDA_ERROR_INVALID_IMAGE;
    int capability = compute_capability();
    bool fits = static_cast<int>(image.architecture) / 10 == capability / 10 &&
                static_cast<int>(image.architecture) <= capability;
    if (!fits || image.configuration != current_configuration()) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    auto module = std::make_shared<Module>();
    module->context = &context;
    module->object = std::move(image.object);
    module->library = load_library(module->object);
    if (!module->library) return CUDA_ERROR_INVALID_IMAGE;
    module->info = static_cast<const WispModuleInfo*>(dlsym(module->library, "wisp_module"));
    if (!module->info) return CUDA_ERROR_INVALID_IMAGE;
    if (module->shared_bytes() > SHARED_LIMIT) {
        print("a module with " + std::to_string(module->shared_bytes()) +
              " bytes of static workgroup memory: at most 49152 are possible");
        return CUDA_ERROR_INVALID_PTX;
    }
    counters.modules_loaded++;
    *handle = Handles<Module>::all().add(module);
    return CUDA_SUCCESS;
}

}  // namespace

Module::~Module() {
    std::lock_guard lock(functions_mutex);
    for (auto& [name, function] : functions) emulator::functions().erase(function.get());
    if (library) dlclose(library);
}

std::shared_ptr<Module> module_of(Function* function) {
    std::lock_guard lock(functions_mutex);
    auto found = functions().find(function);
    return found == functions().end() ? nullptr : found->second.lock();
}

}  // namespace emulator

using namespace emulator;

EXPORT CUresult cuModuleLoadData(Module** module, const void* image) {
    WISP_CALL(cuModuleLoadData);
    return load(*call.context, module, image);
}

EXPORT CUresult cuModuleLoadDataEx(Module** module, const void* image, unsigned, int*, void**) {
    WISP_CALL(cuModuleLoadDataEx);
    return load(*call.context, module, image);
}

EXPORT CUresult cuModuleUnload(Module* handle) {
    Call call("cuModuleUnload");
    return Handles<Module>::all().remove(handle) ? call.error : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuModuleGetFunction(Function** handle, Module* module_handle, const char* name) {
    WISP_CALL(cuModuleGetFunction);
    auto module = Handles<Module>::all().find(module_handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    auto* info =
        static_cast<const WispKernelInfo*>(dlsym(module->library, ("wisp_kernel_" + std::string(name)).c_str()));
    if (!info) return CUDA_ERROR_NOT_FOUND;
    std::lock_guard lock(functions_mutex);
    auto& function = module->functions[name];
    if (!function) {
        function = std::make_unique<Function>();
        function->kernel = {name, info, module->info, &module->object};
        function->module = module;
        functions()[function.get()] = module;
    }
    *handle = function.get();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int* value, int attribute, Function* function) {
    WISP_CALL(cuFuncGetAttribute);
    auto module = module_of(function);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
        case 0: *value = static_cast<int>(function->kernel.info->max_threads); break;
        case 1: *value = static_cast<int>(module->shared_bytes()); break;
        case 4: *value = 32; break;  // registers of a thread
        case 5:
        case 6: *value = compute_capability(); break;
        case 8: *value = static_cast<int>(SHARED_LIMIT - module->shared_bytes()); break;
        default: *value = 0;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(Function* function, int attribute, int value) {
    WISP_CALL(cuFuncSetAttribute);
    if (!module_of(function)) return CUDA_ERROR_INVALID_HANDLE;
    // Of the attributes that can be set, 8 is the dynamic shared memory and 9 the preferred carveout.
    return (attribute == 8 || attribute == 9) && value >= -1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
