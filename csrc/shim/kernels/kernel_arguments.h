// What a kernel's mangled name tells about its arguments: which of them are integers, and where known structures hold
// sizes. What it tells of memory that a launch may write is in reach_plan.h.
//
// A plan is made once per function; reading a launch's values with it is on the hot path. The plan reads only
// what the name proves: a type it does not know is left alone, and a size inside a structure is used only if
// the fields around it agree with the launch; otherwise its value is kUnknownSize and it stays out of the
// signature. Nothing here keeps state or calls into CUDA.
//
// Integers that would change from call to call (seeds, offsets, step counts) must not reach a signature.
// PyTorch passes its seeds and offsets in the structure PhiloxCudaState and its steps as device pointers or
// floating point, neither of which is read, so no kernel needs an exception today.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/payloads.h"
#include "shim/kernels/kernel_lookups.h"
#include "shim/kernels/kernel_structures.h"

namespace ph {

struct ArgumentPlan {
  struct Integer {
    std::uint16_t parameter;
    std::uint8_t bytes;
    bool is_signed;
  };
  std::vector<Integer> integers;
  std::vector<SizeReader> readers;
  std::optional<IndexVectors> indices = std::nullopt;
  std::uint16_t parameters = 0;
  bool understood = false;                      // false: the name could not be split, nothing may be read
};

// Limits: names that do not demangle, or whose parameter list is not balanced, give a plan that is not
// `understood` and reads nothing. A plain C name (extern "C") carries no types and is not understood either.
// `large_lists`: as the build of PyTorch has them (kernel_lists.cc).
ArgumentPlan plan_arguments(std::string_view mangled, bool large_lists);

// A function's name and the types of its parameters, as the demangler prints them. False: as above.
bool parameter_types(std::string_view mangled, std::string& name, std::vector<std::string>& types);

// Most values that `read_scalars` writes for this plan.
std::size_t value_count(const ArgumentPlan& plan) noexcept;

// Writes the integers in order, then the sizes of each reader, and returns how many were written. What follows, where there
// are indices, is how many different ones they are, which the caller finds.
std::size_t read_scalars(const ArgumentPlan& plan, const LaunchShape& shape, void* const* args, std::int64_t* out,
                         std::size_t capacity) noexcept;

// The signature. `values` is what read_scalars wrote.
payloads::Kernel describe_launch(std::string_view name, const LaunchShape& shape, const ArgumentPlan& plan,
                                 std::span<const std::int64_t> values);

}  // namespace ph
