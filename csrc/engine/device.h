// What the work of one device competes for: its multiprocessors and its copy engines.
#pragma once

#include <deque>
#include <vector>

#include "engine/common.h"

namespace ph {

// Multiprocessors shared by the running kernels. All run at the same rate, min(1, available / sum of demands),
// so one number, the progress of a kernel that started when the device was last idle, stands for all of them.
//
// Accounting is in integers: progress has kFractionBits below the nanosecond and rounds down at each change of
// rate; a completion time rounds up to the next nanosecond. kForgiven is what a million such changes lose: work
// that ends with a nanosecond must not end one later because of them.
class ComputeShare {
 public:
  static constexpr std::uint32_t kUnits = 1'000'000;  // the demand that fills an idle device

  void start(Index item, Nanoseconds duration_ns, std::uint32_t demand, Nanoseconds now_ns);
  Index finish(Nanoseconds now_ns);  // the kernel that completes at next_ns()
  void set_available(std::uint32_t available, Nanoseconds now_ns);
  Nanoseconds next_ns() const { return next_ns_; }

 private:
  using Work = __int128;
  static constexpr int kFractionBits = 40;
  static constexpr Work kForgiven = Work{1} << 20;
  struct Running {
    Work target;  // progress at which it completes
    std::uint32_t demand;
    Index item;
  };

  void move_to(Nanoseconds now_ns);
  void schedule();

  std::vector<Running> running_;  // in order of start; few, so searched
  std::size_t earliest_ = 0;
  Work progress_ = 0;
  Nanoseconds at_ns_ = 0;  // when progress_ was true
  std::uint64_t demand_ = 0;
  std::uint64_t available_ = kUnits;
  Nanoseconds next_ns_ = kNever;
};

// One copy at a time, first come, first served.
struct CopyEngine {
  std::deque<Index> waiting;
  bool busy = false;
};

struct Device {
  ComputeShare compute;
  std::array<CopyEngine, 4> copy_engines;  // host to device, device to host, peer, host to host
  std::uint32_t active_launches = 0;       // NCCL launches that have arrived and not ended
};

// The engine a copy runs on; none for copies inside a device, which run as a kernel.
inline std::optional<std::uint8_t> copy_engine(CopyKind kind) {
  switch (kind) {
    case CopyKind::HostToDevice: return 0;
    case CopyKind::DeviceToHost: return 1;
    case CopyKind::PeerToPeer: return 2;
    case CopyKind::HostToHost: return 3;
    case CopyKind::DeviceToDevice: return std::nullopt;
  }
  throw BrokenInvariant("unknown kind of copy");
}

// What `launches` NCCL launches leave to kernels. The floor of a tenth is assumed: without it, a few launches
// that wait for late ranks would stop the device.
inline std::uint32_t available_compute(const Gpu& gpu, std::uint32_t launches) {
  const std::uint64_t taken = std::uint64_t{launches} * gpu.comm_sm * ComputeShare::kUnits / gpu.sm_count;
  constexpr std::uint64_t kMostTaken = ComputeShare::kUnits / 10 * 9;
  return ComputeShare::kUnits - static_cast<std::uint32_t>(taken < kMostTaken ? taken : kMostTaken);
}

}  // namespace ph
