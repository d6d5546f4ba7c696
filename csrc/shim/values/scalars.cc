#include "shim/values/scalars.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "shim/values/small_float.h"

namespace ph {

namespace {

constexpr std::pair<std::string_view, Scalar> kNames[] = {
    {"bool", Scalar::Bool},
    {"unsigned char", Scalar::Uint8},
    {"signed char", Scalar::Int8},
    {"short", Scalar::Int16},
    {"unsigned short", Scalar::Uint16},
    {"int", Scalar::Int32},
    {"unsigned int", Scalar::Uint32},
    {"long", Scalar::Int64},
    {"unsigned long", Scalar::Uint64},
    {"c10::Half", Scalar::Half},
    {"c10::BFloat16", Scalar::BFloat16},
    {"c10::Float8_e4m3fn", Scalar::Float8E4M3},
    {"float", Scalar::Float32},
    {"double", Scalar::Float64},
    {"c10::Float8_e5m2", Scalar::Float8E5M2},
};

template <class T>
struct Tag {
  using Type = T;
};

template <class Visit>
void with_type(Scalar type, Visit&& visit) noexcept {
  switch (type) {
    case Scalar::None: return;
    case Scalar::Bool: return visit(Tag<bool>{});
    case Scalar::Uint8: return visit(Tag<std::uint8_t>{});
    case Scalar::Int8: return visit(Tag<std::int8_t>{});
    case Scalar::Int16: return visit(Tag<std::int16_t>{});
    case Scalar::Uint16: return visit(Tag<std::uint16_t>{});
    case Scalar::Int32: return visit(Tag<std::int32_t>{});
    case Scalar::Uint32: return visit(Tag<std::uint32_t>{});
    case Scalar::Int64: return visit(Tag<std::int64_t>{});
    case Scalar::Uint64: return visit(Tag<std::uint64_t>{});
    case Scalar::Half: return visit(Tag<Half>{});
    case Scalar::BFloat16: return visit(Tag<BFloat16>{});
    case Scalar::Float8E4M3: return visit(Tag<UnsaturatedE4M3>{});
    case Scalar::Float8E5M2: return visit(Tag<UnsaturatedE5M2>{});
    case Scalar::Float32: return visit(Tag<float>{});
    case Scalar::Float64: return visit(Tag<double>{});
  }
}

template <class T>
T cast(const Number& number) noexcept {
  if constexpr (std::is_same_v<T, bool>) return number.is_true();
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(number.as_integer());
  else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(number.as_real());
  else return T(static_cast<float>(number.as_real()));
}

}  // namespace

std::int64_t Number::as_integer() const noexcept {
  if (integral) return integer;
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  // Out of range is undefined in C++: nobody asks for it (`converted`).
  if (!(real > -kLimit && real < kLimit)) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(real);
}

Scalar scalar_named(std::string_view name) noexcept {
  for (const auto& [known, type] : kNames) {
    if (known == name) return type;
  }
  return Scalar::None;
}

Scalar scalar_numbered(std::int8_t number) noexcept {
  switch (number) {
    case 0: return Scalar::Uint8;
    case 1: return Scalar::Int8;
    case 2: return Scalar::Int16;
    case 3: return Scalar::Int32;
    case 4: return Scalar::Int64;
    case 5: return Scalar::Half;
    case 6: return Scalar::Float32;
    case 7: return Scalar::Float64;
    case 11: return Scalar::Bool;
    case 15: return Scalar::BFloat16;
    case 23: return Scalar::Float8E5M2;
    case 24: return Scalar::Float8E4M3;
    case 27: return Scalar::Uint16;
    case 28: return Scalar::Uint32;
    case 29: return Scalar::Uint64;
    default: return Scalar::None;
  }
}

std::size_t size_of(Scalar type) noexcept {
  std::size_t size = 0;
  with_type(type, [&size](auto tag) { size = sizeof(typename decltype(tag)::Type); });
  return size;
}

bool is_integral(Scalar type) noexcept { return type >= Scalar::Bool && type <= Scalar::Uint64; }

Scalar computed_in(Scalar type) noexcept {
  return type >= Scalar::Half && type <= Scalar::Float8E5M2 ? Scalar::Float32 : type;
}

Number load(Scalar type, const void* from) noexcept {
  Number number;
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T> value;
    std::memcpy(&value, from, sizeof value);
    // A flag seen through another type may be any byte. Source: c10/util/Load.h.
    if constexpr (std::is_same_v<T, bool>) number = whole(value != 0);
    else if constexpr (std::is_integral_v<T>) number = whole(static_cast<std::int64_t>(value));
    else if constexpr (std::is_floating_point_v<T>) number = real(value);
    else number = real(static_cast<float>(value));
  });
  return number;
}

void store(Scalar type, void* to, const Number& number) noexcept {
  with_type(type, [&](auto tag) {
    const auto value = cast<typename decltype(tag)::Type>(number);
    std::memcpy(to, &value, sizeof value);
  });
}

namespace {

// PyTorch makes 8-bit unsigned integers of 64-bit ones. Source: c10/util/TypeCast.h.
bool holds(Scalar type, const Number& number) noexcept {
  if (number.integral || type == Scalar::Bool || !is_integral(type)) return true;
  bool fits = false;
  with_type(type == Scalar::Uint8 ? Scalar::Int64 : type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_integral_v<T>) {
      constexpr double kLimit = 9223372036854775808.0;  // 2^63
      const double least = static_cast<double>(std::numeric_limits<T>::min());
      const double beyond = std::min(kLimit, std::ldexp(1.0, std::numeric_limits<T>::digits));
      const double whole_part = std::trunc(number.real);
      fits = whole_part >= least && whole_part < beyond;  // no NaN does
    }
  });
  return fits;
}

}  // namespace

Number converted(Scalar type, const Number& number) noexcept {
  if (!number.defined || !holds(type, number)) return undefined();
  unsigned char bytes[8] = {};
  store(type, bytes, number);
  return load(type, bytes);
}

}  // namespace ph
