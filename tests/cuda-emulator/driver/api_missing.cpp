// Functions that cudarc may call and the emulator does not have. cudarc looks a function up when it is first called,
// and says its name if there is none; these say it too if the caller only looks at the result.
#include "api.h"

using namespace emulator;

#define WISP_MISSING(NAME)                  \
    EXPORT CUresult NAME() {                \
        print(#NAME " is not implemented"); \
        return CUDA_ERROR_NOT_SUPPORTED;    \
    }

WISP_MISSING(cuCtxCreate_v2)
WISP_MISSING(cuCtxCreate_v3)
WISP_MISSING(cuCtxCreate_v4)
WISP_MISSING(cuCtxDestroy_v2)
WISP_MISSING(cuCtxGetCacheConfig)
WISP_MISSING(cuCtxGetLimit)
WISP_MISSING(cuCtxSetCacheConfig)
WISP_MISSING(cuCtxSetLimit)
WISP_MISSING(cuDestroyExternalMemory)
WISP_MISSING(cuDeviceSetMemPool)
WISP_MISSING(cuExternalMemoryGetMappedBuffer)
WISP_MISSING(cuFuncSetCacheConfig)
WISP_MISSING(cuGraphAddKernelNode_v2)
WISP_MISSING(cuGraphExecKernelNodeSetParams_v2)
WISP_MISSING(cuGraphExecUpdate_v2)
WISP_MISSING(cuImportExternalMemory)
WISP_MISSING(cuLaunchCooperativeKernel)
WISP_MISSING(cuLaunchKernelEx)
WISP_MISSING(cuMemAdvise_v2)
WISP_MISSING(cuMemAllocFromPoolAsync)
WISP_MISSING(cuMemAllocManaged)
WISP_MISSING(cuMemPoolCreate)
WISP_MISSING(cuMemPoolDestroy)
WISP_MISSING(cuMemPrefetchAsync_v2)
WISP_MISSING(cuMemcpyPeerAsync)
WISP_MISSING(cuModuleGetGlobal_v2)
WISP_MISSING(cuModuleLoad)
WISP_MISSING(cuOccupancyAvailableDynamicSMemPerBlock)
WISP_MISSING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
WISP_MISSING(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
WISP_MISSING(cuOccupancyMaxPotentialBlockSize)
WISP_MISSING(cuOccupancyMaxPotentialBlockSizeWithFlags)
WISP_MISSING(cuStreamAddCallback)
WISP_MISSING(cuStreamAttachMemAsync)
