#include "shim/values/philox.h"

#include "shim/core/api.h"

namespace ph {
namespace {

constexpr int kRounds = 10;
constexpr std::array<std::uint32_t, 2> kMultipliers = {0xD2511F53, 0xCD9E8D57};
constexpr std::array<std::uint32_t, 2> kKeySteps = {0x9E3779B9, 0xBB67AE85};

std::uint32_t low(std::uint64_t number) noexcept { return static_cast<std::uint32_t>(number); }
std::uint32_t high(std::uint64_t number) noexcept { return static_cast<std::uint32_t>(number >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = std::uint64_t{kMultipliers[0]} * counter[0];
    const std::uint64_t second = std::uint64_t{kMultipliers[1]} * counter[2];
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)};
    key[0] += kKeySteps[0];
    key[1] += kKeySteps[1];
  }
  return counter;
}

std::uint64_t random_number(std::uint64_t seed, std::uint64_t offset, const RandomLayout& layout,
                            std::uint64_t element) noexcept {
  const std::uint64_t place = element / layout.together;
  const std::uint64_t thread = place % layout.threads;
  const std::uint64_t width = layout.is_wide ? 2 : 1;
  const std::uint64_t word = place / layout.threads * layout.words_per_round + element % layout.together * width;
  const std::uint64_t call = offset / 4 + word / 4;
  const auto words = philox({low(call), high(call), low(thread), high(thread)}, {low(seed), high(seed)});
  const std::uint64_t number = words[word % 4];
  return layout.is_wide ? number << 32 | words[word % 4 + 1] : number;
}

}  // namespace ph

// The numbers of `count` elements, each the rest of a division by `modulus` if that is not zero.
extern "C" PH_EXPORT void ph_random_numbers(std::uint64_t seed, std::uint64_t offset, std::uint64_t threads,
                                            std::uint64_t together, std::uint64_t words_per_round, int is_wide,
                                            std::uint64_t modulus, std::uint64_t count,
                                            std::uint64_t* numbers) noexcept {
  const ph::RandomLayout layout{threads, together, words_per_round, is_wide != 0};
  for (std::uint64_t element = 0; element < count; ++element) {
    const std::uint64_t number = ph::random_number(seed, offset, layout, element);
    numbers[element] = modulus ? number % modulus : number;
  }
}
