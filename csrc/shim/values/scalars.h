// PyTorch's element types, and numbers read from and written to memory in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ph {

enum class Scalar : std::uint8_t {
  None,
  Bool,
  Uint8,
  Int8,
  Int16,
  Uint16,
  Int32,
  Uint32,
  Int64,
  Uint64,
  Half,
  BFloat16,
  Float8E4M3,
  Float8E5M2,
  Float32,
  Float64,
};

// By the demangled C++ name; None: not one of these.
Scalar scalar_named(std::string_view name) noexcept;
// By c10::ScalarType's number. Source: c10/core/ScalarType.h.
Scalar scalar_numbered(std::int8_t number) noexcept;
std::size_t size_of(Scalar type) noexcept;  // 0 for None
bool is_integral(Scalar type) noexcept;     // Bool included
// What PyTorch computes in (at::opmath_type): float for the types narrower than it.
Scalar computed_in(Scalar type) noexcept;

// A whole number or a real one. 64-bit unsigned numbers keep their bits.
struct Number {
  bool integral = true;
  std::int64_t integer = 0;
  double real = 0;
  bool defined = true;  // what is not (7 / 0, an integer of a NaN) differs from one kind of GPU or CPU to another

  double as_real() const noexcept { return integral ? static_cast<double>(integer) : real; }
  std::int64_t as_integer() const noexcept;  // truncates
  bool is_true() const noexcept { return integral ? integer != 0 : real != 0; }
};

inline Number whole(std::int64_t value) noexcept { return {true, value, 0}; }
inline Number real(double value) noexcept { return {false, 0, value}; }
inline Number undefined() noexcept { return {true, 0, 0, false}; }

Number load(Scalar type, const void* from) noexcept;
void store(Scalar type, void* to, const Number& number) noexcept;
// As if stored and loaded again; undefined where a real number lies beyond the integers of the type.
Number converted(Scalar type, const Number& number) noexcept;

}  // namespace ph
