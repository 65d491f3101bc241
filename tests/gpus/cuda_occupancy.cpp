// Reads "major minor regs_per_sm shared_per_sm shared_per_block_optin threads_per_sm registers shared warps" a line,
// writes "regs_limit shared_limit warps_limit blocks_limit programs" a line, as cuda_occupancy.h has them.
#include <climits>
#include <cstdio>
#include "cuda_occupancy.h"

int main() {
    int major, minor, regs, shared, optin, threads, registers, bytes, warps;
    while (std::scanf("%d %d %d %d %d %d %d %d %d", &major, &minor, &regs, &shared, &optin, &threads, &registers,
                      &bytes, &warps) == 9) {
        cudaOccDeviceProp device;
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = threads;
        device.regsPerBlock = 65536;
        device.regsPerMultiprocessor = regs;
        device.warpSize = 32;
        device.sharedMemPerBlock = 49152;
        device.sharedMemPerMultiprocessor = shared;
        device.numSms = 1;
        device.sharedMemPerBlockOptin = optin;
        device.reservedSharedMemPerBlock = 1024;
        cudaOccFuncAttributes function;
        function.maxThreadsPerBlock = INT_MAX;
        function.numRegs = registers;
        function.sharedSizeBytes = 0;
        function.partitionedGCConfig = PARTITIONED_GC_OFF;
        function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;  // what Triton asks the driver for
        function.maxDynamicSharedSizeBytes = optin;
        function.numBlockBarriers = 1;
        cudaOccDeviceState state;
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult result;
        cudaOccError error =
            cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, warps * 32, bytes);
        if (error != CUDA_OCC_SUCCESS) {
            std::printf("error %d\n", (int)error);
            return 1;
        }
        std::printf("%d %d %d %d %d\n", result.blockLimitRegs, result.blockLimitSharedMem, result.blockLimitWarps,
                    result.blockLimitBlocks, result.activeBlocksPerMultiprocessor);
    }
    return 0;
}
