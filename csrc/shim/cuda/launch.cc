// Launches of loaded functions, and occupancy.
#include <algorithm>

#include "shim/cuda/modules.h"

using namespace ph;
using namespace ph::driver;

namespace {

// Arguments given as one packed buffer.
void find_packed(void** extra, LaunchForm& form) noexcept {
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) form.packed = extra[1];
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) form.packed_bytes = *static_cast<const std::size_t*>(extra[1]);
  }
}

LaunchForm form_of(const CUlaunchConfig& configuration) noexcept {
  return ph::form_of(std::span<const CUlaunchAttribute>(configuration.attrs, configuration.numAttrs),
                     CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &CUlaunchAttribute::value);
}

bool shape_fits(const Function& function, const LaunchShape& shape) noexcept {
  const std::uint64_t threads = std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  const std::uint64_t blocks = std::uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const std::uint64_t shared = shape.shared_bytes + function.facts.static_shared_bytes;
  return threads > 0 && blocks > 0 &&
         threads <= static_cast<std::uint64_t>(config().number("gpu.maxThreadsPerBlock")) &&
         shared <= static_cast<std::uint64_t>(config().number("gpu.sharedMemPerBlockOptin"));
}

CUresult launch(CUfunction function, const LaunchShape& shape, CUstream handle, void** parameters, void** extra,
                const LaunchForm& form = {}) noexcept {
  PH_RESOLVE_STREAM(stream, handle);
  return launch_on(stream, function, shape, parameters, extra, form);
}

CUresult active_blocks(int* blocks, CUfunction handle, int block_threads, std::size_t shared_bytes) noexcept {
  const Function* function = find_function(handle);
  if (!blocks || block_threads < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = max_active_blocks(block_threads, shared_bytes + function->facts.static_shared_bytes);
  return CUDA_SUCCESS;
}

}  // namespace

namespace ph::driver {

CUresult launch_on(StreamRef stream, CUfunction handle, const LaunchShape& shape, void** parameters, void** extra,
                   LaunchForm form) noexcept {
  const Function* function = find_function(handle);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (!shape_fits(*function, shape)) return CUDA_ERROR_INVALID_VALUE;
  find_packed(extra, form);
  launch_kernel(*function->kernel, shape, parameters, stream, form);
  return CUDA_SUCCESS;
}

}  // namespace ph::driver

extern "C" {

PH_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                  CUstream stream, void** parameters, void** extra) noexcept {
  PH_CALL(cuLaunchKernel, HostCost::Launch);
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch(function, shape, stream, parameters, extra);
}

PH_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                             unsigned block_x, unsigned block_y, unsigned block_z,
                                             unsigned shared_bytes, CUstream stream, void** parameters) noexcept {
  PH_CALL(cuLaunchCooperativeKernel, HostCost::Launch);
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch(function, shape, stream, parameters, nullptr, {.cooperative = true});
}

// Launch attributes (clusters, programmatic dependence, priority) do not reach the record; clusters reach the executor.
PH_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* of, CUfunction function, void** parameters,
                                    void** extra) noexcept {
  PH_CALL(cuLaunchKernelEx, HostCost::Launch);
  if (!of) return CUDA_ERROR_INVALID_VALUE;
  const LaunchShape shape{
      {of->gridDimX, of->gridDimY, of->gridDimZ}, {of->blockDimX, of->blockDimY, of->blockDimZ}, of->sharedMemBytes};
  return launch(function, shape, of->hStream, parameters, extra, form_of(*of));
}

PH_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block_threads,
                                                               size_t shared_bytes) noexcept {
  PH_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  return active_blocks(blocks, function, block_threads, shared_bytes);
}

PH_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                                        int block_threads, size_t shared_bytes,
                                                                        unsigned) noexcept {
  PH_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
  return active_blocks(blocks, function, block_threads, shared_bytes);
}

// As many clusters as the blocks that fit the whole GPU make; that a cluster must sit in one GPC is left out.
PH_EXPORT CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* of) noexcept {
  PH_CALL(cuOccupancyMaxActiveClusters);
  if (!clusters || !of) return CUDA_ERROR_INVALID_VALUE;
  int blocks = 0;
  const auto threads = static_cast<int>(of->blockDimX * of->blockDimY * of->blockDimZ);
  const CUresult result = active_blocks(&blocks, function, threads, of->sharedMemBytes);
  if (result != CUDA_SUCCESS) return result;
  unsigned cluster_blocks = 1;
  for (unsigned i = 0; i < of->numAttrs; ++i) {
    if (of->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& dimension = of->attrs[i].value.clusterDim;
    cluster_blocks = std::max(1u, dimension.x * dimension.y * dimension.z);
  }
  *clusters = blocks * static_cast<int>(config().number("gpu.multiProcessorCount")) / static_cast<int>(cluster_blocks);
  return CUDA_SUCCESS;
}

// The largest block of whole warps with which the most threads are resident.
PH_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                    CUoccupancyB2DSize shared_of_block, size_t shared_bytes,
                                                    int limit) noexcept {
  PH_CALL(cuOccupancyMaxPotentialBlockSize);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  const auto largest = static_cast<int>(config().number("gpu.maxThreadsPerBlock"));
  int best_threads = -1;
  for (int threads = limit > 0 ? std::min(limit, largest) : largest; threads >= 32; threads -= 32) {
    int blocks = 0;
    const std::size_t dynamic = shared_of_block ? shared_of_block(threads) : shared_bytes;
    const CUresult result = active_blocks(&blocks, function, threads, dynamic);
    if (result != CUDA_SUCCESS) return result;
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * static_cast<int>(config().number("gpu.multiProcessorCount"));
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
