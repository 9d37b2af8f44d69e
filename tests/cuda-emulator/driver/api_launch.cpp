// Launches of kernels: limits, parameters, and the checks of pointers before a kernel runs.
#include <cstring>

#include "../runtime/device_memory.h"
#include "api.h"
#include "host_memory.h"
#include "module.h"
#include "stream.h"

using namespace emulator;

namespace {

CUresult check_limits(const Kernel& kernel, Dim grid, Dim block) {
    if (!grid.count() || !block.count()) return CUDA_ERROR_INVALID_VALUE;
    if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) return CUDA_ERROR_INVALID_VALUE;
    if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.count() > MAX_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    if (block.count() > kernel.info->max_threads) {
        print("kernel `" + kernel.name + "` is launched with " + std::to_string(block.count()) +
              " threads a block, but has __launch_bounds__(" + std::to_string(kernel.info->max_threads) + ")");
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    return CUDA_SUCCESS;
}

/// A parameter that is a pointer must lie in live memory, or be null.
Outcome check_pointers(const Launch& launch) {
    for (size_t i = 0; i < launch.arguments.size(); i++) {
        if (!launch.kernel.info->parameter_is_pointer[i]) continue;
        uintptr_t pointer;
        memcpy(&pointer, launch.arguments[i].data(), sizeof pointer);
        if (!pointer || DeviceMemory::instance().live(pointer) || is_pinned(reinterpret_cast<void*>(pointer), 1))
            continue;
        return {CUDA_ERROR_ILLEGAL_ADDRESS, "kernel `" + launch.kernel.name + "`: parameter " + std::to_string(i) +
                                                " points to " + DeviceMemory::instance().describe(pointer)};
    }
    return {};
}

Outcome run(const Launch& launch) {
    counters.kernels++;
    if (CUresult error = injected_fault("kernel"))
        return {error, "kernel `" + launch.kernel.name + "` fails on request"};
    Outcome outcome = check_pointers(launch);
    return outcome.code ? outcome : run_launch(launch);
}

}  // namespace

EXPORT CUresult cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream* stream_handle,
                               void** parameters, void** extra) {
    WISP_CALL(cuLaunchKernel);
    auto module = module_of(function);
    auto stream = find_stream(*call.context, stream_handle);
    if (!module || !stream) return CUDA_ERROR_INVALID_HANDLE;
    if (extra) {
        print("cuLaunchKernel: the emulator takes no packed parameters");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    auto launch = std::make_shared<Launch>();
    launch->kernel = function->kernel;
    launch->grid = {grid_x, grid_y, grid_z};
    launch->block = {block_x, block_y, block_z};
    WISP_TRY(check_limits(launch->kernel, launch->grid, launch->block));
    if (module->shared_bytes() + shared_bytes > SHARED_LIMIT) return CUDA_ERROR_INVALID_VALUE;
    const WispKernelInfo& info = *launch->kernel.info;
    if (info.parameter_count && !parameters) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < info.parameter_count; i++) {
        auto* value = static_cast<const char*>(parameters[i]);
        if (!value) return CUDA_ERROR_INVALID_VALUE;
        launch->arguments.emplace_back(value, value + info.parameter_sizes[i]);
    }
    if (!stream->capture) counters.launches++;
    // The module stays loaded until its work is done, though it is unloaded before.
    return enqueue(stream_handle, *call.context, [launch, module] { return run(*launch); });
}
