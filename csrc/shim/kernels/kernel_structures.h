// Sizes inside structures that kernels take by value, for the few families whose duration depends on them.
//
// Layouts are facts of PyTorch's, FlashAttention's and CUTLASS' headers (named at each reader). They are not part
// of any promise, so every reader checks what it read against the launch and says kUnknownSize when it disagrees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ph {

inline constexpr std::int64_t kUnknownSize = -1;

struct LaunchShape {
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t shared_bytes;
};

struct SizeReader {
  enum class Kind : std::uint8_t {
    Reduction,          // at::native::ReduceOp
    CompiledReduction,  // ReduceJitOp, which a kernel has that PyTorch compiles at run time (kernel_compiled.h)
    LoadCast,           // at::native::memory::LoadWithCast<n>
    StoreCast,          // at::native::memory::StoreWithCast<n>
    TensorList,         // TensorListMetadata<n> and its two relatives of multi_tensor_apply
    Addresses,          // TensorListAddresses: one scalar per block
    Concatenation,      // CatArrInputTensorMetadata
    Segments,           // at::native::offset_t, where rows that are sorted begin
    Flash,              // Flash_fwd_params, Flash_bwd_params
    EfficientForward,   // PyTorchMemEffAttention::AttentionKernel<...>::Params
    EfficientBackward,  // PyTorchMemEffAttention::AttentionBackwardKernel<...>::Params
    Weights,            // tensors of FBGEMM's lookups (kernel_lookups.h), at::GenericPackedTensorAccessor
    Lookups,
    Bags,
    Results,
    OneInput,  // OffsetCalculator of a strided elementwise kernel: an output and so many inputs
    TwoInputs,
    ThreeInputs,
    Planes,    // images and channels of the first tensor of a kernel that resizes
    Operands,  // std::array<char*, n> of an elementwise kernel whose tensors are contiguous: an output and inputs
    Tensor,    // at::GenericPackedTensorAccessor, at::cuda::detail::TensorInfo (count 0: it has its dimensions)
  };
  Kind kind;
  std::uint16_t parameter;
  std::uint32_t count = 0;        // n of the template, rows of a block of queries, or dimensions
  std::uint32_t width_bytes = 0;  // of an index, or of a scalar per tensor
  std::uint32_t element_bytes = 0;  // of a tensor; CompiledReduction: where narrower than what is added up, else 0
  bool with_scalars = false;      // TensorList: one scalar per tensor
  bool large_list = true;         // TensorList: 32 KB of kernel arguments, not 4
};

// Whether a reader's structure lists tensors (listed_tensors below).
inline bool lists_tensors(SizeReader::Kind kind) noexcept {
  return kind == SizeReader::Kind::TensorList || kind == SizeReader::Kind::Addresses ||
         kind == SizeReader::Kind::Concatenation;
}

// The readers that parameter `index` of type `type` (demangled) needs; none for most types.
std::vector<SizeReader> plan_structure(std::string_view type, std::uint16_t index, bool large_lists);

// The readers of the tensors that a kernel of PyTorch's gets with their sizes, by its demangled name.
std::vector<SizeReader> plan_tensors(std::string_view name, std::span<const std::string> types);

// The reader of a strided kernel's closure, parameter 1, that has so many operands.
std::optional<SizeReader> plan_strided(std::size_t operands) noexcept;

// Names of a reader's sizes in the signature, in the order in which read_sizes writes them. Of those of one name the
// signature has the sum.
std::span<const std::string_view> size_names(SizeReader::Kind kind) noexcept;

// The tensors of all lists that the launch works on, outputs and inputs; none for another kind of reader, and where the
// structure disagrees with the launch.
std::vector<const void*> listed_tensors(const SizeReader& reader, const LaunchShape& shape, const void* argument);

// Writes size_names(reader.kind).size() values.
void read_sizes(const SizeReader& reader, const LaunchShape& shape, const void* argument, std::int64_t* out) noexcept;

}  // namespace ph
