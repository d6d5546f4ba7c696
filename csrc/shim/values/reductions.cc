#include "shim/values/reductions.h"

#include <cstring>
#include <type_traits>
#include <vector>

#include "shim/core/failure.h"
#include "shim/values/small_float.h"

namespace ph {

namespace {

template <class T>
struct Tag {
  using Type = T;
};

// Calls visit(Tag<T>) with the C++ type of the elements.
template <class Visit>
auto with_type(ElementType type, Visit&& visit) {
  switch (type) {
    case ElementType::Int8: return visit(Tag<std::int8_t>{});
    case ElementType::Uint8: return visit(Tag<std::uint8_t>{});
    case ElementType::Int32: return visit(Tag<std::int32_t>{});
    case ElementType::Uint32: return visit(Tag<std::uint32_t>{});
    case ElementType::Int64: return visit(Tag<std::int64_t>{});
    case ElementType::Uint64: return visit(Tag<std::uint64_t>{});
    case ElementType::Float16: return visit(Tag<Half>{});
    case ElementType::Float32: return visit(Tag<float>{});
    case ElementType::Float64: return visit(Tag<double>{});
    case ElementType::BFloat16: return visit(Tag<BFloat16>{});
    case ElementType::Float8E4M3: return visit(Tag<Float8E4M3>{});
    case ElementType::Float8E5M2: return visit(Tag<Float8E5M2>{});
    case ElementType::kCount: break;
  }
  fail_internal("values: no such element type");
}

// What a type computes in: itself for C++'s arithmetic types, float for the small ones.
template <class T>
using Computed = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <class T>
Computed<T> load(const unsigned char* bytes, std::size_t index) noexcept {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return static_cast<Computed<T>>(value);
}

template <class T>
void store(unsigned char* bytes, std::size_t index, Computed<T> computed) noexcept {
  const T value = static_cast<T>(computed);
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

// Signed overflow is undefined in C++ and wraps on the GPU.
template <class C, class Combine>
C wrapping(C a, C b, Combine combine) noexcept {
  if constexpr (std::is_integral_v<C>) {
    using Unsigned = std::make_unsigned_t<C>;
    return static_cast<C>(combine(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return combine(a, b);
  }
}

template <class C>
C combine(ReductionKind kind, C a, C b) noexcept {
  switch (kind) {
    case ReductionKind::Product: return wrapping(a, b, [](auto x, auto y) { return x * y; });
    case ReductionKind::Max: return b > a ? b : a;
    case ReductionKind::Min: return b < a ? b : a;
    default: return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
}

}  // namespace

std::size_t element_bytes(ElementType type) noexcept {
  return with_type(type, [](auto tag) { return sizeof(typename decltype(tag)::Type); });
}

Bytes reduce(ReductionKind kind, ElementType type, std::span<const Bytes> contributions) {
  return with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Computed<T>;
    Bytes result(contributions.front().size());
    for (std::size_t i = 0; i < result.size() / sizeof(T); ++i) {
      C value = load<T>(contributions.front().data(), i);
      for (const Bytes& other : contributions.subspan(1)) value = combine(kind, value, load<T>(other.data(), i));
      if (kind == ReductionKind::Average) value = static_cast<C>(value / static_cast<C>(contributions.size()));
      store<T>(result.data(), i, value);
    }
    return result;
  });
}

void scale(ElementType type, Bytes& values, const unsigned char* factor) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto by = load<T>(factor, 0);
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) {
      store<T>(values.data(), i, combine(ReductionKind::Product, load<T>(values.data(), i), by));
    }
  });
}

}  // namespace ph
