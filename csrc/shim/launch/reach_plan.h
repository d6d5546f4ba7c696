// What a kernel's parameters say of the device memory that its launches may write.
//
// What a parameter's type proves is used: numbers are no pointers, what a pointer to const or a TensorInfo of const points
// to is only read, an elementwise kernel of PyTorch writes its first operands.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shim/kernels/kernel_structures.h"
#include "shim/launch/launch_keeper.h"

namespace ph {

struct ReachPlan {
  enum class How : std::uint8_t {
    Pointers,  // a pointer to pointers that are written through
    Written,  // begins with a pointer that is written through, and has no other
    Read,  // likewise, a pointer that is only read through
    Words,  // any word may be such a pointer
    Operands,  // pointers of an elementwise kernel, at `offset`: the first `outputs` of `count` are written through
    List,  // tensors of multi_tensor_apply
    Reduction,  // a ReduceOp, which tells where its results are; any other word may be a pointer, too
  };
  struct Parameter {
    std::uint16_t index = 0;
    How how = How::Words;
    std::uint16_t bytes = 0;  // 0: not known
    std::uint16_t offset = 0;
    std::uint16_t count = 0;
    std::uint16_t outputs = 0;
    SizeReader list{};
    bool has_tensors = false;  // a structure of which some words may never be set; its pointers are tensors'
  };
  std::vector<Parameter> parameters;  // but those that hold no pointer
  std::uint16_t count = 0;  // with these
  bool is_complete = false;  // false: not even their number is known
  bool is_pytorchs = false;  // keeps no address that it is given, and gets none in two halves
  std::vector<std::uint16_t> halves;  // parameters of 32 bits
};

// `large_lists`: as for plan_arguments.
ReachPlan plan_reach(std::string_view mangled, const KernelCode& code, bool large_lists);

// Operands of the closure of a strided elementwise kernel of PyTorch's, by its demangled name, the output among them; 0:
// not known.
std::uint16_t operands_of_closure(std::string_view name);

// The same of a kernel that looks elements up by an index, which is one of them.
std::uint16_t operands_of_indexing(std::string_view name);

// Whether a parameter may be looked at beyond its end. add_sizes mends that, with the sizes of all parameters in order.
bool lacks_sizes(const ReachPlan& plan) noexcept;
void add_sizes(const std::vector<std::uint16_t>& sizes, ReachPlan& plan);

}  // namespace ph
