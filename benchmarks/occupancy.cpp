// What CUDA's own cuda_occupancy.h answers for every arch, whole, as tests/data/occupancy.csv has it:
//     g++ -I CUDA/include benchmarks/occupancy.cpp -o occupancy && ./occupancy > tests/data/occupancy.csv
// A line: archs that answer alike, limit, and the blocks of an SM by that limit of 1 to 32 warps, for each eight registers of a thread; of
// 1 to 16 barriers; or the most bytes of shared memory with which an SM holds 1, 2, 3 and more blocks. Of a device the
// header is told the threads and bytes that an SM has (CUDA programming guide, technical specifications).
#include <cuda_occupancy.h>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

struct Device { int arch, threads, kib, reserved; };  // threads 0: nobody states them
static const int MOST = 32;  // blocks of an SM
static const Device DEVICES[] = {
    {70, 2048, 96, 0}, {72, 2048, 96, 0}, {75, 1024, 64, 0}, {80, 2048, 164, 1}, {86, 1536, 100, 1},
    {87, 1536, 164, 1}, {88, 0, 100, 1}, {89, 1536, 100, 1}, {90, 2048, 228, 1}, {100, 2048, 228, 1},
    {103, 2048, 228, 1}, {107, 0, 228, 1}, {110, 1536, 228, 1}, {120, 1536, 100, 1}, {121, 1536, 100, 1}};

static cudaOccResult asked(const Device &device, int warps, int registers, int shared, int barriers) {
    cudaOccDeviceProp of;
    of.computeMajor = device.arch / 10, of.computeMinor = device.arch % 10;
    of.maxThreadsPerBlock = 1024, of.maxThreadsPerMultiprocessor = device.threads ? device.threads : 2048;
    of.regsPerBlock = of.regsPerMultiprocessor = 65536, of.warpSize = 32, of.numSms = 1;
    of.sharedMemPerBlock = 48 << 10, of.sharedMemPerMultiprocessor = device.kib << 10;
    of.reservedSharedMemPerBlock = device.reserved << 10;
    of.sharedMemPerBlockOptin = of.sharedMemPerMultiprocessor - of.reservedSharedMemPerBlock;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers, kernel.numBlockBarriers = barriers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, kernel.maxDynamicSharedSizeBytes = of.sharedMemPerBlockOptin;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult found;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &of, &kernel, &state, 32 * warps, shared)) throw device.arch;
    return found;
}

using Answers = std::pair<std::string, std::string>;  // of a limit
static std::vector<Answers> found_in_order;
static std::map<Answers, std::string> archs_of;

template <typename Answer> static void line(const Device &device, std::string limit, int most, Answer answer) {
    std::string numbers, name = "sm_" + std::to_string(device.arch);
    for (int j = 1; j <= most; j++) numbers += (j > 1 ? " " : "") + std::to_string(answer(j));
    Answers found(limit, numbers);
    if (archs_of.count(found)) archs_of[found] += " " + name;
    else found_in_order.push_back(found), archs_of[found] = name;
}

int main() {
    for (const Device &device : DEVICES) {
        for (int registers = 8; registers <= 256; registers += 8) {
            std::string name = "registers " + std::to_string(registers);
            line(device, name, 32, [&](int warps) { return asked(device, warps, registers, 0, 0).blockLimitRegs; });
        }
        if (device.threads)
            line(device, "threads", 32, [&](int warps) { return asked(device, warps, 8, 0, 0).blockLimitWarps; });
        line(device, "resident blocks", 1, [&](int) { return asked(device, 1, 8, 0, 0).blockLimitBlocks; });
        if (device.arch >= 90)
            line(device, "barriers", 16, [&](int used) { return asked(device, 1, 8, 0, used).blockLimitBarriers; });
        std::vector<int> most(MOST + 1);
        for (int bytes = 0; bytes <= device.kib << 10; bytes++) {
            int blocks = asked(device, 1, 8, bytes, 0).blockLimitSharedMem;
            for (int fewer = 1; fewer <= blocks && fewer <= MOST; fewer++) most[fewer] = bytes;
        }
        line(device, "shared memory", MOST, [&](int blocks) { return most[blocks]; });
    }
    std::printf("archs,limit,numbers\n");
    for (const Answers &found : found_in_order)
        std::printf("%s,%s,%s\n", archs_of[found].c_str(), found.first.c_str(), found.second.c_str());
}
