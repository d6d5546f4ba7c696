// Threads of a rank that launch side by side, as those of `nn.DataParallel` do. Which of them comes first depends on the
// machine, so that equal runs may differ: the run is told, once.
#pragma once

namespace ph {

// At each launch of a driver.
void watch_turns() noexcept;

}  // namespace ph
