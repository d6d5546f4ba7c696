// Floating-point formats that C++ has no type for: half, bfloat16 and the two 8-bit formats.
//
// Encoding rounds to nearest, ties to even. Source of the 8-bit formats: "FP8 Formats for Deep Learning"
// (arXiv 2209.05433); their conversions saturate, as CUDA's default (__NV_SATFINITE) does, or not, as PyTorch's
// (c10/util/Float8_e4m3fn.h, Float8_e5m2.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ph {

// `Stored`: the unsigned integer that holds it. `kInfinities`: the top exponent is kept for infinities and NaNs;
// without them only the all-ones pattern is a NaN.
template <class Stored, int kExponentBits, int kMantissaBits, bool kInfinities, bool kSaturates>
struct SmallFloat {
  Stored bits;

  SmallFloat() = default;
  explicit SmallFloat(float value) noexcept : bits(encode(value)) {}
  explicit operator float() const noexcept { return decode(bits); }

 private:
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr unsigned kTopField = (1u << kExponentBits) - 1;
  static constexpr unsigned kMantissaMask = (1u << kMantissaBits) - 1;
  static constexpr unsigned kSign = 1u << (kExponentBits + kMantissaBits);
  static constexpr unsigned kInfinity = kTopField << kMantissaBits;
  static constexpr unsigned kNan = kSign - 1;
  static constexpr unsigned kLargest = (kInfinities ? kInfinity : kNan) - 1;

  static float decode(unsigned bits) noexcept {
    const unsigned field = bits >> kMantissaBits & kTopField;
    const unsigned mantissa = bits & kMantissaMask;
    float magnitude;
    if (kInfinities && field == kTopField) {
      magnitude = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    } else if (!kInfinities && (bits & ~kSign) == kNan) {
      magnitude = std::numeric_limits<float>::quiet_NaN();
    } else if (field == 0) {
      magnitude = std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
    } else {
      const int exponent = static_cast<int>(field) - kBias - kMantissaBits;
      magnitude = std::ldexp(static_cast<float>(mantissa | (kMantissaMask + 1)), exponent);
    }
    return bits & kSign ? -magnitude : magnitude;
  }

  static Stored encode(float value) noexcept {
    const unsigned sign = std::signbit(value) ? kSign : 0;
    if (std::isnan(value)) return static_cast<Stored>(sign | kNan);
    return static_cast<Stored>(sign | encode_magnitude(std::fabs(static_cast<double>(value))));
  }

  static unsigned encode_magnitude(double magnitude) noexcept {
    constexpr unsigned overflow = kSaturates ? kLargest : kInfinities ? kInfinity : kNan;
    if (std::isinf(magnitude)) return overflow;
    if (magnitude == 0) return 0;
    int exponent = std::max(std::ilogb(magnitude), 1 - kBias);
    // Quanta of the last mantissa bit; a carry out of the mantissa moves into the exponent field by itself.
    const auto quanta = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent)));
    const int field = exponent + kBias - 1;  // less the leading bit, which `quanta` holds
    const unsigned bits = (static_cast<unsigned>(field) << kMantissaBits) + quanta;
    return bits > kLargest ? overflow : bits;
  }
};

using Half = SmallFloat<std::uint16_t, 5, 10, true, false>;
using BFloat16 = SmallFloat<std::uint16_t, 8, 7, true, false>;
// As NCCL and libraries convert to them, and as PyTorch does.
using Float8E4M3 = SmallFloat<std::uint8_t, 4, 3, false, true>;
using Float8E5M2 = SmallFloat<std::uint8_t, 5, 2, true, true>;
using UnsaturatedE4M3 = SmallFloat<std::uint8_t, 4, 3, false, false>;
using UnsaturatedE5M2 = SmallFloat<std::uint8_t, 5, 2, true, false>;

}  // namespace ph
