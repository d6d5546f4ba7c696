#include "engine/device.h"

namespace ph {

void ComputeShare::start(Index item, Nanoseconds duration_ns, std::uint32_t demand, Nanoseconds now_ns) {
  move_to(now_ns);
  running_.push_back({progress_ + (Work{duration_ns} << kFractionBits), demand, item});
  demand_ += demand;
  schedule();
}

Index ComputeShare::finish(Nanoseconds now_ns) {
  require(now_ns == next_ns_, "a kernel completes at another time than was said");
  move_to(now_ns);
  const Running done = running_[earliest_];
  require(done.target <= progress_ + kForgiven, "a kernel completes before its work is done");
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(earliest_));
  demand_ -= done.demand;
  schedule();
  return done.item;
}

void ComputeShare::set_available(std::uint32_t available, Nanoseconds now_ns) {
  move_to(now_ns);
  available_ = available;
  schedule();
}

void ComputeShare::move_to(Nanoseconds now_ns) {
  if (running_.empty()) {
    progress_ = 0;
  } else {
    const Work elapsed = Work{now_ns - at_ns_} << kFractionBits;
    progress_ += demand_ <= available_ ? elapsed : elapsed * available_ / demand_;
  }
  at_ns_ = now_ns;
}

void ComputeShare::schedule() {
  if (running_.empty()) {
    next_ns_ = kNever;
    return;
  }
  earliest_ = 0;
  for (std::size_t i = 1; i < running_.size(); ++i)
    if (running_[i].target < running_[earliest_].target) earliest_ = i;
  const Work left = running_[earliest_].target - progress_ - kForgiven;
  if (left <= 0) {  // rounding up let it run to the end of the nanosecond
    next_ns_ = at_ns_;
    return;
  }
  const Work rate = demand_ <= available_ ? 1 : available_;
  const Work share = demand_ <= available_ ? 1 : demand_;
  const Work divisor = rate << kFractionBits;
  next_ns_ = at_ns_ + static_cast<Nanoseconds>((left * share + divisor - 1) / divisor);
}

}  // namespace ph
