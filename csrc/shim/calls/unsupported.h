// What a call does that is not modelled, as the user chose: docs/decisions/unsupported-calls.md.
#pragma once

#include <string_view>

#include "shim/core/api.h"

namespace ph {

// How each library says that it cannot do what it was asked. Sources: the vendors' headers (CUDA 12 and 13).
// Three have no such code: NCCL gets the one of calls that the present setting does not allow, the compilers theirs
// of a failure inside.
constexpr int not_supported_code(std::string_view library) noexcept {
  if (library == "cuda" || library == "cudart") return 801;  // CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported
  if (library == "cublas" || library == "cublasLt") return 15;  // CUBLAS_STATUS_NOT_SUPPORTED
  if (library == "cudnn") return 3000;  // CUDNN_STATUS_NOT_SUPPORTED
  if (library == "cufft") return 16;  // CUFFT_NOT_SUPPORTED
  if (library == "cupti") return 27;  // CUPTI_ERROR_NOT_SUPPORTED
  if (library == "cusolver") return 9;  // CUSOLVER_STATUS_NOT_SUPPORTED
  if (library == "cusparse" || library == "cusparseLt") return 10;  // CUSPARSE_STATUS_NOT_SUPPORTED
  if (library == "nvml") return 3;  // NVML_ERROR_NOT_SUPPORTED
  if (library == "nccl") return 5;  // ncclInvalidUsage
  if (library == "nvrtc") return 11;  // NVRTC_ERROR_INTERNAL_ERROR
  if (library == "nvJitLink") return 6;  // NVJITLINK_ERROR_INTERNAL
  return 0;
}

struct UnsupportedCall {
  const char* library;
  const char* symbol;
  const char* detail;  // of a call that is modelled otherwise; may be empty
  bool is_harmless;  // success leaves everything as the program expects it, but for time
};

// The result that the program gets. With `stop` it ends the rank, and does so in a process that is no rank, in which
// nobody would count the call.
PH_EXPORT int answer_unsupported(const UnsupportedCall& call) noexcept;

// Of a call that can have no other answer, whatever the user chose. Ends the rank with exit code 3 after telling the server which symbol was called from which Python line.
[[noreturn]] PH_EXPORT void stop_unsupported(const char* library, const char* symbol, const char* detail) noexcept;

// At the end of a rank: how often each call was answered.
void emit_unsupported_counts();

}  // namespace ph
