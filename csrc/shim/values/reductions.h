// Reductions of small collectives, on the CPU.
//
// Contributions are combined in communicator order, once, so every rank gets the same bits. Integers wrap.
// Types narrower than float accumulate in float and are rounded once at the end; NCCL rounds at each of its steps,
// whose order depends on the algorithm, so the last bit of a sum may differ from a real run's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shim/values/exchange.h"

namespace ph {

// Numbered as ncclDataType_t.
enum class ElementType : std::uint8_t {
  Int8,
  Uint8,
  Int32,
  Uint32,
  Int64,
  Uint64,
  Float16,
  Float32,
  Float64,
  BFloat16,
  Float8E4M3,
  Float8E5M2,
  kCount,
};

// Numbered as ncclRedOp_t; PremulSum as kPremulSum of the records.
enum class ReductionKind : std::uint8_t { Sum, Product, Max, Min, Average, PremulSum };

PH_EXPORT std::size_t element_bytes(ElementType type) noexcept;
inline bool is_integral(ElementType type) noexcept { return type <= ElementType::Uint64; }

// Contributions have equal size. PremulSum sums: each rank has scaled its own contribution before.
// Average divides the sum once; of integers it keeps the quotient towards zero, as NCCL does.
Bytes reduce(ReductionKind kind, ElementType type, std::span<const Bytes> contributions);
// Multiplies each element by the one at `factor`.
void scale(ElementType type, Bytes& values, const unsigned char* factor);

}  // namespace ph
