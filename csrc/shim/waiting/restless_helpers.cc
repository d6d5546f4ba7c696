#include "shim/waiting/restless_helpers.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include "shim/waiting/event_progress.h"

namespace ph {

namespace {

// Waits that restless helpers keep, all of the rank together.
std::atomic<std::uint32_t> kept_waits{0};

// A helper that does nothing but ask while its rank's clock stands (PyTorch's watchdog up to 2.8, when its process group
// is destroyed) would be taken for one at work, and hold up what it asks for. So it waits for that, up to `kRest` at each
// question, and goes on waiting for it when it asks after something else: the simulation must not pass it in between,
// and who asks after the same few things in turn has nothing more to tell, so that the rank is found still.
class Restlessness {
 public:
  Restlessness() = default;
  Restlessness(const Restlessness&) = delete;
  Restlessness& operator=(const Restlessness&) = delete;
  ~Restlessness() noexcept {
    while (attached() && !kept_.empty()) give_up_oldest();
  }

  bool rests() const noexcept { return asked_ > kMostAsked; }
  // "Not ready" was the answer.
  void note() noexcept {
    const Nanoseconds now_ns = host_clock_ns();
    if (std::exchange(clock_ns_, now_ns) != now_ns) asked_ = 0;
    if (!rests()) ++asked_;
  }
  // `wait`: for what the question is about.
  ReplyStatus rest(const Record& wait) noexcept {
    keep(wait);
    std::vector<std::uint32_t> slots;
    for (const Kept& one : kept_) slots.push_back(one.slot);
    await_any_reply(slots, kRest);
    const ReplyStatus status = take_replies(wait);
    while (!kept_.empty() && kept_waits.load() > kMostKept) give_up_oldest();
    return status;
  }

 private:
  struct Kept {
    Record wait;
    std::uint32_t slot;
  };

  static constexpr std::uint32_t kMostAsked = 10'000;  // a watchdog that sleeps between its rounds asks less (assumed)
  static constexpr timespec kRest{0, 100'000'000};  // as PyTorch's between its rounds (ProcessGroupNCCL.hpp)
  static constexpr std::uint32_t kMostKept = kReplySlots / 2;  // the others are for whoever cannot go on without

  static bool are_same(const Record& one, const Record& other) noexcept {
    return one.id == other.id && one.device == other.device && one.stream == other.stream &&
           one.arg[EventWaitArg::Instance] == other.arg[EventWaitArg::Instance];
  }

  // As the last asked after.
  void keep(const Record& wait) {
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return are_same(one.wait, wait); });
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());
      return;
    }
    kept_.push_back({wait, begin_wait(wait)});
    ++kept_waits;
  }

  // All that have come; tells the one to `wait`.
  ReplyStatus take_replies(const Record& wait) {
    ReplyStatus status = ReplyStatus::NotReady;
    std::erase_if(kept_, [&](const Kept& one) {
      Reply reply;
      if (!take_reply(one.slot, reply)) return false;
      --kept_waits;
      learn_events({reply.payload, reply.payload_bytes});
      if (are_same(one.wait, wait)) status = reply.status;
      return true;
    });
    return status;
  }

  void give_up_oldest() {
    withdraw_wait(kept_.front().slot);
    kept_.erase(kept_.begin());
    --kept_waits;
  }

  std::uint32_t asked_ = 0;
  Nanoseconds clock_ns_ = 0;
  std::vector<Kept> kept_;  // as they were asked after
};
thread_local Restlessness helper;

}  // namespace

bool is_restless() noexcept { return attached() && !is_driver() && helper.rests(); }
void note_not_ready() noexcept { helper.note(); }
ReplyStatus rest_for(const Record& wait) noexcept { return helper.rest(wait); }

}  // namespace ph
