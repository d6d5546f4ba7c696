// The device engine: replays the records of all ranks on their devices, in one order, conservatively.
//
// It owns virtual time of hosts and devices. It does not know how long kernels or communication take (it is told),
// nor how records arrive and answers leave: the same records fed again give the same history.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/inbox.h"
#include "engine/rank.h"

namespace ph {

class Engine {
 public:
  explicit Engine(const Settings& settings);

  void set_gpu(std::uint32_t rank, const Gpu& gpu);  // before anything is fed
  std::vector<Announcement> feed(std::uint32_t rank, std::string_view cells, Nanoseconds host_clock_ns);
  void check_whole(std::uint32_t index) const { rank(index).check_whole(); }
  void set_duration(std::uint32_t rank, std::uint32_t signature, Nanoseconds duration_ns, double sm_demand,
                    std::uint32_t timing_index);
  void define_communicator(std::uint32_t comm, const std::vector<Member>& members);
  void answer(std::uint32_t rank, std::uint32_t slot, ReplyStatus status, Nanoseconds time_ns);
  // An end before the engine's time counts as now: what was told to a rank is not taken back.
  void finish(std::uint64_t operation, const std::vector<Nanoseconds>& ends_ns);
  // It waits outside and constrains nobody, until it resumes, somebody acts outside or an alarm of it rings: that only
  // if it is `proven` that none of its threads will go on by itself.
  // `awaits_values`: until values are sent, too.
  void set_aside(std::uint32_t rank, bool proven, bool awaits_values);
  void exited(std::uint32_t rank);

  Nanoseconds time_ns() const { return world_.now_ns; }
  std::optional<Nanoseconds> bound() const;      // none: no running rank constrains
  std::optional<Nanoseconds> next_time() const;  // none: no event
  // Carries out events before bound(), all but Phase::Issue also at it, and up to limit_ns. Returns right after one
  // at which an operation gets ready, a rank asks for the server's answer, or operations do not match; time has not
  // reached the limit then.
  Stop advance(Nanoseconds limit_ns, bool inclusive);

  std::uint64_t wakeups() const { return world_.wakeups; }
  std::uint32_t helper_waits() const;  // of ranks that live
  bool is_running(std::uint32_t index) const { return rank(index).liveness().runs(); }
  Liveness::State liveness(std::uint32_t index) const { return rank(index).liveness().state(); }
  std::vector<std::uint32_t> waiting_ranks() const;
  std::vector<std::uint32_t> running_ranks() const;
  std::vector<std::uint32_t> outside_ranks() const;
  // Outside, not known to be still, and with alarms that cannot ring for that.
  std::vector<std::uint32_t> unproven_ranks() const;
  std::vector<std::uint32_t> alarmed_ranks() const;  // with threads that wait until a deadline, or have come to it
  std::vector<std::uint32_t> helpers_run_ranks() const;  // that wait, while other threads of theirs run
  std::vector<Pending> pending_operations() const { return world_.operations.pending(); }
  std::vector<HostWait> host_waits() const;
  // When the oldest work of a rank's devices that is not done was issued; kNever: all is done.
  Nanoseconds oldest_issue_ns(std::uint32_t index) const { return rank(index).oldest_issue_ns(); }
  std::uint32_t last_site(std::uint32_t index) const { return rank(index).last_site(); }  // 0: unknown
  std::vector<Span> take_spans();
  std::vector<ScopeChange> take_scopes();  // in the order of each rank's records
  std::size_t span_count() const { return world_.spans.size(); }

 private:
  Rank& rank(std::uint32_t index) const;
  void schedule(std::uint32_t rank);
  Nanoseconds bound_ns() const;
  bool is_open(Nanoseconds time_ns, Nanoseconds bound_ns) const;
  bool rings_in_vain(Nanoseconds limit_ns, Nanoseconds bound_ns) const;
  void wake_outside();
  void wake_for_values();
  template <typename Predicate>
  std::vector<std::uint32_t> ranks_that(Predicate holds) const;
  Stop take_stop();

  World world_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // by number; null: absent
  std::vector<Index> await_values_;  // that were set aside, until values are sent
  std::vector<Index> live_;
  Inbox inbox_;
  std::uint32_t finished_operations_ = 0;
};

}  // namespace ph
