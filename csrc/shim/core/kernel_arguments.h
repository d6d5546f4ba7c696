// What a kernel's mangled name tells about its arguments: which of them are integers, which are pointers
// that it may write through, and where known structures hold sizes.
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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/core/kernel_structures.h"

namespace ph {

struct ArgumentPlan {
  struct Integer {
    std::uint16_t parameter;
    std::uint8_t bytes;
    bool is_signed;
  };
  // Consecutive pointers inside one argument (std::array<char*, n> of PyTorch's elementwise kernels; the first
  // ones are outputs).
  struct PointerArray {
    std::uint16_t parameter;
    std::uint16_t count;
  };

  // How far a kernel writes from its pointers.
  enum class Reach : std::uint8_t {
    Threads,   // not known: 8 bytes a thread
    Lists,     // the pointers stand beside lists of tensors: scalars
    Norms,     // likewise, but a partial norm per block
    Counted,   // as many elements as `counts` say
  };

  Reach reach = Reach::Threads;
  std::vector<std::uint8_t> counts;  // positions among `integers` whose product is the number of elements
  std::uint32_t element_bytes = 8;   // of Counted where it is an elementwise kernel, at the most
  std::vector<Integer> integers;
  std::vector<SizeReader> readers;
  std::vector<std::uint16_t> written_pointers;  // arguments of type T* with T not const
  std::vector<std::uint32_t> pointed_bytes;     // of their types
  std::vector<PointerArray> pointer_arrays;
  std::vector<std::uint16_t> structures;        // arguments by value whose layout is not known here
  std::uint16_t parameters = 0;
  bool understood = false;                      // false: the name could not be split, nothing may be read
};

// Limits: names that do not demangle, or whose parameter list is not balanced, give a plan that is not
// `understood` and reads nothing. A plain C name (extern "C") carries no types and is not understood either.
// `large_lists`: as the build of PyTorch has them (kernel_structures.cc).
ArgumentPlan plan_arguments(std::string_view mangled, bool large_lists);

// Most values that `read_scalars` writes for this plan.
std::size_t value_count(const ArgumentPlan& plan) noexcept;

// Writes the integers in order, then the sizes of each reader, and returns how many were written.
std::size_t read_scalars(const ArgumentPlan& plan, const LaunchShape& shape, void* const* args, std::int64_t* out,
                         std::size_t capacity) noexcept;

// The signature's JSON (docs/records.md). `values` is what read_scalars wrote.
std::string signature_json(std::string_view name, const LaunchShape& shape, const ArgumentPlan& plan,
                           std::span<const std::int64_t> values);

}  // namespace ph
