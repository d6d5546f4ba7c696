// Fourier transforms: plans, and a record for each execution. Results are not computed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "shim/calls/library.h"
#include "shim/core/device.h"
#include "shim/cufft/cufft_types.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using namespace ph;

namespace {

struct Plan {
  cudaStream_t stream = nullptr;
  std::int64_t elements = 0;  // of one transform, in the domain that is not halved; 0: not made yet
  std::int64_t batch = 0;
  std::int64_t passes = 0;  // over the data
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
  const char* operation = "";
  const char* type = "";
};

std::mutex mutex;
auto& plans = *new std::unordered_map<cufftHandle, Plan>;
cufftHandle last_plan = 0;

struct Number {
  std::size_t bytes;
  bool is_complex;
  const char* precision;
};

bool read_type(cudaDataType type, Number& number) noexcept {
  switch (type) {
    case CUDA_R_16F: number = {2, false, "f16"}; return true;
    case CUDA_C_16F: number = {4, true, "f16"}; return true;
    case CUDA_R_16BF: number = {2, false, "bf16"}; return true;
    case CUDA_C_16BF: number = {4, true, "bf16"}; return true;
    case CUDA_R_32F: number = {4, false, "f32"}; return true;
    case CUDA_C_32F: number = {8, true, "f32"}; return true;
    case CUDA_R_64F: number = {8, false, "f64"}; return true;
    case CUDA_C_64F: number = {16, true, "f64"}; return true;
    default: return false;
  }
}

// A dimension of up to so many elements fits the shared memory of a multiprocessor, and takes one pass (assumed).
constexpr std::int64_t kElementsInOnePass = 8192;

std::size_t operand_bytes(const Number& number, const Number& other, std::int64_t elements, std::int64_t last,
                          std::int64_t batch) noexcept {
  // Where the other side is real, half of the last dimension is enough.
  const std::int64_t kept = number.is_complex && !other.is_complex ? elements / last * (last / 2 + 1) : elements;
  return number.bytes * static_cast<std::size_t>(kept * batch);
}

}  // namespace

extern "C" {

PH_EXPORT cufftResult cufftCreate(cufftHandle* handle) noexcept {
  PH_CALL(cufftCreate, HostCost::Setup);
  if (!handle) return CUFFT_INVALID_VALUE;
  ensure_context(current_device());
  const std::lock_guard lock(mutex);
  plans[*handle = ++last_plan] = {};
  return CUFFT_SUCCESS;
}

PH_EXPORT cufftResult cufftDestroy(cufftHandle handle) noexcept {
  PH_CALL(cufftDestroy, HostCost::Setup);
  const std::lock_guard lock(mutex);
  return plans.erase(handle) != 0 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

PH_EXPORT cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) noexcept {
  PH_CALL(cufftSetStream);
  const std::lock_guard lock(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end()) return CUFFT_INVALID_PLAN;
  plan->second.stream = stream;
  return CUFFT_SUCCESS;
}

// Who allocates the workspace makes no difference to us: PyTorch always does.
PH_EXPORT cufftResult cufftSetAutoAllocation(cufftHandle handle, int) noexcept {
  PH_CALL(cufftSetAutoAllocation);
  const std::lock_guard lock(mutex);
  return plans.contains(handle) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

PH_EXPORT cufftResult cufftSetWorkArea(cufftHandle handle, void*) noexcept {
  PH_CALL(cufftSetWorkArea);
  const std::lock_guard lock(mutex);
  return plans.contains(handle) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

PH_EXPORT cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long* n, long long*, long long, long long,
                                          cudaDataType input_type, long long*, long long, long long,
                                          cudaDataType output_type, long long batch, std::size_t* workspace_bytes,
                                          cudaDataType) noexcept {
  PH_CALL(cufftXtMakePlanMany, HostCost::Setup);
  const std::lock_guard lock(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end() || plan->second.elements != 0) return CUFFT_INVALID_PLAN;
  Number input{}, output{};
  if (!read_type(input_type, input) || !read_type(output_type, output)) return CUFFT_INVALID_TYPE;
  if (!input.is_complex && !output.is_complex) return CUFFT_INVALID_TYPE;
  if (!n || !workspace_bytes || batch < 1) return CUFFT_INVALID_VALUE;
  if (rank < 1 || rank > 3) return CUFFT_INVALID_SIZE;
  Plan made{.stream = plan->second.stream, .elements = 1, .batch = batch};
  for (int i = 0; i < rank; ++i) {
    if (n[i] < 1) return CUFFT_INVALID_SIZE;
    made.elements *= n[i];
    made.passes += n[i] <= kElementsInOnePass ? 1 : 2;
  }
  made.input_bytes = operand_bytes(input, output, made.elements, n[rank - 1], batch);
  made.output_bytes = operand_bytes(output, input, made.elements, n[rank - 1], batch);
  made.operation = !input.is_complex ? "r2c" : output.is_complex ? "c2c" : "c2r";
  made.type = input.precision;
  plan->second = made;
  // Assumed: nothing where one pass is enough, otherwise room for the data between passes.
  *workspace_bytes = made.passes > 1 ? std::max(made.input_bytes, made.output_bytes) : 0;
  return CUFFT_SUCCESS;
}

PH_EXPORT cufftResult cufftXtExec(cufftHandle handle, void* input, void* output, int) noexcept {
  PH_CALL(cufftXtExec, HostCost::Library);
  Plan plan;
  {
    const std::lock_guard lock(mutex);
    const auto found = plans.find(handle);
    if (found == plans.end() || found->second.elements == 0) return CUFFT_INVALID_PLAN;
    plan = found->second;
  }
  if (!input || !output) return CUFFT_INVALID_VALUE;
  const StreamRef stream = resolve_stream(plan.stream);
  if (!stream.valid) return CUFFT_EXEC_FAILED;
  // 5 n log2 n for complex numbers, half for real ones. Source: www.fftw.org/speed, as transforms are customarily counted.
  const auto elements = static_cast<double>(plan.elements);
  const double count = (plan.operation[0] == plan.operation[2] ? 5 : 2.5) * elements * std::log2(elements);
  const std::size_t bytes = static_cast<std::size_t>(plan.passes) * (plan.input_bytes + plan.output_bytes);
  emit_kernel(stream, payloads::FourierTransform{
                          .operation = plan.operation,
                          .type = plan.type,
                          .elements = plan.elements,
                          .batch = plan.batch,
                          .flops = static_cast<std::int64_t>(count * static_cast<double>(plan.batch)),
                          .bytes = static_cast<std::int64_t>(bytes),
                      });
  forget_reached({input, output});  // a transform to real numbers overwrites its input too
  return CUFFT_SUCCESS;
}

}  // extern "C"
