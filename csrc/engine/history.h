// What the engine tells: announcements when it is fed, a Stop when it returns, spans of finished work.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "engine/common.h"

namespace ph {

// A record that is the server's business and not the engine's.
struct Announcement {
  RecordKind kind;
  std::uint8_t flags;
  std::uint16_t device;
  std::uint32_t rank;
  std::uint32_t id;
  std::uint32_t site;
  Nanoseconds host_time_ns;
  std::array<std::uint64_t, kRecordArgs> args;
  std::string payload;
};

// An operation all of whose participants have arrived. Send and Recv meet as one operation of kind Send.
struct Ready {
  std::uint64_t operation;  // 0, 1, 2 ... in the order in which operations got ready
  Nanoseconds time_ns;
  NcclOpKind kind;
  std::uint32_t comm;
  std::uint64_t count;
  std::uint64_t dtype;
  std::uint64_t reduction;
  std::uint64_t root;        // a rank of the communicator
  std::int64_t source;       // GPUs of a Send; -1 for collectives
  std::int64_t destination;
  std::uint64_t launch;      // the launch whose arrival made it ready: shared by what got ready together
  std::uint32_t rank;        // of the first participant in member order,
  std::uint32_t site;        // and its call site, as that rank numbers it
  std::vector<Nanoseconds> arrivals_ns;  // in member order; source, destination for a Send
};

// A wait that the server answers.
struct Request {
  std::uint32_t rank;
  std::uint16_t device;
  std::uint32_t slot;
  WaitKind kind;
  bool announces;
  std::array<std::uint64_t, kRecordArgs> args;
  std::uint32_t site;
  Nanoseconds time_ns;
};

struct Answer {
  std::uint32_t rank;
  std::uint32_t slot;
  WaitKind kind;
  bool background;
  Nanoseconds asked_ns;  // as the record says; a rank that was set aside may ask late
  ReplyStatus status;
  Nanoseconds time_ns;
  std::uint64_t value;
  std::vector<EventNews> news;
  std::vector<ActivityTimes> activities;
};

struct Stop {
  Nanoseconds time_ns = 0;
  std::vector<Ready> ready;
  std::vector<Request> requests;
  std::vector<Answer> answers;
  std::optional<std::string> mismatch;

  // The server must act before time goes on. Answers do not count: they bound time by themselves.
  bool needs_server() const { return !ready.empty() || !requests.empty() || mismatch; }
};

// For the deadlock report: an operation that some participants have reached and others have not.
struct Pending {
  std::uint32_t comm;
  NcclOpKind kind;
  std::uint64_t count;
  std::uint64_t dtype;
  std::uint64_t sequence;
  // Rank, GPU, call site, since when.
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, Nanoseconds>> arrived;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> missing;  // rank, GPU
  std::int64_t source;       // GPUs of a Send or Recv; -1 for collectives
  std::int64_t destination;
};

// Likewise: what the host of a rank waits for. `held_up_by`: running work of its own that it waits for, in words.
struct HostWait {
  std::uint32_t rank;
  WaitKind kind;
  std::uint32_t site;
  Nanoseconds since_ns;
  std::vector<std::string> held_up_by;
};

// Call sites as the ranks announced them, for messages.
class Sites {
 public:
  explicit Sites(std::size_t ranks) : by_rank_(ranks) {}

  void define(std::uint32_t rank, std::uint32_t site, std::string_view text) { by_rank_[rank][site] = text; }

  std::string text(std::uint32_t rank, std::uint32_t site) const {
    const auto found = by_rank_[rank].find(site);
    return found == by_rank_[rank].end() ? "an unknown line" : found->second;
  }

 private:
  std::vector<std::unordered_map<std::uint32_t, std::string>> by_rank_;
};

enum class SpanKind : std::uint8_t { None = 0, Kernel = 1, Copy = 2, Fill = 3, Communication = 4, HostWait = 5 };

// Finished work, laid out as a row of spans/N.npy.
struct Span {
  std::uint32_t rank;
  SpanKind kind;
  std::uint16_t device;
  std::uint32_t stream;
  std::uint32_t id;  // Kernel: timing index; Copy: CopyKind; Communication: how many operations had been finished
                     // before this one; HostWait: WaitKind
  Nanoseconds issue_ns;
  Nanoseconds start_ns;
  Nanoseconds end_ns;
};

// From here on a rank issues work for another module, or in another phase, laid out as a row of scopes/N.npy.
struct ScopeChange {
  std::uint32_t rank;
  std::uint32_t scope;
  Nanoseconds issue_ns;
};

}  // namespace ph
