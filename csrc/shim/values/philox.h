// The random numbers of PyTorch's CUDA kernels: Philox4x32-10, as cuRAND's device functions give it to threads.
//
// Sources: Salmon and others, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011); cuRAND's manual, "curand_init" of
// curandStatePhilox4_32_10_t. A thread's numbers are words: word w is the (w % 4)th of the generator's (w / 4)th call.
#pragma once

#include <array>
#include <cstdint>

namespace ph {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

// Which words the elements of a kernel take.
struct RandomLayout {
  std::uint64_t threads;  // of the launch
  std::uint64_t together;  // elements next to each other that a thread fills at once
  std::uint64_t words_per_round;  // that it takes for these
  bool is_wide;  // an element takes two words, the first one on top
};

// The number of one element. `offset`: of the generator before the launch, a multiple of four.
std::uint64_t random_number(std::uint64_t seed, std::uint64_t offset, const RandomLayout& layout,
                            std::uint64_t element) noexcept;

}  // namespace ph
