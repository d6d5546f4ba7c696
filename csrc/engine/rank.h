// One rank: its queue of records, its host clock, and the work of its devices.
//
// Records are cut, checked and dated when they are fed (rank_feed.cc) and carried out when the engine's time
// reaches them (rank_work.cc, rank_waits.cc). The engine calls next_moment() and process(); it never looks inside.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/common.h"
#include "engine/device.h"
#include "engine/history.h"
#include "engine/items.h"
#include "engine/liveness.h"
#include "engine/operations.h"
#include "engine/records_reader.h"
#include "engine/streams.h"
#include "protocol/channel.h"

namespace ph {

// What the ranks of one engine share.
struct World {
  explicit World(const Settings& of) : settings(of), sites(of.ranks), operations(sites) {}

  const Settings settings;
  Nanoseconds now_ns = 0;
  Sites sites;
  Operations operations;
  std::vector<Span> spans;
  std::vector<ScopeChange> scopes;
  Stop stop;
  std::uint64_t launches = 0;  // that have arrived
  std::uint64_t wakeups = 0;     // events that may wake a rank: acts outside, answers to drivers, ends
  std::uint32_t alarms_in_a_row = 0;  // that have rung since a rank last made progress
  bool acts = false;           // a rank was just allowed to act outside
  bool sends_values = false;   // a rank has just sent others values of tensors
};

class Rank {
 public:
  Rank(std::uint32_t rank, World& world) : rank_(rank), world_(world), gpu_(world.settings.gpu), reader_(rank) {}

  void set_gpu(const Gpu& gpu) { gpu_ = gpu; }

  // Input.
  std::vector<Announcement> feed(std::string_view cells, Nanoseconds host_clock_ns);
  void check_whole() const;  // throws if what was fed ends within a record that belongs together with others
  void set_duration(std::uint32_t signature, Nanoseconds duration_ns, double sm_demand, std::uint32_t timing);
  void end_operation(const Participant& part, std::uint32_t number, Nanoseconds end_ns);  // `number`: as in Span
  void answer(std::uint32_t slot, ReplyStatus status, Nanoseconds time_ns);
  // `proven`: none of its threads will go on by itself, so that its alarms may ring.
  void set_aside(bool proven);
  void wake();  // somebody acts outside: a rank that was set aside may do something from world.now_ns on
  void exit() { liveness_.exit(); }

  // Events.
  Moment next_moment() const { return {next_.time_ns, next_round(), next_phase()}; }
  void process();  // the event at next_moment(), at world.now_ns

  // State.
  const Liveness& liveness() const { return liveness_; }
  Nanoseconds guarantee_ns() const {
    return liveness_.waits() ? liveness_.since_ns() : std::max({host_clock_ns_, fed_ns_, liveness_.since_ns()});
  }
  bool has_alarms() const { return !alarms_.empty() && !liveness_.gone(); }
  bool alarmed() const { return has_alarms() || liveness_.helpers_run(); }
  bool lacks_proof() const { return liveness_.lacks_proof() && has_alarms(); }
  bool rings_next() const { return next_.source == Source::Alarm; }
  bool acts_next() const;  // the event at next_moment() is that a driver acts outside
  std::uint32_t helper_waits() const { return liveness_.gone() ? 0 : helper_waits_; }
  void add_host_waits(std::vector<HostWait>& waits) const;
  Nanoseconds oldest_issue_ns() const { return items_.oldest_issue_ns(); }
  std::uint32_t last_site() const { return last_site_; }
  std::string last_records() const;

 private:
  // A record in the queue: dated, its stream resolved.
  struct Queued {
    Nanoseconds issue_ns;
    Index stream;
    std::uint32_t id;
    std::uint32_t site;
    std::uint16_t device;
    RecordKind kind;
    std::uint8_t flags;
    std::array<std::uint64_t, kRecordArgs> args;
  };
  struct Timing {
    Nanoseconds duration_ns = -1;  // announced, not known yet
    std::uint32_t demand = 0;
    std::uint32_t timing = 0;
    bool announced = false;
  };
  struct Event {
    static constexpr Nanoseconds kUnrecorded = -1;
    static constexpr Nanoseconds kFed = -2;
    Nanoseconds time_ns = kUnrecorded;  // when it was recorded
    Index item = kNone;                 // that will record it
    bool kept = false;                  // its time may be asked for once it is done
  };
  struct Launch {
    std::vector<Queued> ops;
    Index item;
    std::uint32_t unfinished;
    Nanoseconds end_ns;
  };
  struct Wait {
    WaitKind kind{};
    bool open = false;
    bool background = false;
    bool announces = false;
    std::uint64_t serial = 0;
    std::uint32_t site = 0;
    Index stream = kNone;
    std::uint16_t device = 0;
    Index item = kNone;  // while it waits for work
    Nanoseconds asked_ns = 0;  // as the record says
    Nanoseconds issue_ns = 0;
    std::array<std::uint64_t, kRecordArgs> args{};
  };
  struct Timer {
    Nanoseconds time_ns;
    std::uint64_t serial;
    Index item;
    bool operator>(const Timer& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : serial > other.serial;
    }
  };
  struct DueWait {
    Nanoseconds time_ns;
    std::uint64_t key;
  };
  // In the order in which they happen at one time; see Phase.
  enum class Source : std::uint8_t { Compute, Timer, HelperAct, Record, Query, Alarm };
  // The rank's round at one time, and whether it has issued something in it.
  struct Round {
    Nanoseconds time_ns = -1;
    std::uint32_t number = 0;
    bool issued = false;
  };
  struct Next {
    Nanoseconds time_ns = kNever;
    Source source = Source::Compute;
    std::uint16_t device = 0;
  };

  // rank_feed.cc
  void take(const RecordsReader::Unit& unit, std::vector<Announcement>& announcements);
  void note_scope(const Record& record);
  void check_work(const Record& record, const Queued& queued);
  void check_transfer(const Rate& rate, const Record& record);
  void check_operation(const Record& record);
  void feed_event_record(const Record& record);
  void feed_wait(const Record& record, Queued queued);
  Nanoseconds resumes_ns(const Record& record) const;
  void feed_alarm(const Record& record);
  void succeed(std::uint64_t slot);
  void withdraw(std::uint64_t slot);
  void announce(const Record& record, std::string_view payload, std::vector<Announcement>& announcements);
  void forget_processed();

  // rank_work.cc
  void find_next();
  Phase next_phase() const;
  std::uint32_t next_round() const;
  void enter_round(const Queued& record);
  void carry_out(const Queued& record);
  void add_to_stream(const Queued& record, Item item);
  void add_copy(const Queued& record);
  void add_launch(const Queued& record);
  void start(Index item);
  void start_transfer(Index item);
  void start_launch(Index item);
  void complete(Index item);
  void run_ready();
  void set_active_launches(Device& device, std::uint32_t launches);
  Device& device(std::uint16_t ordinal);
  void end_later(Index item, Nanoseconds time_ns);
  Nanoseconds earliest_end_ns(const Item& item) const;

  // rank_waits.cc
  static bool is_query(WaitKind kind);  // answered at once
  static bool begins_local_wait(const Queued& record);
  static bool begins_round(const Queued& record);
  static bool acts_outside(const Queued& record);
  void begin_wait(const Queued& record);
  void ring_alarm();
  void evaluate_query(const DueWait& question);
  ReplyStatus query(const Wait& wait, bool background, std::uint64_t& value) const;
  std::vector<EventNews> news(const Wait& wait) const;
  std::vector<ActivityTimes> take_activities();
  void reply(std::uint64_t key, ReplyStatus status, std::uint64_t value);
  void close_wait(Wait& wait, Nanoseconds time_ns);
  Wait* open_wait(std::uint64_t key);
  const Event& event(std::uint64_t instance) const;
  std::string describe(Index item) const;

  const std::uint32_t rank_;
  World& world_;
  Gpu gpu_;  // of all its devices
  RecordsReader reader_;

  // Host.
  Nanoseconds fed_ns_ = 0;         // issue time of the last record fed, or of the last answer
  Nanoseconds host_clock_ns_ = 0;  // as reported
  Liveness liveness_;
  std::multiset<Nanoseconds> alarms_;
  std::uint32_t alarm_slot_ = 0;
  std::uint32_t helper_waits_ = 0;  // that helper threads have not been answered
  std::vector<Queued> queue_;
  std::size_t queue_head_ = 0;
  std::array<Wait, kReplySlots> waits_{};
  std::uint64_t wait_serial_ = 0;
  std::uint32_t last_scope_ = 0;  // of the last work; see NcclLaunchArg::Scope
  std::uint32_t last_site_ = 0;  // of the last call whose Python line is known
  std::vector<DueWait> queries_;      // in order of time, and so are
  std::vector<DueWait> helper_acts_;  // not in the queue: they do not wait until what their rank issued may happen

  // Devices.
  Streams streams_;
  Items items_;
  std::vector<Timing> timings_;  // by signature
  std::unordered_map<std::uint64_t, Event> events_;  // by instance; those that anybody may still ask about
  Pool<Launch> launches_;
  std::deque<ActivityTimes> activities_;  // that have ended and were not asked for yet
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Timer> timers_;  // heap: ends of copies and of launches
  std::uint64_t timer_serial_ = 0;
  Nanoseconds work_ns_ = 0;  // durations of all that was given to streams
  std::vector<Index> ready_;  // items to start, in order
  Next next_;
  Round round_;  // its last
};

}  // namespace ph
